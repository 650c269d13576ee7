"""Anthropic's message batches: what succeeded is an answer, everything else a failed request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "The harbour wakes early."}],
    "stop_reason": "max_tokens",
    "usage": {"input_tokens": 9, "output_tokens": 6},
}


def read(result: dict[str, Any]) -> Record:
    (record,) = parse_line(json.dumps({"custom_id": "r7", "result": result}).encode(), "f", 1, FieldMapping())
    return record


def test_a_message_of_a_batch_is_an_answer() -> None:
    """With the name that the user gave the request, its model and its counts."""
    record = read({"type": "succeeded", "message": MESSAGE})
    assert (record.id, record.text, record.model) == ("r7", "The harbour wakes early.", "claude")
    assert (record.finish_reason, record.completion_tokens) == ("max_tokens", 6)


@pytest.mark.parametrize("ending", ["errored", "canceled", "expired"])
def test_what_did_not_succeed_is_a_failed_request(ending: str) -> None:
    """It has no text, and may have failed by a loop."""
    with pytest.raises(UnreadableError, match=rf"the request failed \({ending}\)"):
        read({"type": ending})
