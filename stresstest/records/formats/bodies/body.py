"""A response body of any API to its answers: chat completions, completions, the Responses API, Anthropic's
messages (vLLM's `/v1/messages` too)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.calls import has_calls
from stresstest.records.formats.bodies.choices import choice_answers, has_choices
from stresstest.records.formats.bodies.content import is_refusal, message_text
from stresstest.records.formats.bodies.items import has_items, items_answer
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.record import UnreadableError


def is_body(value: Any) -> bool:
    """Whether this is a response body: choices, the items of the Responses API, or Anthropic's message."""
    return isinstance(value, dict) and (has_choices(value) or has_items(value) or _is_message(value))


def is_whole_body(value: Mapping[str, Any]) -> bool:
    """Whether an object says of itself that it is a body of the Responses API or Anthropic's message."""
    return (value.get("object") == "response" and has_items(value)) or _is_message(value)


def parse_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    """Every answer of a body, in order. UnreadableError when it holds none or has a wrong type."""
    if _is_message(body):
        return [_message_answer(body)]
    return [items_answer(body)] if has_items(body) else choice_answers(body)


def _is_message(body: Mapping[str, Any]) -> bool:
    speaks = (body.get("type"), body.get("role")) == ("message", "assistant")
    return speaks and isinstance(body.get("content"), str | list)


def _message_answer(body: Mapping[str, Any]) -> RecordedAnswer:
    reason = body.get("stop_reason")
    finish = reason if isinstance(reason, str) else None
    reasoning = find_reasoning(body)
    text = message_text(body, finish, reasoning)
    if text is None and not reasoning:
        raise UnreadableError("no text in it")
    return RecordedAnswer(
        text or "", reasoning, finish, calls=has_calls(body), refused=finish == "refusal" or is_refusal(body)
    )
