"""Answers that are longer than any model's are judged up to a limit."""

from __future__ import annotations

import json

import pytest

from stresstest.records import FieldMapping, Record, parse_line
from stresstest.records.formats import limit


def read(monkeypatch: pytest.MonkeyPatch, most: int, **row: str) -> Record:
    monkeypatch.setattr(limit, "MAX_CHARACTERS", most)
    (found,) = parse_line(
        json.dumps({"prompt": "Tell a story.", **row}).encode(), "a.jsonl", 1, FieldMapping()
    )
    return found


def test_an_answer_is_judged_up_to_the_limit_and_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One answer of 37 MB took 3.6 GB. What lies beyond the limit must not count as seen."""
    record = read(monkeypatch, 20, response="The keeper climbed the stairs and lit the lamp.")
    assert record.text == "The keeper climbed t"
    assert (record.has_text, record.hole) == (False, 20)


def test_words_and_signs_are_limited_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million signs of Chinese took 1.6 GB: the detectors keep much of each word and sign."""
    monkeypatch.setattr(limit, "MAX_PIECES", 5)
    record = read(monkeypatch, 1000, response="The keeper climbed the stairs and lit the lamp.")
    assert (record.text, record.hole) == ("The keeper climbed the stairs", 29)
    record = read(monkeypatch, 1000, response="你好吗你好吗")
    assert (record.text, record.hole) == ("你好吗你好", 5)
    record = read(monkeypatch, 1000, response="The keeper climbed.")
    assert (record.text, record.hole) == ("The keeper climbed.", None)


def test_reasoning_counts_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are read by the detectors, reasoning first."""
    record = read(monkeypatch, 20, response="The lamp is lit.", reasoning="Who lit it?")
    assert (record.reasoning, record.text, record.hole) == ("Who lit it?", "The lamp ", 20)


def test_the_tokens_that_are_kept_are_those_of_the_text_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer without its tokens changed the unit of all others to words, and the whole count would have
    made each word of the beginning ten tokens."""
    entries = [
        {"token": piece, "logprob": -0.1} for piece in ("The", " keeper", " climbed", " the", " stairs")
    ]
    text = "".join(str(each["token"]) for each in entries)
    choice = {"message": {"content": text}, "logprobs": {"content": entries}, "finish_reason": "stop"}
    monkeypatch.setattr(limit, "MAX_CHARACTERS", 20)
    line = json.dumps({"choices": [choice], "usage": {"completion_tokens": 5}}).encode()
    (record,) = parse_line(line, "a.jsonl", 1, FieldMapping())
    assert [token.text for token in record.tokens or ()] == ["The", " keeper", " climbed"]
    assert (record.text, record.hole) == ("The keeper climbed", 18)
    assert record.completion_tokens == round(5 * 18 / 29)


def test_an_answer_below_the_limit_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is no cut."""
    record = read(monkeypatch, 16, response="The lamp is lit.")
    assert (record.text, record.has_text, record.hole) == ("The lamp is lit.", True, None)
