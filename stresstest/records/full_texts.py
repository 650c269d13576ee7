"""Logs that keep a prompt and its answer as one text: those of transformers' pipelines, of TGI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.records.record import Record

_MOST = 0.9
"""Share of texts that hold their prompt where the log writes it. One that its model repeats is rare."""

_TEMPLATE = re.compile(
    r"^\s*(?:(?:\[/INST\]|<\|[^|<>\s]{1,40}\|>|</?\w{1,20}>|(?:assistant|model)[ \t]*\n"
    r"|A(?:SSISTANT|ssistant):|### Response:)\s*){1,6}"
)
"""What chat templates write between the prompt and the answer."""


def without_prompts(records: Sequence[Record]) -> Sequence[Record]:
    """The records with answers alone, where nearly all of their texts hold the prompt: positions are the
    answer's. A text that is nothing but its prompt stays, since that may be an echo."""
    looked_at = [record.answer_at for record in records if record.answer_at is not None]
    if sum(map(bool, looked_at)) < max(1, _MOST * len(looked_at)):
        return records
    return list(map(_without_prompt, records))


def _without_prompt(record: Record) -> Record:
    said = _TEMPLATE.sub("", record.text[record.answer_at :], count=1) if record.answer_at else ""
    if not said.strip():
        return record
    return replace(record, text=said, answer_at=0, read_from=f"{record.read_from} behind the prompt")
