"""Texts of a line that nobody reads are named, so that a scan passes over none in silence."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from stresstest.records.formats import unread
from stresstest.records.formats.registry import parse_line
from stresstest.records.formats.unread import is_looked_at
from stresstest.records.record import FieldMapping, Record

LONG = "The river runs past old houses, and every house has a door of its own. " * 3
OTHER = "Nobody on the hill remembers who built the tower or when its bell rang last. " * 3
ESCAPED = 'He said: "No."\n' + LONG


def _record(row: dict[str, Any], line: int = 1) -> Record:
    return parse_line(json.dumps(row).encode(), "f", line, FieldMapping())[0]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"response": "B", "scratch": LONG}, ("scratch",)),
        ({"response": LONG, "scratch": LONG}, ()),
        ({"response": LONG, "final_prompt": f"Q: {LONG}"}, ()),
        (
            {"response": "B", "metadata": {"notes": [{"text": LONG}, {"text": OTHER}]}},
            ("metadata.notes.text",),
        ),
        ({"response": "B", "metadata": json.dumps({"raw": LONG})}, ("metadata.raw",)),
        ({"response": "B", "scratch": "short"}, ()),
        ({"response": "B", "prompt": LONG, "context": OTHER, "messages": [{"content": OTHER}]}, ()),
        ({"response": json.dumps({"answer": LONG})}, ()),
        ({"response": "B", "tool_calls": [{"function": {"arguments": json.dumps({"c": ESCAPED})}}]}, ()),
        ({"choices": [{"message": {"content": LONG}, "notes": OTHER}]}, ("choices.notes",)),
        (
            {
                "messages": [
                    {"role": "user", "content": OTHER},
                    {"role": "assistant", "content": "B", "x": LONG},
                ]
            },
            ("messages.x",),
        ),
        ({"conversations": [{"from": "human", "value": OTHER}, {"from": "gpt", "value": LONG}]}, ()),
    ],
)
def test_long_texts_that_nobody_reads_are_named(row: dict[str, Any], found: tuple[str, ...]) -> None:
    """What is neither answer, reasoning nor prompt, wherever it stands; never what was read."""
    assert _record(row).beside == found


def test_half_a_surrogate_pair_is_a_text_like_any() -> None:
    """json.loads keeps "\\ud83d" as it is, and detect_many is given such rows."""
    row = {"response": "B", "scratch": f"{LONG}\ud83d"}
    assert parse_line(row, "f", 1, FieldMapping())[0].beside == ("scratch",)


def test_many_texts_and_many_answers_take_no_time_of_their_own() -> None:
    """Every text was compared with every answer of its line."""
    many = {f"t{n}": f"{n} {LONG}" for n in range(80)}
    assert len(_record({"response": "B", **many}).beside) == 64
    choices = [{"message": {"content": f"{n} {LONG}"}, "notes": f"{n} {OTHER}"} for n in range(900)]
    assert _record({"object": "chat.completion", "choices": choices}).beside == ("choices.notes",)


def test_the_prompt_of_many_answers_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six thousand choices to one long prompt took 2.4 GB."""
    kept = Mock(side_effect=unread._Read)
    monkeypatch.setattr(unread, "_Read", kept)
    prompt = "Where do the boats go at night? " * 100
    records = [Record(str(n), "f", 1, f"To harbour {n}.", prompt_text=prompt) for n in range(500)]
    unread.unread_texts({"response": "x"}, records)
    (joined, _), _ = kept.call_args
    assert joined.count("at night?") == 100


def test_they_are_looked_for_in_some_lines() -> None:
    """A line's number alone decides, so that any number of workers names the same."""
    assert [line for line in range(1, 129) if not is_looked_at(line)] == [
        line for line in range(65, 128) if line % 16
    ]
    assert _record({"response": "B", "scratch": LONG}, 65).beside == ()


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"prediction": "B"}, "'prediction'"),
        (
            {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}]},
            "conversation",
        ),
        ({"object": "chat.completion", "choices": [{"message": {"content": "B"}}]}, "chat completion"),
    ],
)
def test_where_an_answer_was_read_is_told(row: dict[str, Any], place: str) -> None:
    """By its key, or by the format that has a place of its own for it."""
    assert _record(row).read_from == place


def test_a_path_given_by_the_user_is_told() -> None:
    """As the user wrote it."""
    mapped = FieldMapping({"response": ("a", "b")})
    (found,) = parse_line(b'{"a": {"b": "B"}}', "f", 1, mapped)
    assert found.read_from == "'a.b'"
