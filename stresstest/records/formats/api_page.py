"""A page of an API that lists what it has stored: ``{"object": "list", "data": […]}`` of OpenAI's protocol,
``{"data": […], "meta": {…}}`` of Langfuse's."""

from __future__ import annotations

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.json_values import objects
from stresstest.records.record import FieldMapping


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    listed = row.get("data")
    paged = row.get("object") == "list" or isinstance(row.get("meta"), dict)
    return paged and isinstance(listed, list) and bool(listed) and len(objects(listed)) == len(listed)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    return list(row["data"])


FORMAT = Envelope("page of an API", _recognises, _unwrapped)
