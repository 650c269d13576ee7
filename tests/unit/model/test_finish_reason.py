"""Why an answer ended, in the words of servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.model.finish_reason import reason_with_match
from stresstest.records import FieldMapping, parse_line


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
