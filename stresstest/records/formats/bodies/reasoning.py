"""The thought before an answer, under each name that servers and loggers give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REASONING_KEYS = (
    *("reasoning_content", "reasoning", "thinking", "thinking_blocks", "reasoning_details", "reasoning_text"),
    *("thinking_content", "thought", "tool_plan"),
)
_EXTRA_FIELDS = ("provider_specific_fields", "model_extra")
_PART_KEYS = ("reasoningContent", "reasoning")
"""Of parts without a type: Bedrock's Converse, Haystack."""
_THOUGHT_KEYS = (
    *("thinking", "reasoning", "content", "text", "summary"),
    *("reasoningContent", "reasoningText", "reasoning_text", "think"),
)
_DEPTH = 3
_REASONING_PARTS = frozenset({"reasoning", "thinking", "think"})


def find_reasoning(holder: Mapping[str, Any]) -> str:
    """What a message, or a record, keeps of the thought before its answer; "" where it keeps none."""
    found = (_thought(held.get(key)) for held in _with_extra_fields(holder) for key in REASONING_KEYS)
    return next(filter(None, found), "") or join_reasoning(holder.get("content"))


def _with_extra_fields(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The holder, and the objects in which clients keep what they do not know."""
    yield holder
    yield from (extra for key in _EXTRA_FIELDS if isinstance(extra := holder.get(key), dict))


def is_reasoning(part: Any) -> bool:
    """Whether a part of a message, or an item, is a thought."""
    if not isinstance(part, dict):
        return False
    if part.get("type") is None and "role" not in part:
        return any(isinstance(part.get(key), dict) for key in _PART_KEYS)
    kind = part.get("type")
    return isinstance(kind, str) and kind in _REASONING_PARTS


def join_reasoning(parts: Any) -> str:
    """The thoughts among the parts of a message."""
    listed = parts if isinstance(parts, list | tuple) else ()
    return "".join(map(_thought, filter(is_reasoning, listed)))


def _thought(value: Any, depth: int = _DEPTH) -> str:
    """The text of a thought: a string, a part, or a list of them; a request's settings for it have none."""
    if isinstance(value, str):
        return value
    if depth == 0:
        return ""
    if isinstance(value, list | tuple):
        return "".join(_thought(each, depth - 1) for each in value)
    if isinstance(value, dict):
        # What Inspect keeps of redacted reasoning is encrypted; only its summary is text.
        keys = ("summary",) if value.get("redacted") is True else _THOUGHT_KEYS
        return next(filter(None, (_thought(value.get(key), depth - 1) for key in keys)), "")
    return ""
