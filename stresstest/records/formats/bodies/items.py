"""Bodies of the Responses API: a list of items, messages and calls among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.model.finish_reason import LENGTH, STOP, normalize_finish_reason
from stresstest.records.formats.bodies.answer import RecordedAnswer
from stresstest.records.formats.bodies.calls import (
    ONLY_TOOL_CALLS,
    arguments,
    has_tool_call,
    is_nothing,
    is_tool_call,
)
from stresstest.records.formats.bodies.content import is_refusal, join_content
from stresstest.records.formats.bodies.reasoning import join_reasoning
from stresstest.records.record import TextlessError, UnreadableError


def has_items(body: Mapping[str, Any]) -> bool:
    """Whether a body has the items of the Responses API."""
    output = body.get("output")
    if not isinstance(output, list):
        return False
    items = [each for each in output if isinstance(each, dict)]
    # Without types, messages of the model's are the answers to a request of several.
    return body.get("object") == "response" or any(
        "content" in i and ("type" in i or "role" not in i) for i in items
    )


def items_answer(body: Mapping[str, Any]) -> RecordedAnswer:
    """The Responses API: messages and calls in order; `max_output_tokens` means that the cap cut it."""
    items = [item for item in body["output"] if isinstance(item, dict)]
    finish = _items_finish(body)
    reasoning = join_reasoning(items)
    found = [text for item in items if (text := _item_text(item)) is not None]
    # A call is a line of its own: as a record of data it would make data of what follows it.
    text = ("\n" if has_tool_call(items) else "").join(found)
    capped = normalize_finish_reason(finish) == LENGTH
    if not reasoning and not capped and is_nothing(text) and has_tool_call(items):
        raise TextlessError(ONLY_TOOL_CALLS)
    if not found and not reasoning:
        raise UnreadableError("no text in it")
    refused = any(map(is_refusal, items))
    return RecordedAnswer(text, reasoning, finish, calls=has_tool_call(items), refused=refused)


def _item_text(item: Mapping[str, Any]) -> str | None:
    """The text of a message, or the arguments of a call; None for other items."""
    if is_tool_call(item):
        return arguments(item)
    return join_content(item.get("content")) if item.get("type", "message") == "message" else None


_STATUS = {"completed": STOP, "failed": "error", "cancelled": "abort", "in_progress": "abort"}


def _items_finish(body: Mapping[str, Any]) -> str | None:
    details = body.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    ended = _STATUS.get(str(body.get("status")))
    return {"max_output_tokens": LENGTH, None: ended}.get(why, why)
