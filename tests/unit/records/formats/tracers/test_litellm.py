"""LiteLLM's logs: a server's stop at a repetition is read as one, though the log calls it an ordinary end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model.texts.copies import ends_in_copies
from stresstest.records import FieldMapping, parse_line
from stresstest.records.record import Record

LOOP = "and the end of the road "
STORY = "The keeper wrote down the hour and the wind. Nobody came that night. "


def read(text: str, finish: str = "stop", *, bare: bool = True) -> Record:
    body = {"choices": [{"message": {"content": text}, "finish_reason": finish}]}
    payload: dict[str, Any] = {"id": "a", "call_type": "acompletion", "startTime": 1.0, "response": body}
    row = payload if bare else {"kwargs": {"standard_logging_object": payload}}
    (record,) = parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())
    return record


@pytest.mark.parametrize("bare", [False, True])
def test_a_stop_behind_copies_is_a_repetition(bare: bool) -> None:
    """vLLM stops after so many copies: the answer ends with them, whole."""
    found = read(STORY + LOOP * 3, bare=bare)
    assert (found.finish_reason, found.stop_unsure) == ("repetition", True)


def test_an_ordinary_end_stays_one_and_a_cap_a_cap() -> None:
    """Only `stop` is unsure."""
    ended, capped = read(STORY), read(STORY + LOOP * 9, "length")
    assert (ended.finish_reason, ended.stop_unsure) == ("stop", True)
    assert (capped.finish_reason, capped.stop_unsure) == ("length", False)


@pytest.mark.parametrize("kind", ["aembedding", "arerank", "call_mcp_tool", "amoderation", "acreate_file"])
def test_calls_that_are_not_answered_are_left_out(kind: str) -> None:
    """Spend logs keep every call; what is no answer would count as a healthy one."""
    payload = {"id": "a", "call_type": kind, "startTime": 1.0, "response": json.dumps({"content": STORY})}
    assert parse_line(json.dumps(payload).encode(), "f", 1, FieldMapping()) == []


def test_the_same_row_of_another_logger_is_taken_at_its_word() -> None:
    """Nothing is known of how other logs write ends."""
    body = {"choices": [{"message": {"content": LOOP * 9}, "finish_reason": "stop"}]}
    (found,) = parse_line(json.dumps({"id": "a", "response": body}).encode(), "f", 1, FieldMapping())
    assert (found.finish_reason, found.stop_unsure) == ("stop", False)


@pytest.mark.parametrize("text", ["", "No. No. No.", STORY + "=" * 80, STORY + "- - " * 30, STORY + LOOP * 2])
def test_short_emphasis_rulers_and_two_copies_are_no_repetition(text: str) -> None:
    """What healthy answers end with."""
    assert not ends_in_copies(text)


@given(
    st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=60), st.integers(3, 60), st.text()
)
def test_whatever_repeats_long_enough_is_found(unit: str, copies: int, before: str) -> None:
    """Any unit, behind any text."""
    if len(unit) * copies >= 40 + len(unit):
        assert ends_in_copies(before + unit * copies)


@pytest.mark.parametrize("instead", ["redacted-by-litellm", "{}"])
def test_what_was_not_stored_is_no_answer(instead: str) -> None:
    """Where LiteLLM stores no prompts it writes this instead; it was read as answers to one prompt."""
    payload = {"id": "a", "call_type": "acompletion", "startTime": 1.0, "messages": "{}", "response": instead}
    (kept,) = parse_line(json.dumps(payload).encode(), "f", 1, FieldMapping())
    for found in (read(instead), kept):
        assert (found.has_text, found.text, found.prompt_text, found.prompt_key) == (False, "", "", None)


@pytest.mark.parametrize("mark", ["...truncated by litellm", "<truncated due to size exceeding limit>"])
def test_a_text_that_was_too_long_for_its_log_is_not_whole(mark: str) -> None:
    """LiteLLM's logger for Datadog cuts at 10,000 characters, exporters to Langfuse leave out large texts:
    a gate passed over answers that loop late."""
    row = {"id": "r", "response": f"It begins. {mark}"}
    [record] = parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())
    assert not record.has_text


@pytest.mark.parametrize("key", ["content", "reasoning_content"])
def test_a_text_that_spend_logs_cut_in_the_middle(key: str) -> None:
    """LiteLLM keeps the first and the last third of a text: it is not whole, and where its part is missing is
    known."""
    hole = "... (litellm_truncated skipped 9000 chars. Full data is logged (OTEL, etc.).) ..."
    message = {"role": "assistant", "content": "", key: f"It begins. {hole} it ends."}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
    [record] = parse_line(json.dumps({"request_id": "r", "response": body}).encode(), "f", 1, FieldMapping())
    assert record.reasoning + record.text == "It begins.  it ends."
    assert (record.has_text, record.hole) == (False, len("It begins. "))
