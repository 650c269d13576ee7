"""OpenAI's batch output: ``{"custom_id", "response": {"status_code", "body"}, "error"}``."""

from __future__ import annotations

from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.formats.apis.openai import failure, object_in, response_of
from stresstest.records.formats.bodies.body import is_body, parse_answers
from stresstest.records.formats.fields import answered
from stresstest.records.record import FieldMapping, Record, UnreadableError


def _recognises(row: Row, _mapped: FieldMapping) -> bool:
    response = response_of(row)
    return response is not None and ("status_code" in response or "body" in response)


def _records(row: Row, place: Place) -> list[Record]:
    response = response_of(row) or {}
    status, body = response.get("status_code"), object_in(response.get("body"))
    if (isinstance(status, int) and status >= 400) or body is None:
        raise UnreadableError(failure(row, status))
    if not is_body(body):
        raise UnreadableError("the response body holds no answer")
    return answered(row, parse_answers(body), place, body)


FORMAT = RowFormat("OpenAI batch output", _recognises, _records)
