"""Texts of a line that are neither judged nor read as its prompt, so that a scan can say which they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stresstest.config.credentials.texts import hide_credentials
from stresstest.records.formats.adapter import Row
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS, role_of
from stresstest.records.formats.fields import ASKED_KEYS
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import Record

_LEAST_CHARS = 200
"""Characters from which on a text is worth naming."""
_FIRST_LINES, _STEP = 64, 16
_FEW_SIGNS = 16
"""Different signs of a text without blanks, at most, that is no encoded one: a model has failed in it."""
_DEPTH = 16
"""OTLP keeps the texts of an attribute at the tenth level and below."""
_FEW_ANSWERS, _MOST_TEXTS = 8, 64
_NAMED = 60
"""Characters of a name that are kept."""
_CONVERSATIONS = ("messages", "conversations")


def is_looked_at(line: int) -> bool:
    """Whether the line is one of those whose other texts are looked for: the first 64, and every 16th."""
    return line <= _FIRST_LINES or line % _STEP == 0


def unread_texts(row: Row, records: Sequence[Record]) -> tuple[str, ...]:
    """The paths ("metadata.raw") of the long texts that are part of no record's answer, reasoning or prompt.

    A text that is an answer with its prompt around it counts as read where the answer is most of it and the
    row has few. Elements of a list have no names of their own. Of a row with many texts the first are looked
    at, so that the time is linear.
    """
    texts = dict.fromkeys(text for each in records for text in (each.text, each.reasoning, each.prompt_text))
    read = [text.strip() for text in texts]  # many answers have one prompt
    known = _Read("\0".join(read), read if len(records) <= _FEW_ANSWERS else ())
    left = iter(range(_MOST_TEXTS))
    others = {key: value for key, value in row.items() if key not in ASKED_KEYS}
    own = {key: row[key][-1] for key in _CONVERSATIONS if _is_ended_by_the_model(row.get(key))}
    return tuple(dict.fromkeys(map(hide_credentials, _unread({**others, **own}, "", known, left))))


def _is_ended_by_the_model(turns: Any) -> bool:
    """Whether the last turn is an answer, of which more may be kept than was read."""
    last = turns[-1] if isinstance(turns, list) and turns else None
    return role_of(last) in MODEL_SPEAKS or (
        isinstance(last, dict) and str(last.get("from")).lower() in MODEL_SPEAKS
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a row: all of it in one text, and each for itself where there are few."""

    joined: str
    each: Sequence[str]

    def holds(self, text: str) -> bool:
        """Whether the text is part of it, as it is or as JSON writes it, or little more than one of them."""
        if text in self.joined or any(2 * len(each) >= len(text) and each in text for each in self.each):
            return True
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        return escaped != text and escaped in self.joined


def _unread(value: Any, path: str, read: _Read, left: Iterator[int]) -> Iterator[str]:
    """The paths of the long texts in a value that were not read, also inside JSON that is kept as a text.

    left: as many steps as further texts may be looked at.
    """
    for (name, text), _ in zip(_long_texts(value, path, _DEPTH), left, strict=False):
        if not read.holds(text):
            inner = structure_in(text)
            yield from [name] if inner is None else _unread(inner, name, read, left)


def _long_texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        text = value.strip()
        head = text[:_LEAST_CHARS]
        encoded = head.isascii() and not any(map(str.isspace, head)) and len(set(head)) > _FEW_SIGNS
        if len(text) >= _LEAST_CHARS and not encoded:
            yield path, text
    elif depth and isinstance(value, dict):
        named = value.get("key")  # OTLP's attributes
        for key, each in value.items():
            own = (named if isinstance(named, str) else str(key))[:_NAMED]
            yield from _long_texts(each, f"{path}.{own}" if path else own, depth - 1)
    elif depth and isinstance(value, list):
        for each in value:
            yield from _long_texts(each, path, depth - 1)
