"""Answers inside the bodies of the OpenAI protocol: chat completions, completions, responses.

Logprobs that were kept give the model's own tokens with their entropy; else the text alone counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stresstest.information import entropy_bound
from stresstest.model import Token
from stresstest.records.mapping import kind
from stresstest.records.record import TextlessError, UnreadableError

ONLY_TOOL_CALLS = "only tool calls, no text"
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of a body. known: False where the log kept no text of it."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    tokens: tuple[Token, ...] | None = None
    known: bool = True


def is_body(value: Any) -> bool:
    """Whether this is a response body: choices, or the items of the Responses API."""
    return isinstance(value, dict) and (isinstance(value.get("choices"), list) or _is_response(value))


def answers(body: Mapping[str, Any]) -> list[Answer]:
    """Every answer of a body, in order. UnreadableError when it holds none or has a wrong type."""
    if _is_response(body):
        return [_responses_answer(body)]
    choices = body["choices"]
    if not choices:
        raise UnreadableError("the response has no choices")
    return [_choice(choice) for choice in choices]


def _choice(choice: Any) -> Answer:
    if not isinstance(choice, dict):
        raise UnreadableError("a choice is no object")
    message = choice.get("message")
    if message is not None and not isinstance(message, dict):
        raise UnreadableError("a message is no object")
    reasoning = ""
    if message is None:
        text = joined(choice.get("text"))
    else:
        text = joined(message.get("content"))
        thought = message.get("reasoning_content") or message.get("reasoning")
        reasoning = thought if isinstance(thought, str) else ""
    if text is None and not reasoning:
        if message is not None and message.get("tool_calls"):
            raise TextlessError(ONLY_TOOL_CALLS)
        raise UnreadableError("no text in it")
    reason = choice.get("finish_reason")
    finish = reason if isinstance(reason, str) else None
    tokens = _logprob_tokens(choice.get("logprobs"), text or "", reasoning)
    return Answer(text or "", reasoning, finish, tokens)


def joined(content: Any) -> str | None:
    """A message's content: text, or a list of parts of which the texts count; None for parts without any.

    UnreadableError for anything else.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p.get("text", p.get("refusal")) if isinstance(p, dict) else p for p in content]
        texts = [p for p in parts if isinstance(p, str)]
        return "".join(texts) if texts or not content else None
    raise UnreadableError(f"no text there: {kind(content)}")


def calls_tools(parts: Any) -> bool:
    """Whether one of an answer's parts, or items, is a call of a tool."""
    return isinstance(parts, list) and any(isinstance(p, dict) and p.get("type") in _CALLS for p in parts)


def _is_response(body: Mapping[str, Any]) -> bool:
    output = body.get("output")
    return isinstance(output, list) and (
        body.get("object") == "response" or any(isinstance(i, dict) and "content" in i for i in output)
    )


def _responses_answer(body: Mapping[str, Any]) -> Answer:
    """The Responses API: message items in order; cut by the cap when it says `max_output_tokens`."""
    items = [item for item in body["output"] if isinstance(item, dict)]
    texts = [joined(item.get("content")) for item in items if item.get("type", "message") == "message"]
    thoughts = [joined(item.get("content")) for item in items if item.get("type") == "reasoning"]
    found = [text for text in texts if text is not None]
    if not found and not any(thoughts):
        raise TextlessError(ONLY_TOOL_CALLS) if calls_tools(items) else UnreadableError("no text in it")
    details = body.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    finish = {"max_output_tokens": "length", None: "stop" if body.get("status") == "completed" else None}
    return Answer("".join(found), "".join(t or "" for t in thoughts), finish.get(why, why))


def _logprob_tokens(logprobs: Any, text: str, reasoning: str) -> tuple[Token, ...] | None:
    """The tokens of a choice, if logprobs are there and spell its text; None otherwise.

    Bytes count where a token is a part of a character. Tokens that spell something else (special tokens
    shown as text, a log that was cut) would put the onset in the wrong place.
    """
    if not isinstance(logprobs, dict):
        return None
    if isinstance(logprobs.get("content"), list):
        found = [_chat_token(each) for each in logprobs["content"]]
    elif isinstance(logprobs.get("tokens"), list):
        found = _completion_tokens(logprobs)
    else:
        return None
    whole = b"".join(raw for raw, _, _ in found if raw is not None)
    if not found or any(raw is None for raw, _, _ in found):
        return None
    spelled = whole.decode("utf-8", "replace")
    if spelled == reasoning + text or spelled.strip() == (reasoning + text).strip():
        return tuple(_assembled(found, len(reasoning)))
    return tuple(_assembled(found, 0)) if spelled.strip() == text.strip() else None


_Piece = tuple[bytes | None, float | None, float | None]


def _chat_token(entry: Any) -> _Piece:
    if not isinstance(entry, dict):
        return None, None, None
    raw = entry.get("bytes")
    try:
        piece = bytes(raw) if isinstance(raw, list) else str(entry.get("token", "")).encode()
    except (ValueError, TypeError):
        return None, None, None
    top = entry.get("top_logprobs")
    values = _numbers(each.get("logprob") for each in top if isinstance(each, dict)) if top else []
    own = entry.get("logprob")
    return piece, own if isinstance(own, float | int) else None, entropy_bound(values) if values else None


def _completion_tokens(logprobs: Mapping[str, Any]) -> list[_Piece]:
    tokens, own = logprobs["tokens"], logprobs.get("token_logprobs") or []
    tops = logprobs.get("top_logprobs") or []
    found: list[_Piece] = []
    for n, token in enumerate(tokens):
        top = tops[n] if n < len(tops) else None
        values = _numbers(top.values()) if isinstance(top, dict) else []
        logprob = own[n] if n < len(own) and isinstance(own[n], float | int) else None
        piece = token.encode("utf-8", "replace") if isinstance(token, str) else None
        found.append((piece, logprob, entropy_bound(values) if values else None))
    return found


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(v) for v in values if isinstance(v, float | int) and not isinstance(v, bool)]


def _assembled(pieces: list[_Piece], reasoning: int) -> Iterable[Token]:
    """Pieces as tokens of whole characters: a character belongs to the token that completes it."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    seen = 0
    for raw, logprob, entropy in pieces:
        text = decoder.decode(raw or b"")
        yield Token(text, logprob=logprob, entropy=entropy, reasoning=seen < reasoning)
        seen += len(text)
