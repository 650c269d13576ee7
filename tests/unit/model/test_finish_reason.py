"""Why an answer ended, in the words of servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.endpoint.assembly import TokenAssembler
from stresstest.endpoint.wire import decode_chunk
from stresstest.model.finish_reason import reason_with_match, usual_reason
from stresstest.records import FieldMapping, parse_line
from tests.support.fake_vllm import chunk


@pytest.mark.parametrize(
    ("reason", "matched", "told"),
    [
        ("stop", None, "stop"),
        ("stop", 151645, "stop"),
        ("stop", "<|im_end|>", "stop"),
        ("stop", "</s>", "stop"),
        ("stop", "stop", "stop"),
        ("stop", "\n\nUser:", "stop_sequence"),
        ("stop", "]", "stop_sequence"),
        ("length", "]", "length"),
        (None, "]", None),
    ],
)
def test_a_text_that_the_client_stopped_at_is_no_end_of_the_models(
    reason: str | None, matched: Any, told: str | None
) -> None:
    """Answers that were cut at a stop text counted as ended by themselves."""
    assert reason_with_match(reason, matched) == told
    choice = {"index": 0, "message": {"role": "assistant", "content": "So."}, "finish_reason": reason}
    for key in ("stop_reason", "matched_stop"):
        body = {"object": "chat.completion", "choices": [{**choice, key: matched}]}
        (record,) = parse_line(json.dumps(body).encode(), "f", 1, FieldMapping())
        assert record.finish_reason == told
    dumped = {"outputs": [{"text": "So.", "finish_reason": reason, "stop_reason": matched}]}
    (record,) = parse_line(json.dumps(dumped).encode(), "f", 1, FieldMapping())
    assert record.finish_reason == told


@pytest.mark.parametrize(
    ("word", "usual"),
    [
        ("eos_token", "stop"),
        ("FinishReason.STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool_calls"),
        ("stop_sequence", "stop_sequence"),
        ("SAFETY", "SAFETY"),
        (None, None),
    ],
)
def test_a_stream_ends_in_vllms_words(word: str | None, usual: str | None) -> None:
    """TGI's `eos_token` was no end for the detectors, and one in health for T: 842 was safe where 160 was."""
    assert usual_reason(word) == usual
    made = TokenAssembler()
    made.add_chunk(decode_chunk(json.dumps(chunk("So.", finish=word)).encode()), 1.0)
    assert made.finish_reason == usual
