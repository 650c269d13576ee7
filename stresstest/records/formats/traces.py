"""Langfuse's traces with their observations: each generation is an answer, the trace's own output only the
application's."""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.record import FieldMapping


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    return "response" not in mapped.fields and bool(_generations(row))


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    return _generations(row)


def _generations(row: Row) -> list[Row]:
    held = row.get("observations")
    return [each for each in held if _is_generation(each)] if isinstance(held, list) else []


def _is_generation(observation: Any) -> bool:
    return isinstance(observation, dict) and str(observation.get("type")).upper() == "GENERATION"


FORMAT = Envelope("trace with its generations", _recognises, _unwrapped)
