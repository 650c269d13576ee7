"""The turns of a conversation that a record keeps: who speaks, and where its answer stands among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stresstest.detectors.text.thinking import thinking_end
from stresstest.model.finish_reason import LENGTH
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.content import join_content, message_text
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.record import LONG_ANSWER, UnreadableError

TOOL_SPEAKS = frozenset(
    {"tool", "function", "ipython", "observation", "tool_response", "tool_result", "tool_call", "environment"}
    | {"toolresult", "toolresponse", "function_call_output", "functionexecutionresult"}
)
MODEL_SPEAKS = frozenset({"assistant", "gpt", "model", "chatgpt", "bot", "ai", "agent", "chatbot"})
_ASKS = frozenset({"system", "developer", "user", "human"})
_ASKS_TOO = _ASKS | {
    "prompter",
    "customer",
    "client",
    "student",
    "instruction",
    "question",
    "input",
    "none",
    "",
}
_CLASS = re.compile(r"(?:message)?(?:chunk)?$")
"""What LangChain's and AutoGen's classes have behind the speaker's name."""
_SAID = frozenset({"content", "tool_calls", "function_call", "text", "value"})
_IDS = frozenset(
    {"id", "call_id", "tool_use_id", "tool_call_id", "uuid", "index", "cache_control"}
    | {"signature", "encrypted_content"}
)
_MIN_LONGER, _MIN_CHARS = 4, 200
"""Times and characters by which a turn is so much longer than an answer that it was read out of it."""


def before_the_answer(turns: list[Any], found: Sequence[RecordedAnswer]) -> list[Any]:
    """The turns without the record's own answer and what follows it, such as the results of its calls.

    Logs of agents and of evaluations keep the whole conversation beside the answer. Left in the prompt, the
    answer would give each answer a prompt of its own. Before the last question only a long answer is looked
    for: an earlier turn with the same few words is part of the prompt.
    """
    said = {_words(answer.text, answer.reasoning) for answer in found if answer.known}
    asked = False
    for at in range(len(turns) - 1, -1, -1):
        role = role_of(turns[at])
        asked = asked or role in _ASKS
        if role in MODEL_SPEAKS:
            same = said.intersection(_said(turns[at]))
            if any(len(words) >= LONG_ANSWER or not asked for words in same):
                return turns[:at]
            if asked:
                break
    return turns


def refuse_longer_ending(turns: list[Any], found: Sequence[RecordedAnswer]) -> None:
    """Raise UnreadableError where the model speaks last and says far more than the record's answer: a number
    or a label that was read out of it tells nothing of how it went."""
    if not turns or not found or role_of(turns[-1]) not in MODEL_SPEAKS:
        return
    longest = max(len(answer.reasoning) + len(answer.text) for answer in found)
    if max(map(len, _said(turns[-1])), default=0) >= max(_MIN_LONGER * longest, _MIN_CHARS):
        raise UnreadableError(
            "the conversation ends with a far longer answer than the record's own, which may have been read "
            "out of it: name the answer with --field, for example --field response=messages.-1.content"
        )


def beside_text(turns: Iterable[Any]) -> str:
    """What turns hold beside their texts, as JSON: pictures and other parts, calls of tools; "" for nothing.

    Ids are left out, which are new in each request.
    """
    found = [held for turn in turns if isinstance(turn, dict) for held in _beside(turn)]
    return json.dumps(found, sort_keys=True, default=str) if found else ""


def _beside(turn: Mapping[str, Any]) -> Iterator[Any]:
    content, calls = turn.get("content"), turn.get("tool_calls")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and not isinstance(part.get("text", part.get("refusal")), str):
            yield _without_ids(part)
    yield from map(_without_ids, calls if isinstance(calls, list) else ())
    yield from (turn[key] for key in ("function_call", "images") if turn.get(key))
    if turn.keys().isdisjoint(_SAID):
        yield _without_ids(turn)  # a call, or the result of one


def _without_ids(part: Any) -> Any:
    return {key: value for key, value in part.items() if key not in _IDS} if isinstance(part, dict) else part


def unwrap_turn(turn: Any) -> Any:
    """A turn as such: LangChain keeps its content a level lower, and calls its speaker a type."""
    if not isinstance(turn, dict):
        return turn
    if turn.get("type") == "constructor" and isinstance(turn.get("id"), list) and turn["id"]:
        turn = {**turn, "type": turn["id"][-1]}  # LangChain.js names the class there alone
    inner = (turn.get(key) for key in ("data", "kwargs"))
    held = next((each for each in inner if isinstance(each, dict) and "content" in each), turn)
    spoken = _speaker(held) or _speaker(turn)
    return turn if held is turn and ("role" in turn or spoken is None) else {**held, "role": spoken}


def _speaker(turn: Mapping[str, Any]) -> Any:
    return _named_speaker(turn) or turn.get("type")


def _named_speaker(turn: Mapping[str, Any]) -> Any:
    is_autogens = str(turn.get("type", "")).endswith("Message")
    return turn.get("role") or (turn.get("source") if is_autogens else None)


def role_of(turn: Any) -> str | None:
    """Who speaks; LangChain calls it the type of a message, or its class."""
    return speaker_named(str(_speaker(turn))) if isinstance(turn, dict) else None


def speaker_named(name: str) -> str:
    """The speaker by any of its names: `AIMessageChunk` is "ai", `tool-response` is "tool_response"."""
    lower = name.lower().replace("-", "_")
    return _CLASS.sub("", lower) or lower


def asks(turn: Any) -> bool:
    """Whether a turn asks for something: not the model's, a tool's, or that of another agent."""
    if not isinstance(turn, dict):
        return True
    role, named = role_of(turn), _named_speaker(turn) is not None
    return role not in MODEL_SPEAKS | TOOL_SPEAKS and (not named or role in _ASKS_TOO)


def may_ask(name: str) -> bool:
    """The same of a speaker's name."""
    return speaker_named(name) in _ASKS_TOO


def _said(turn: Mapping[str, Any]) -> Iterator[str]:
    """What a turn says, with the arguments of its calls and without them."""
    reasoning = find_reasoning(turn)
    with suppress(UnreadableError):
        yield _words(message_text(turn, LENGTH) or "", reasoning)
        if content := join_content(turn.get("content")):
            yield _words(content, reasoning)


def _words(text: str, reasoning: str) -> str:
    """A text for comparison: one log keeps the reasoning in it, another apart, and parts are joined with line
    breaks or without."""
    answer = text[thinking_end(text) :]
    return "".join((answer if answer.strip() else reasoning or text).split())
