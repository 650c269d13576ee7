"""Langfuse's observations: generations are answers, however its API wrote them; nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, parse_line

SAID = "The harbour wakes early.\nThe boats are out."


def read(row: dict[str, Any]) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


def observation(output: Any, kind: str = "GENERATION", **more: Any) -> dict[str, Any]:
    return {
        "id": "o1",
        "traceId": "t1",
        "type": kind,
        "model": "m",
        "input": json.dumps([{"role": "user", "content": "Well?"}]),
        "output": output,
        "modelParameters": json.dumps({"max_tokens": 1024}),
        "usageDetails": {"input": 20, "output": 1024, "total": 1044},
        **more,
    }


@pytest.mark.parametrize(
    "output",
    [
        SAID,
        json.dumps(SAID),
        json.dumps({"role": "assistant", "content": SAID}),
        {"role": "assistant", "content": SAID},
        json.dumps([{"role": "assistant", "content": SAID}]),
        json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": SAID}], "finish_reason": "stop"}]
        ),
        json.dumps({"choices": [{"message": {"content": SAID}, "finish_reason": "length"}]}),
    ],
)
def test_a_generation_is_read_as_it_was_said(output: Any) -> None:
    """Its API gives what was stored, JSON as a text: the envelope is not judged, and its escapes hide no
    language. Prompt, cap and counts are found beside it."""
    [record] = read(observation(output))
    assert (record.text, record.prompt_text, record.max_tokens) == (SAID, "Well?", 1024)
    assert (record.model, record.completion_tokens) == ("m", 1024)


def test_names_in_snake_case_are_read_too() -> None:
    """As its client for Python gives them. A wrapper writes Infinity for no cap."""
    row = {
        **{"type": "GENERATION", "trace_id": "t1", "provided_model_name": "m", "output": SAID},
        "usage_details": {"output": 9},
        "model_parameters": {"max_tokens": "Infinity"},
    }
    [record] = read(row)
    assert (record.model, record.completion_tokens, record.max_tokens) == ("m", 9, None)


def test_an_empty_message_at_its_cap_is_no_text() -> None:
    """A loop in hidden thought leaves an empty content; its wrapper would be a healthy answer."""
    [record] = read(observation(json.dumps({"role": "assistant", "content": ""})))
    assert (record.text, record.completion_tokens) == ("", 1024)


def test_an_empty_message_of_the_genai_conventions_is_none_either() -> None:
    """It spent 1,024 tokens on what is not in the log."""
    parts = [{"role": "assistant", "parts": [{"type": "text", "content": ""}], "finish_reason": "length"}]
    for output in (parts, json.dumps(parts)):
        [record] = read(observation(output))
        assert (record.text, record.finish_reason) == ("", "length")


def test_what_a_model_wrote_as_json_stays_as_it_is() -> None:
    """A structured answer is the answer."""
    for written in ('{"name": "Rossi", "city": "Lecce"}', '["a", "b"]', '{"role": "admin"}', '"half'):
        assert [each.text for each in read(observation(written))] == [written]


@pytest.mark.parametrize("kind", ["SPAN", "TOOL", "RETRIEVER", "AGENT", "EVENT", "EMBEDDING"])
def test_other_observations_are_no_answers(kind: str) -> None:
    """What an application, a tool or a retriever said is healthy, and would water the rate down."""
    assert read(observation("Found: three documents.", kind)) == []


def test_a_row_of_another_tool_may_have_a_type() -> None:
    """Without a trace it is no observation."""
    [record] = read({"type": "span", "output": SAID})
    assert record.text == SAID
