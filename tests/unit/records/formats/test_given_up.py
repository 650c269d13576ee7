"""Answers that a log calls failed in words of its own, with a text that was cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, parse_line

TEXT = "The keeper climbed the stairs and lit the lamp, and then the connection was"
BODY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": None}]}
MESSAGES = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": TEXT}]}])
LANGSMITH = {"id": "r", "run_type": "llm", "name": "ChatOpenAI", "inputs": {"messages": []}, "outputs": BODY}
LITELLM = {"id": "l", "call_type": "acompletion", "model": "m", "messages": [], "response": BODY}
LANGFUSE = {
    "id": "o",
    "type": "GENERATION",
    "model": "m",
    "input": [{"role": "user", "content": "q"}],
    "output": {"role": "assistant", "content": TEXT},
}
SPAN = {
    "name": "chat m",
    "context": {"trace_id": "0x1", "span_id": "0x2"},
    "start_time": "2026-11-28T10:00:00Z",
    "end_time": "2026-11-28T10:00:05Z",
    "attributes": {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.output.messages": MESSAGES,
    },
}
ITEMS = {
    "object": "response",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}],
}


def reason(row: dict[str, Any]) -> str | None:
    (record,) = parse_line(json.dumps(row).encode(), "log.jsonl", 1, FieldMapping())
    assert record.text == TEXT
    return record.finish_reason


@pytest.mark.parametrize(
    ("row", "marks"),
    [
        ({"response": TEXT}, {"error": "ReadTimeout"}),
        ({"response": TEXT}, {"error": {"code": 504}}),
        ({"response": TEXT}, {"error": True}),
        ({"response": TEXT}, {"errors": ["timeout"]}),
        ({"response": TEXT}, {"status_code": 500}),
        ({"response": TEXT}, {"success": False}),
        (LANGSMITH, {"error": "ReadTimeout('')", "status": "error"}),
        (LITELLM, {"status": "failure", "error_str": "Timeout"}),
        (LANGFUSE, {"level": "ERROR", "statusMessage": "timeout"}),
        (SPAN, {"status": {"status_code": "ERROR"}}),
    ],
    ids=[
        "a column",
        "an object",
        "true",
        "a list",
        "HTTP",
        "no success",
        "LangSmith",
        "LiteLLM",
        "Langfuse",
        "OpenTelemetry",
    ],
)
def test_a_request_that_failed_has_no_answer_that_ended(row: dict[str, Any], marks: dict[str, Any]) -> None:
    """180 of 300 answers were cut by a failure: "Pass", and no word of them."""
    assert reason(row) is None
    assert reason(row | marks) == "error"


@pytest.mark.parametrize(
    "marks",
    [
        {"error": None},
        {"error": "none"},
        {"error": 0.2},
        {"status": "success"},
        {"status": 200},
        {"success": True},
        {"error": "N/A"},
        {"error": "0"},
        {"error": {"code": None, "message": ""}},
        {"error": {"code": 0}},
        {"errors": []},
        {"status": 2},
    ],
)
def test_what_is_no_failure_changes_nothing(marks: dict[str, Any]) -> None:
    """An empty column, a metric of that name, a status that is none."""
    assert reason({"response": TEXT} | marks) is None


def test_the_servers_own_word_stands() -> None:
    """What failed afterwards (a callback, a parser) has not cut the answer."""
    assert reason({"response": TEXT, "finish_reason": "stop", "error": "OutputParserException"}) == "stop"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("completed", "stop"), ("failed", "error"), ("cancelled", "abort"), ("in_progress", "abort")],
)
def test_the_status_of_a_response_is_its_end(status: str, expected: str) -> None:
    """OpenAI's own words for a response that was given up."""
    assert reason(ITEMS | {"status": status}) == expected
