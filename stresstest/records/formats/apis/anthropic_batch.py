"""Results of Anthropic's message batches: ``{"custom_id", "result": {"type": "succeeded", "message"}}``."""

from __future__ import annotations

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.record import FieldMapping, UnreadableError

_FAILURES = ("errored", "canceled", "expired")


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    result = row.get("result")
    if "response" in mapped.fields or "custom_id" not in row or not isinstance(result, dict):
        return False
    return isinstance(result.get("message"), dict) or result.get("type") in _FAILURES


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    result = row["result"]
    message = result.get("message")
    if not isinstance(message, dict):
        raise UnreadableError(f"the request failed ({result['type']})")
    return [{**{key: value for key, value in row.items() if key != "result"}, "response": message}]


FORMAT = Envelope("Anthropic batch result", _recognises, _unwrapped)
