"""Grouping by how an answer ended: no group's limit can be believed."""

from __future__ import annotations

import pytest

from stresstest.records import parse_fields
from stresstest.scanning.outcome_keys import outcome_key

TELLING = """finish_reason finishReason stop_reason stopReason done_reason stop_type status status_code
    http_status success level error is_truncated hit_cap latency_ms duration completion_tokens total_tokens
    output_length metadata.finish_reason response.usage.output_tokens user_feedback score completion_type
    end_reason regenerated retry_count attempt thumbs_up symptom"""
TELLING_NOTHING = """model task language user_id user_level route prompt_tokens max_tokens input_length
    prompt_id deployment stop temperature version metadata.model day request_type endpoint tenant
    stop_sequences"""


@pytest.mark.parametrize("key", TELLING.split())
def test_a_key_that_tells_how_an_answer_ended(key: str) -> None:
    """By `stop_type` "eos" had no loop, "T ≥ 1,676", where a quarter of all answers looped from 268 on."""
    assert outcome_key(("model", key), parse_fields([])) == key


@pytest.mark.parametrize("key", TELLING_NOTHING.split())
def test_a_key_that_is_known_before_the_answer(key: str) -> None:
    """Its groups have limits."""
    assert outcome_key((key,), parse_fields([])) is None


def test_another_name_for_it() -> None:
    """`--field why=choices[0].finish_reason --group-by why`."""
    assert outcome_key(("why",), parse_fields(["why=choices[0].finish_reason"], ["why"])) == "why"
    assert outcome_key(("why",), parse_fields(["why=metadata.site"], ["why"])) is None
