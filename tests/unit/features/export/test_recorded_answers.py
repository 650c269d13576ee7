"""Recorded answers that a log cut in the middle are no training data."""

from __future__ import annotations

import json

import pytest

from stresstest.features.export.answers import (
    PARTIAL_PROMPT,
    UNSEEN,
    LeftOutAnswer,
)
from stresstest.features.export.recorded_answers import recorded_answer
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
