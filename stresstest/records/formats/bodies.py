"""Response bodies of the OpenAI protocol and their answers: chat completions, completions, the Responses
API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stresstest.model import Token
from stresstest.records.formats.logprobs import logprob_tokens
from stresstest.records.record import TextlessError, UnreadableError, describe_type

ONLY_TOOL_CALLS = "only tool calls, no text"
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call"})


def is_body(value: Any) -> bool:
    """Whether this is a response body: choices, or the items of the Responses API."""
    return isinstance(value, dict) and (has_choices(value) or has_items(value))


def parse_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    """Every answer of a body, in order. UnreadableError when it holds none or has a wrong type."""
    return [items_answer(body)] if has_items(body) else choice_answers(body)


def has_choices(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("choices"), list)


def has_items(body: Mapping[str, Any]) -> bool:
    """Whether a body has the items of the Responses API."""
    output = body.get("output")
    return isinstance(output, list) and (
        body.get("object") == "response" or any(isinstance(i, dict) and "content" in i for i in output)
    )


def choice_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    choices = body["choices"]
    if not choices:
        raise UnreadableError("the response has no choices")
    return [_choice(choice) for choice in choices]


def _choice(choice: Any) -> RecordedAnswer:
    if not isinstance(choice, dict):
        raise UnreadableError("a choice is not an object")
    message = choice.get("message")
    if message is not None and not isinstance(message, dict):
        raise UnreadableError("a message is not an object")
    reasoning = ""
    if message is None:
        text = join_content(choice.get("text"))
    else:
        text = join_content(message.get("content"))
        thought = message.get("reasoning_content") or message.get("reasoning")
        reasoning = thought if isinstance(thought, str) else ""
    if text is None and not reasoning:
        if message is not None and message.get("tool_calls"):
            raise TextlessError(ONLY_TOOL_CALLS)
        raise UnreadableError("no text in it")
    reason = choice.get("finish_reason")
    finish = reason if isinstance(reason, str) else None
    tokens = logprob_tokens(choice.get("logprobs"), text or "", reasoning)
    return RecordedAnswer(text or "", reasoning, finish, tokens)


def items_answer(body: Mapping[str, Any]) -> RecordedAnswer:
    """The Responses API: message items in order; `max_output_tokens` means that the cap cut the answer."""
    items = [item for item in body["output"] if isinstance(item, dict)]
    texts = [join_content(item.get("content")) for item in items if item.get("type", "message") == "message"]
    thoughts = [join_content(item.get("content")) for item in items if item.get("type") == "reasoning"]
    found = [text for text in texts if text is not None]
    if not found and not any(thoughts):
        raise TextlessError(ONLY_TOOL_CALLS) if has_tool_call(items) else UnreadableError("no text in it")
    details = body.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    finish = {"max_output_tokens": "length", None: "stop" if body.get("status") == "completed" else None}
    return RecordedAnswer("".join(found), "".join(t or "" for t in thoughts), finish.get(why, why))


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One of the answers of a row. known: False where the log kept no text of it."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    tokens: tuple[Token, ...] | None = None
    known: bool = True


def join_content(content: Any) -> str | None:
    """A message's content: text, or a list of parts of which the texts count; None for parts without any.

    UnreadableError for anything else.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p.get("text", p.get("refusal")) if isinstance(p, dict) else p for p in content]
        texts = [p for p in parts if isinstance(p, str)]
        return "".join(texts) if texts or not content else None
    raise UnreadableError(f"no text there: {describe_type(content)}")


def has_tool_call(parts: Any) -> bool:
    """Whether one of an answer's parts, or items, is a call of a tool."""
    return isinstance(parts, list) and any(isinstance(p, dict) and p.get("type") in _CALLS for p in parts)
