"""Response bodies of the OpenAI protocol: alone on a line, or as proxies log them, beside their request.

A body: ``{"choices": […], "usage": {…}}`` of the chat or the completions endpoint, ``{"object": "response",
"output": […]}`` of the Responses API. Logged: ``{"request": {…}, "response": {body}}``; LiteLLM's spend logs
keep the body as JSON text, some logs call it `output`, and a request that failed has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.records.formats.adapter import Place, Row, RowFormat
from stresstest.records.formats.bodies.bare import as_body, is_message, langchain_body
from stresstest.records.formats.bodies.body import is_whole_body, parse_answers
from stresstest.records.formats.bodies.choices import choice_answers, has_choices
from stresstest.records.formats.bodies.items import has_items, items_answer
from stresstest.records.formats.fields import answered
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import FieldMapping, Record, UnreadableError

_LOGGED = ("response", "output", "completion", "result", "message")
_BODY_MARKS = ('"choices"', '"response"', '"assistant"')
"""What the JSON of a response body, or of a message, has in it. A model may write an object itself."""
_ALONE = frozenset({"generations", "role", "type", "kwargs"})
"""Keys of a row that is a message, or LangChain's result, itself."""


def response_of(row: Row) -> dict[str, Any] | None:
    """The object under `response`, or under `output`; None where there is a text or nothing."""
    found = object_in(row.get("response"))
    if found is None and isinstance(row.get("output"), dict):
        found = row["output"]
    return found


def object_in(value: Any) -> dict[str, Any] | None:
    """An object, or the response body that a JSON text holds; None for anything else."""
    if not isinstance(value, str):
        return value if isinstance(value, dict) else None
    value = value.strip()
    written = value.startswith("{") and value.endswith("}") and any(mark in value for mark in _BODY_MARKS)
    found = structure_in(value) if written else None
    whole = isinstance(found, dict) and ("choices" in found or is_whole_body(found) or is_message(found))
    return found if whole and isinstance(found, dict) else None


_TRANSCRIPT = {"uuid", "sessionId", "parentUuid", "message"}
"""Keys of a line of Claude Code's transcripts."""


def _has_logged_response(row: Row, _mapped: FieldMapping) -> bool:
    return _logged_body(row) is not None


def _logged_records(row: Row, place: Place) -> list[Record]:
    body = _logged_body(row) or {}
    if row.keys() >= _TRANSCRIPT and len(body.get("content") or ()) == 1:
        raise UnreadableError(
            "a block of a message in a transcript of Claude Code, which has a line for each block: put those "
            "of one message.id together"
        )
    return answered(row, parse_answers(body), place, body)


def _logged_body(row: Row) -> dict[str, Any] | None:
    """The body of the response, also where only the messages of it were kept, or LangChain's result."""
    kept = [value for key in _LOGGED if isinstance(value := row.get(key), str | dict | list)]
    logged = (each if isinstance(each, list) else object_in(each) for each in kept)
    found = next((body for each in logged if each is not None and (body := as_body(each))), None)
    if found is None and not isinstance(row.get("content"), str) and not _ALONE.isdisjoint(row):
        return langchain_body(row) or (as_body(row) if is_message(row) else None)
    return found


LOGGED_RESPONSE = RowFormat("logged request with its response", _has_logged_response, _logged_records)


def failure(row: Mapping[str, Any], status: Any = None) -> str:
    """Why a request has no answer, as a clause, with the codes that the row gives."""
    error = row.get("error") or row.get("error_str")
    code = error.get("code") if isinstance(error, dict) else None
    known = [str(each) for each in (status, code) if isinstance(each, int | str)]
    return f"the request failed ({', '.join(known)})" if known else "the request failed: no response"


def _is_failed(row: Row, _mapped: FieldMapping) -> bool:
    failed = row.get("response", "") is None or row.get("status") == "failure"
    return failed and response_of(row) is None


def _raise_failure(row: Row, _place: Place) -> list[Record]:
    raise UnreadableError(failure(row))


FAILED_REQUEST = RowFormat("failed request", _is_failed, _raise_failure)


def _is_chat_completion(row: Row, _mapped: FieldMapping) -> bool:
    return has_choices(row)


def _choice_records(row: Row, place: Place) -> list[Record]:
    return answered(row, choice_answers(row), place, row)


CHAT_COMPLETION = RowFormat("chat completion", _is_chat_completion, _choice_records)


def _is_responses(row: Row, _mapped: FieldMapping) -> bool:
    return has_items(row)


def _item_records(row: Row, place: Place) -> list[Record]:
    return answered(row, [items_answer(row)], place, row)


RESPONSES = RowFormat("Responses API", _is_responses, _item_records)
