"""Finish reasons of every server and library in one vocabulary."""

from __future__ import annotations

import pytest

from stresstest.model.finish_reason import is_foreign_reason, normalize_finish_reason


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ("length", "length max_tokens max_output_tokens model_length token_limit MAX_TOKENS incomplete"),
        (
            "length",
            "FinishReason.MAX_TOKENS MaxTokens max-tokens contextLengthReached maxPredictedTokensReached",
        ),
        ("content_filter", "content-filter ContentFilter content_filter:RECITATION"),
        ("stop", "stop end_turn eos EOS_TOKEN STOP"),
        ("abort", "abort aborted cancelled canceled client_disconnect USER_CANCEL aborted_by_client"),
        ("error", "error failed timeout OTHER network_error timed_out insufficient_system_resource"),
        ("error", "ERROR_LIMIT engine_error client_closed_request interrupted"),
        (
            "content_filter",
            "content_filter SAFETY FINISH_REASON_SAFETY RECITATION refusal guardrail_intervened",
        ),
        ("repetition", "repetition"),
        (None, "tool_calls function_call unknown tool-calls toolUse"),
    ],
)
def test_words_for_an_end(known: str | None, words: str) -> None:
    """A cap under another name is a cap; a word that nobody knows is no end that the model chose."""
    assert {normalize_finish_reason(word) for word in words.split()} == {known}
    assert normalize_finish_reason(None) is None


def test_a_word_that_nobody_knows_is_foreign() -> None:
    """Words for a call of a tool, and for an end of any kind, are known to tell nothing."""
    told = ["weird", "quota_reached", "toolUse", "stop", "error", "tool_calls", "completed", "", None]
    assert [each for each in told if is_foreign_reason(each)] == ["weird", "quota_reached"]
