"""A page of an API that lists what it has stored: ``{"object": "list", "data": […]}`` of OpenAI's protocol,
``{"data": […], "meta": {…}}`` of Langfuse's."""

from __future__ import annotations

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.json_values import objects
from stresstest.records.record import FieldMapping

_OTHER_KEYS = frozenset({"object", "data", "meta", "first_id", "last_id", "has_more", "next_cursor", "url"})
"""All that a page has beside what it lists. A row with more may keep its own answer beside `data`."""


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    listed = row.get("data")
    if "response" in mapped.fields or not _OTHER_KEYS.issuperset(row) or not isinstance(listed, list):
        return False
    paged = row.get("object") == "list" or isinstance(row.get("meta"), dict)
    return paged and bool(listed) and len(objects(listed)) == len(listed)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    return list(row["data"])


FORMAT = Envelope("page of an API", _recognises, _unwrapped)
