"""Rows of a log that hold no answer of a model, though they have a text where answers have one: what people
wrote on a chat platform, steps of an application, embeddings, and lines of an application's own log."""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.json_values import structure_in
from stresstest.records.record import FieldMapping, UnreadableError

_LOGGED = ("response", "output")
_WEAVE = "weave:///"
_PERSON = 1
"""The Bot Framework's number of a user's role."""
_LISTS = '"list"'
_LONGEST_HEAD = 200


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    if "response" in mapped.fields:
        return False
    return _is_log_line(row) or _is_of_a_person(row) or _is_step(row) or _is_list(row)


def _is_log_line(row: Row) -> bool:
    """Loguru's, whose `text` is the whole line."""
    record = row.get("record")
    return (
        isinstance(record, dict)
        and isinstance(row.get("text"), str)
        and {"level", "message"} <= record.keys()
    )


def _is_of_a_person(row: Row) -> bool:
    """A message of Discord, Slack, Telegram, Teams or the Bot Framework that no bot wrote."""
    author, sender = row.get("author"), row.get("from")
    if isinstance(author, dict) and "username" in author and "channel_id" in row:
        return not author.get("bot")
    if row.get("type") == "message" and "ts" in row and isinstance(row.get("user"), str):
        return not row.get("bot_id")
    if not isinstance(sender, dict):
        return False
    if "is_bot" in sender:
        return not sender["is_bot"]
    if "application" in sender and "user" in sender:
        return bool(sender["user"])
    return row.get("type") == "message" and type(sender.get("role")) is int and sender["role"] == _PERSON


def _is_step(row: Row) -> bool:
    """An operation that Weave traced, and that returned a text: a call of a model returns a response body."""
    op = row.get("op_name")
    return isinstance(op, str) and op.startswith(_WEAVE) and isinstance(row.get("output"), str)


def _is_list(row: Row) -> bool:
    """A response body that is a list, as JSON: of embeddings or models."""
    return any(_lists(row.get(key)) for key in _LOGGED)


def _lists(value: Any) -> bool:
    if not isinstance(value, str) or _LISTS not in value[:_LONGEST_HEAD]:
        return False
    found = structure_in(value)
    return isinstance(found, dict) and found.get("object") == "list" and isinstance(found.get("data"), list)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    if _is_log_line(row):
        raise UnreadableError(
            "a line of Loguru, which says of no text that it is an answer: name it with --field, for example "
            "--field response=record.extra.answer"
        )
    return []


FORMAT = Envelope("no answer of a model", _recognises, _unwrapped)
