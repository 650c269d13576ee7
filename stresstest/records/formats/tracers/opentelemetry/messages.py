"""Answers and prompts as the GenAI semantic conventions keep them: messages with parts, and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stresstest.records.formats.bodies.calls import (
    arguments,
    has_calls,
    has_tool_call,
    is_tool_call,
    message_arguments,
)
from stresstest.records.formats.bodies.reasoning import find_reasoning, join_reasoning
from stresstest.records.formats.json_values import as_object, objects
from stresstest.records.formats.tracers.opentelemetry.otlp import attributes, plain, structure

CALLED: list[dict[str, Any]] = [{}]
"""Tells that an answer's text holds the arguments of calls."""
_CHOICE_EVENT = "gen_ai.choice"
_SAID = frozenset({"text", "output_text", "refusal"})
"""Types of the parts of a message that are its text."""


def read_messages(messages: Any) -> list[dict[str, Any]]:
    """The answers that output messages hold, as fields of plain rows."""
    several = messages if isinstance(messages, list | tuple) else [messages]
    if not all(isinstance(each, dict) for each in several):
        text = _joined(messages)
        return [] if text is None else [{"response": text}]
    found = []
    for each in several:
        thought = find_reasoning(each) or join_reasoning(each.get("parts"))
        text = _joined(each)
        fields = {
            "response": "" if text is None and thought else text,
            "reasoning_content": thought or None,
            "finish_reason": each.get("finish_reason"),
        }
        called = {"tool_calls": CALLED} if holds_calls(each) else {}
        found.append({key: value for key, value in fields.items() if isinstance(value, str)} | called)
    return [each for each in found if "response" in each]


def as_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a plain row as a choice of a response body."""
    thought = answer.get("reasoning_content")
    calls = {key: answer[key] for key in ("tool_calls",) if has_calls(answer)}
    return {
        "message": {"content": answer.get("response", ""), "reasoning_content": thought, **calls},
        "finish_reason": answer.get("finish_reason"),
    }


def event_messages(span: Mapping[str, Any], found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The output messages that are kept as events: a span's own, a list of them in an attribute, or the one
    that a log record is."""
    own = [each for each in objects(span.get("events")) if each.get("name") == _CHOICE_EVENT]
    kept = map(attributes, (each.get("attributes") for each in own))
    contents = (structure(fields.get("gen_ai.event.content", fields)) for fields in kept)
    listed = [each for each in objects(structure(found.get("events"))) if is_choice(each)]
    body = [plain(span.get("body"))] if is_choice(span) else []
    return list(map(_event_message, (*contents, *listed, *body)))


def is_choice(event: Mapping[str, Any]) -> bool:
    """Whether this is the event of an answer: an object in an attribute, or a log record."""
    named = (event.get(key) for key in ("event.name", "eventName", "event_name"))
    return _CHOICE_EVENT in named or attributes(event.get("attributes")).get("event.name") == _CHOICE_EVENT


def _event_message(event: Any) -> dict[str, Any]:
    """None of its text where the event keeps none: it is an answer all the same."""
    kept = as_object(event)
    said = structure(kept.get("message", kept.get("content")))
    message = said if isinstance(said, dict) else {} if said is None else {"content": said}
    return {**message, "finish_reason": kept.get("finish_reason")}


def read_prompt(value: Any) -> Any:
    """The turns of the prompt, or its text."""
    value = structure(value)
    if isinstance(value, list | tuple) and all(isinstance(each, dict) for each in value):
        return [{"role": each.get("role"), "content": _joined(each)} for each in value]
    return _joined(value)


def holds_calls(message: Any) -> bool:
    """Whether a message, or a list of them, calls a tool."""
    if isinstance(message, list | tuple):
        return any(map(holds_calls, message))
    if not isinstance(message, dict):
        return False
    parts = message.get("parts")
    return has_calls(message) or has_tool_call(list(parts) if isinstance(parts, list | tuple) else None)


def _joined(value: Any) -> str | None:
    """The texts of a message; None for none."""
    found = list(_pieces(value))
    return "\n".join(found) if found else None


def _pieces(value: Any) -> Iterator[str]:
    """Texts of a message: a string, {"content": …}, {"parts": [{"type": "text", "content": …}]}, and the
    arguments of calls among its parts or beside its content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        for each in value:
            yield from _pieces(each)
    elif is_tool_call(value):
        yield from filter(None, [arguments(value)])
    elif isinstance(value, dict) and value.get("type", "text") in _SAID:
        key = next((key for key in ("parts", "content", "text") if value.get(key) is not None), None)
        yield from _pieces(value[key]) if key else ()
        beside = message_arguments({**value, "content": None, key or "content": None})
        yield from filter(None, [beside])
