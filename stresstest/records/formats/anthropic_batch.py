"""Results of Anthropic's message batches: ``{"custom_id", "result": {"type": "succeeded", "message"}}``."""

from __future__ import annotations

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.record import FieldMapping, UnreadableError

_ENDINGS = ("succeeded", "errored", "canceled", "expired")


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    result = row.get("result")
    named = "response" not in mapped.fields and "custom_id" in row
    return named and isinstance(result, dict) and result.get("type") in _ENDINGS


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    result = row["result"]
    message = result.get("message")
    if not isinstance(message, dict):
        raise UnreadableError(f"the request failed ({result['type']})")
    return [{**{key: value for key, value in row.items() if key != "result"}, "response": message}]


FORMAT = Envelope("Anthropic batch result", _recognises, _unwrapped)
