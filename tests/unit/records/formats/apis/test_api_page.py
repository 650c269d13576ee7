"""Pages that an API lists: what they hold is read as if each stood on a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, UnreadableError, parse_line

SAID = ("The harbour wakes early.", "Bread needs time.")
STORED = [
    {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": said}}]}
    for said in SAID
]
OBSERVED = [{"id": said, "type": "GENERATION", "traceId": "t", "output": said} for said in SAID]


@pytest.mark.parametrize(
    "page", [{"object": "list", "data": STORED}, {"data": OBSERVED, "meta": {"page": 1, "totalItems": 2}}]
)
def test_each_answer_of_a_page_is_read(page: dict[str, Any]) -> None:
    """OpenAI's stored completions and Langfuse's observations, saved as the API gave them."""
    found = parse_line(json.dumps(page).encode(), "f", 1, FieldMapping())
    assert tuple(record.text for record in found) == SAID


def test_another_list_is_no_page_of_answers() -> None:
    """A list of models holds no text."""
    models = {"object": "list", "data": [{"id": "m", "object": "model"}]}
    with pytest.raises(UnreadableError):
        parse_line(json.dumps(models).encode(), "f", 1, FieldMapping())


def test_an_answer_beside_data_is_that_of_its_row() -> None:
    """A log of retrieval keeps the passages as `data`: of its loops, "nothing degenerates"."""
    passages = [{"text": "A passage."}, {"text": "Another one."}]
    row = {"prompt": "Well?", "response": SAID[0], "meta": {"top_k": 2}, "data": passages}
    [record] = parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())
    assert record.text == SAID[0]
