"""Several answers on one line: what cannot be read does not take the others with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records.formats.bodies import answer
from stresstest.records.formats.registry import parse_line
from stresstest.records.record import FieldMapping, Record, TextlessError, UnreadableError

CALL: dict[str, Any] = {
    "message": {"content": None, "tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]},
    "finish_reason": "tool_calls",
}
SAID: dict[str, Any] = {"message": {"content": "It is late."}, "finish_reason": "stop"}
WRONG: dict[str, Any] = {"message": {"content": 7}, "finish_reason": "stop"}


def _read(row: dict[str, Any]) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


def _body(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"object": "chat.completion", "choices": list(choices)}


def _span(n: int, **more: Any) -> dict[str, Any]:
    told = {"gen_ai.operation.name": "chat", "gen_ai.completion.0.content": f"Answer {n}.", **more}
    given = [{"key": key, "value": {"stringValue": str(value)}} for key, value in told.items()]
    return {"spanId": str(n), "attributes": given}


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        (_body(CALL, SAID), [("", True), ("It is late.", True)]),
        (_body(SAID, WRONG), [("It is late.", True), ("", False)]),
        ({"outputs": [{"text": "It is late."}, {"token_ids": [1]}]}, [("It is late.", True), ("", False)]),
        ({"generations": ["It is late.", 7]}, [("It is late.", True), ("", False)]),
    ],
)
def test_the_others_are_read(row: dict[str, Any], texts: list[tuple[str, bool]]) -> None:
    """A call without arguments is an empty answer beside others, anything unreadable one without text."""
    assert [(found.text, found.has_text) for found in _read(row)] == texts


@pytest.mark.parametrize(
    "row",
    [
        {**_body(CALL), "usage": {"completion_tokens": 900}},
        {"request": {}, "response": {**_body(CALL), "usage": {"completion_tokens": 900}}},
        {"output": [{"type": "function_call", "arguments": {}}], "completion_tokens": 900},
    ],
)
def test_a_call_that_lost_its_arguments_is_an_answer_without_text(row: dict[str, Any]) -> None:
    """LiteLLM writes `{}` for arguments that a cap cut: a gate skipped just the calls that looped."""
    assert [(found.text, found.has_text, found.completion_tokens) for found in _read(row)] == [
        ("", False, 900)
    ]


def test_one_span_does_not_spoil_its_batch() -> None:
    """A collector writes hundreds on one line; they were one damaged line."""
    wrong = _span(1, **{"gen_ai.request.max_tokens": "many"})
    line = {"resourceSpans": [{"scopeSpans": [{"spans": [_span(0), wrong, _span(2)]}]}]}
    found = [(each.text, each.has_text) for each in _read(line)]
    assert found == [("Answer 0.", True), ("", False), ("Answer 2.", True)]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (_body(CALL, CALL), TextlessError),
        (_body(CALL, WRONG), UnreadableError),
        (_body(WRONG), UnreadableError),
    ],
)
def test_where_none_can_be_read_the_line_says_why(row: dict[str, Any], error: type[UnreadableError]) -> None:
    """Only calls need no text; anything else is damage."""
    with pytest.raises(UnreadableError) as raised:
        _read(row)
    assert type(raised.value) is error


def test_a_trace_whose_generations_all_failed_holds_as_many_answers() -> None:
    """It was one damaged line, and one failure for a gate."""
    lost = {"type": "GENERATION", "model": "m", "output": None, "level": "ERROR"}
    found = _read({"id": "t", "observations": [{**lost, "id": str(n)} for n in range(3)]})
    assert [each.has_text for each in found] == [False] * 3


@pytest.mark.parametrize("cap", [-1, "-1"])
def test_minus_one_is_no_cap(cap: object) -> None:
    """llama.cpp, LM Studio and LangChain write it for "no limit"; every such line was damaged."""
    (found,) = _read({"request": {"max_tokens": cap}, "response": _body(SAID)})
    assert found.max_tokens is None


@pytest.mark.parametrize(
    "row",
    [
        {"outputs": [{"text": "x"}] * 11},
        {"output": ["It ends where the boats stay at night."] * 11},
        {"choices": [{"message": {"content": "x"}}] * 11},
        {"generated_texts": ["x"] * 11, "output_lens": [1] * 11},
    ],
)
def test_a_line_has_so_many_answers_at_most(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A million short ones in 21 MB took a gigabyte."""
    monkeypatch.setattr(answer, "MAX_ANSWERS", 10)
    with pytest.raises(UnreadableError, match="more than 10 answers in one line"):
        parse_line(row, "f", 1, FieldMapping())
