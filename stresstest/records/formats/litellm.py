"""LiteLLM's standard logging payload: bare, or in a callback's `standard_logging_object`, also in `kwargs`.

LiteLLM (1.109) writes vLLM's finish reason `repetition`, of an answer that the server stopped because it
repeated itself, as `stop`. What LiteLLM says ended by itself is therefore looked at where it ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stresstest.model.words import REPETITION_REASON
from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.record import (
    STOP,
    FieldMapping,
    Record,
    normalize_finish_reason,
)

_PAYLOAD = "standard_logging_object"
_OWN_KEYS = ("call_type", "startTime")
COPIES, LEAST_CHARS = 3, 40
"""An answer ends in a repetition where so many copies of one text, so many characters in all, are its end."""
_MOST_CHARS = 2_000
"""Longest text whose copies are looked for."""


def _payload(row: Row) -> dict[str, Any] | None:
    for outer in (row, row.get("kwargs")):
        if isinstance(outer, dict) and isinstance(outer.get(_PAYLOAD), dict):
            return dict(outer[_PAYLOAD])
    return row if all(key in row for key in _OWN_KEYS) else None


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    return _payload(row) is not None


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    return [_payload(row) or {}]


def _completed(record: Record) -> Record:
    if normalize_finish_reason(record.finish_reason) != STOP:
        return record
    repeats = ends_in_copies(record.text)
    reason = REPETITION_REASON if repeats else record.finish_reason
    return replace(record, finish_reason=reason, stop_unsure=True)


def ends_in_copies(text: str) -> bool:
    """Whether a text ends in adjacent copies of one text that holds a letter or a digit."""
    text = text.rstrip()
    end = text[-8:]
    for size in range(1, min(_MOST_CHARS, len(text) // COPIES) + 1):
        if not text.endswith(end, 0, len(text) - size):
            continue
        copies = max(COPIES, -(-LEAST_CHARS // size))
        tail = text[-size * copies :]
        if tail[size:] == tail[:-size] and len(tail) == size * copies and any(map(str.isalnum, tail[:size])):
            return True
    return False


FORMAT = Envelope("LiteLLM callback", _recognises, _unwrapped, _completed)
