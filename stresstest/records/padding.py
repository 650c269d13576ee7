"""The padding behind an answer that was decoded with its special tokens.

A batch is generated until its longest answer ends, and the others are filled up
(`batch_decode(skip_special_tokens=False)` in transformers). The model wrote none of that.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stresstest.detectors.extra_turns.marks import END_TOKENS, any_of
from stresstest.model.finish_reason import LENGTH, normalize_finish_reason
from stresstest.records.record import Record

_ENDS = (*END_TOKENS, "<eos>", "<|eom_id|>")
_FILLERS = (
    *("<pad>", "<PAD>", "[PAD]", "<|pad|>", "<|PAD_TOKEN|>", "<|finetune_right_pad_id|>", "<|vision_pad|>"),
    *("<seed:pad>", "<｜▁pad▁｜>", "<unk>"),
)
_END_FIRST = re.compile(rf"\s*(?:{any_of(_ENDS)})")
_LAST = re.compile(rf"\s*(?:{any_of((*_ENDS, *_FILLERS))})\Z")
_LONGEST = 64
"""Characters of a special token and of the white space before it."""


def without_padding(record: Record) -> Record:
    """The record without what follows the end of its answer: special tokens alone. Its count of tokens may
    hold them, and is left out.

    Where a cap ended the answer, the model wrote them itself, as with `ignore_eos`; so it did where the first
    of them is none that ends an answer: a model that emits its padding token has failed.
    """
    text = record.text.rstrip()
    if not text.endswith((">", "]")) or record.tokens is not None:
        return record
    if normalize_finish_reason(record.finish_reason) == LENGTH:
        return record
    at = _run_start(text)
    end = _END_FIRST.match(text, at)
    if end is None or end.end() == len(text):
        return record
    return replace(record, text=text[: end.end()], completion_tokens=None)


def _run_start(text: str) -> int:
    """Where the special tokens begin that the text ends in; its length if there are none. From the end, token
    by token: linear in what is left out."""
    at = len(text)
    while found := _LAST.search(text, max(at - _LONGEST, 0), at):
        at = found.start()
    return at
