"""Recorded answers that a log cut in the middle are no training data."""

from __future__ import annotations

import json

import pytest

from stresstest.features.export.answers import PARTIAL_PROMPT, UNSEEN, ExportedAnswer, LeftOutAnswer
from stresstest.features.export.recorded_answers import REQUEST_KEYS, recorded_answer
from stresstest.records import FieldMapping, parse_line
from stresstest.scanning.answer.verdict import detect_records
from stresstest.scanning.job import ScanJob
from tests.support.stories import LOOP, story

MARK = "... (litellm_truncated skipped 9000 chars. Full data is logged (OTEL, etc.).) ..."


@pytest.mark.parametrize(
    ("prompt", "answer", "why"),
    [
        ("Tell me of the sea.", f"{story(2)}{MARK}{story(1)}", UNSEEN),
        ("Tell me of the sea.", f"{story(2)}{MARK}{LOOP}", UNSEEN),
        (f"Tell me{MARK} of the sea.", story(2), PARTIAL_PROMPT),
    ],
)
def test_what_litellm_cut_in_the_middle_is_left_out(prompt: str, answer: str, why: str) -> None:
    """A chosen, a rejected text or a prompt with a part missing would teach the model to leave one out."""
    row = {"prompt": prompt, "response": answer, "finish_reason": "stop"}
    [record] = parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())
    [verdict] = detect_records([record], ScanJob(language="en"), {})
    assert recorded_answer(record, verdict, copies=3, strings=False) == LeftOutAnswer(why)


def exported(**asked: object) -> ExportedAnswer:
    row = {
        "request": {"prompt": "Tell me of the sea.", **asked},
        "response": story(2),
        "finish_reason": "stop",
    }
    mapped = FieldMapping(keys=REQUEST_KEYS)
    [record] = parse_line(json.dumps({"prompt": "Tell me of the sea.", **row}).encode(), "f", 1, mapped)
    [verdict] = detect_records([record], ScanJob(language="en"), {})
    answer = recorded_answer(record, verdict, copies=3, strings=False)
    assert isinstance(answer, ExportedAnswer)
    return answer


def test_credentials_of_a_request_are_not_exported() -> None:
    """A request brings keys for the servers of its tools; a training file is passed on."""
    tool = {
        "type": "mcp",
        "server_url": "https://crm.example/s/SECRET-12345/mcp",
        "headers": {"Authorization": "Bearer sk-SECRET-12345"},
    }
    kept = exported(
        tools=[tool, {"type": "function", "function": {"name": "sum", "parameters": {}}}]
    ).prompt.body
    assert kept is not None
    assert "SECRET" not in kept
    assert "crm.example" in kept
    assert '"sum"' in kept
    as_text = exported(tools=json.dumps([tool]), stop=["END"]).prompt.body
    assert as_text is not None
    assert "SECRET" not in as_text
    assert "END" in as_text


@pytest.mark.parametrize("stop", ["NaN", '[{"default": Infinity}]', "1e999", "[[[", '"'])
def test_a_field_that_is_no_json_is_kept_as_text(stop: str) -> None:
    """pydantic writes Infinity into the schemas of tools: one of them ended the whole export."""
    body = exported(stop=stop).prompt.body
    assert body is not None
    assert json.loads(body)["stop"] == stop


def test_a_parameter_that_is_no_number_is_left_out() -> None:
    """It ended the whole export."""
    assert exported(top_k="inf", temperature="0.5").decoding.temperature == 0.5
