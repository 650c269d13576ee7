"""Texts of a line that are neither judged nor read as its prompt, so that a scan can say which they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stresstest.records.formats.adapter import Row
from stresstest.records.formats.fields import ASKED_KEYS
from stresstest.records.record import Record

LEAST_CHARS = 200
"""Characters from which on a text is worth naming."""
_FIRST_LINES, _STEP = 64, 16
_DEPTH = 16
"""OTLP keeps the texts of an attribute at the tenth level and below."""
_NAMED = 60
"""Characters of a name that are kept."""


def is_looked_at(line: int) -> bool:
    """Whether the line is one of those whose other texts are looked for: the first 64, and every 16th."""
    return line <= _FIRST_LINES or line % _STEP == 0


def unread_texts(row: Row, records: Sequence[Record]) -> tuple[str, ...]:
    """The paths ("metadata.raw") of the long texts that are part of no record's answer, reasoning or prompt.

    A text that is an answer with its prompt around it counts as read where the answer is most of it. Elements
    of a list have no names of their own.
    """
    read = [text.strip() for each in records for text in (each.text, each.reasoning, each.prompt_text)]
    paths = (
        path
        for key, value in row.items()
        if key not in ASKED_KEYS
        for path in _unread(value, key[:_NAMED], read, _DEPTH)
    )
    return tuple(dict.fromkeys(paths))


def _unread(value: Any, path: str, read: Sequence[str], depth: int) -> Iterator[str]:
    """The paths of the long texts in a value that were not read, also inside JSON that is kept as a text."""
    if isinstance(value, str):
        text = value.strip()
        if len(text) >= LEAST_CHARS and not any(_is_part(text, each) for each in read):
            inner = _decoded(text) if depth else None
            yield from [path] if inner is None else _unread(inner, path, read, depth - 1)
    elif depth and isinstance(value, dict):
        named = value.get("key")  # OTLP's attributes
        for key, each in value.items():
            own = named if isinstance(named, str) else str(key)
            yield from _unread(each, f"{path}.{own[:_NAMED]}", read, depth - 1)
    elif depth and isinstance(value, list):
        for each in value:
            yield from _unread(each, path, read, depth - 1)


def _is_part(text: str, read: str) -> bool:
    """Whether what was read holds the text, as it is or as JSON writes it, or is most of it."""
    escaped = msgspec.json.encode(text).decode()[1:-1]
    return text in read or escaped in read or (2 * len(read) >= len(text) and read in text)


def _decoded(text: str) -> dict[str, Any] | list[Any] | None:
    if text.startswith(("{", "[")):
        with suppress(msgspec.DecodeError, RecursionError):
            found: dict[str, Any] | list[Any] = msgspec.json.decode(text.encode("utf-8", "replace"))
            return found
    return None
