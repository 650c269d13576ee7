"""Rows with a text where answers have one, which no model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, UnreadableError, parse_fields, parse_line

SAID = "The keeper wrote down the hour."
_SLACK = {"type": "message", "ts": "1764400000.1", "text": SAID}
_TELEGRAM = {"message_id": 7, "text": SAID}
_DISCORD = {"channel_id": "c", "content": SAID}
_BOTS = {"type": "message", "channelId": "webchat", "text": SAID}
_WEAVE = {"op_name": "weave:///acme/story/op/load_profile:1", "inputs": {"user": "u"}, "output": SAID}
_EMBEDDED = json.dumps({"object": "list", "data": [{"object": "embedding", "embedding": [0.1]}]})
_ANSWERED = json.dumps({"choices": [{"message": {"role": "assistant", "content": SAID}}]})


def read(row: dict[str, Any], mapped: FieldMapping | None = None) -> list[str]:
    found = parse_line(json.dumps(row).encode(), "f.jsonl", 4, mapped or FieldMapping())
    return [record.text for record in found]


@pytest.mark.parametrize(
    ("others", "models"),
    [
        (_SLACK | {"user": "U1"}, _SLACK | {"user": "U2", "bot_id": "B1"}),
        (_TELEGRAM | {"from": {"id": 1, "is_bot": False}}, _TELEGRAM | {"from": {"id": 2, "is_bot": True}}),
        (
            _DISCORD | {"author": {"id": "1", "username": "anna"}},
            _DISCORD | {"author": {"id": "2", "username": "helper", "bot": True}},
        ),
        (
            _BOTS | {"from": {"user": {"id": "1"}, "application": None}},
            _BOTS | {"from": {"user": None, "application": {"id": "2"}}},
        ),
        (_BOTS | {"from": {"id": "u", "role": 1}}, _BOTS | {"from": {"id": "b", "role": 0}}),
        ({"request": "{}", "response": _EMBEDDED}, {"request": "{}", "response": _ANSWERED}),
        (_WEAVE, _WEAVE | {"output": json.loads(_ANSWERED)}),
    ],
    ids=["Slack", "Telegram", "Discord", "Teams", "Bot Framework", "embeddings", "Weave"],
)
def test_what_no_model_wrote_is_left_out(others: dict[str, Any], models: dict[str, Any]) -> None:
    """As healthy answers they halved the rate, and a gate passed."""
    assert read(others) == []
    assert read(models) == [SAID]


def test_a_field_that_the_user_names_is_read_whatever_it_is() -> None:
    """Somebody who has only such steps can still have them judged."""
    assert read(_WEAVE, parse_fields(["response=output"], ())) == [SAID]


def test_a_line_of_a_log_is_no_answer() -> None:
    """Loguru's `text` is its whole line; which one holds an answer, only the user knows."""
    row = {"text": f"10:00 | INFO | {SAID}\n", "record": {"level": {"name": "INFO"}, "message": SAID}}
    with pytest.raises(UnreadableError, match="a line of Loguru"):
        read(row)
    assert read(row, parse_fields(["response=record.message"], ())) == [SAID]
