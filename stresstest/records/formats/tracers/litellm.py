"""LiteLLM's standard logging payload: bare, or in a callback's `standard_logging_object`, also in `kwargs`.

LiteLLM (1.109) writes vLLM's finish reason `repetition`, of an answer that the server stopped because it
repeated itself, as `stop`. What LiteLLM says ended by itself is therefore looked at where it ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stresstest.model.finish_reason import STOP, normalize_finish_reason
from stresstest.model.texts.copies import breaks_off_repeating
from stresstest.model.words import REPETITION_REASON
from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.record import FieldMapping, Record

_PAYLOAD = "standard_logging_object"
_NOT_STORED = "{}"
"""What LiteLLM writes in place of an answer, and of its prompt, where it stores neither."""
_OWN_KEYS = ("call_type", "startTime")
_ANSWERED = (
    *("completion", "responses", "message", "generate_content", "pass_through", "passthrough", "realtime"),
    *("interaction", "batch"),
)
"""In the types of calls that have answers. Embeddings, rankings, tools and files have none."""


def _payload(row: Row) -> dict[str, Any] | None:
    for outer in (row, row.get("kwargs")):
        if isinstance(outer, dict) and isinstance(outer.get(_PAYLOAD), dict):
            return dict(outer[_PAYLOAD])
    return row if all(key in row for key in _OWN_KEYS) else None


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    return _payload(row) is not None


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    payload = _payload(row) or {}
    kind = payload.get("call_type")
    other = isinstance(kind, str) and kind and not any(word in kind for word in _ANSWERED)
    return [] if other else [payload]


def _completed(record: Record) -> Record:
    if record.text == _NOT_STORED or (not record.has_text and record.hole is None):
        return replace(
            record, text="", has_text=False, messages=(), prompt_text="", requested_text=None, prompt_key=None
        )
    if normalize_finish_reason(record.finish_reason) != STOP:
        return record
    repeats = breaks_off_repeating(record.text)
    reason = REPETITION_REASON if repeats else record.finish_reason
    return replace(record, finish_reason=reason, stop_unsure=True)


FORMAT = Envelope("LiteLLM callback", _recognises, _unwrapped, _completed)
