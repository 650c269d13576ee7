"""What follows the end of an answer in a padded batch is no part of it."""

from __future__ import annotations

import pytest

from stresstest.api import detect
from stresstest.records import FieldMapping, Record, parse_line
from tests.support.stories import LOOP, story

TEXT = story(4)


def read(text: str, **fields: object) -> Record:
    (record,) = parse_line({"id": "a", "response": text, **fields}, "a.jsonl", 1, FieldMapping())
    return record


@pytest.mark.parametrize(
    ("end", "filler"),
    [
        ("<|im_end|>", "<|endoftext|>"),
        ("</s>", "</s>"),
        ("</s>", "<unk>"),
        ("<end_of_turn>", "\n<eos><pad>"),
        ("<|eot_id|>", "<|eot_id|>"),
        (" </s>", " [PAD]"),
    ],
)
@pytest.mark.parametrize("reason", [None, "stop"])
def test_padding_behind_the_end_is_left_out(end: str, filler: str, reason: str | None) -> None:
    """A batch decoded with its special tokens holds loops of padding that no model wrote; its counts of
    tokens may hold them too."""
    text = TEXT + end + filler * 200
    record = read(text, finish_reason=reason, completion_tokens=900)
    assert (record.text, record.completion_tokens) == (TEXT + end, None)
    assert not detect(text, language="en", finish_reason=reason).degenerate


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT + "</s>" * 200, "length"),
        (TEXT + "<pad>" * 200, None),
        (TEXT + LOOP * 50 + "</s>", None),
        ("<pad>" * 200, None),
    ],
)
def test_what_the_model_wrote_itself_stays(text: str, reason: str | None) -> None:
    """A cap shows that the model went on behind its end (`ignore_eos`), and so does a padding without one."""
    record = read(text, finish_reason=reason, completion_tokens=900)
    assert (record.text, record.completion_tokens) == (text, 900)
    assert detect(text, language="en", finish_reason=reason).degenerate
