"""Logs that keep a prompt and its answer as one text: those of transformers' pipelines, of TGI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.records.record import Record

_MOST = 0.9
"""Share of texts that hold their prompt where the log writes it. One that its model repeats is rare."""
_BETWEEN = re.compile(
    r"^\s*(?:(?:\[/INST\]|<\|(?!channel|message|think)[^|<>\s]{1,40}\|>|</?s>|<(?:start|end)_of_turn>"
    r"|(?:assistant|model)[ \t]*\n|A(?:SSISTANT|ssistant):|### Response:)\s*){1,6}"
)
"""What chat templates write between the prompt and the answer. What opens a thought is the answer's."""
_LEAST_PROMPT, _BEFORE = 32, 8192
"""Characters of a prompt that a text has not by chance, and of what a template writes before it."""
_MARKS = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>|<\uff5c[^\uff5c]{1,40}\uff5c>"
)
"""Special tokens of chat templates, which are left out where a text was decoded without them."""


def answer_at(prompt: str, text: str) -> int | None:
    """The character behind the prompt in a text that may have it before the answer; 0 where it is not in it,
    None for a prompt that is too short to tell. Of a prompt in its template, the last long turn counts."""
    turns = [turn for each in _MARKS.split(prompt) if len(turn := each.strip()) >= _LEAST_PROMPT]
    if not turns:
        return None
    at = text.find(turns[-1], 0, len(prompt) + _BEFORE)
    return at + len(turns[-1]) if at >= 0 else 0


def without_prompts(records: Sequence[Record]) -> Sequence[Record]:
    """The records with answers alone, where nearly all of their texts hold the prompt: positions are the
    answer's. A text that is nothing but its prompt, or has it twice, stays: that may be an echo."""
    looked_at = [record.answer_at for record in records if record.answer_at is not None]
    if sum(map(bool, looked_at)) < max(1, _MOST * len(looked_at)):
        return records
    return list(map(_without_prompt, records))


def _without_prompt(record: Record) -> Record:
    said = _BETWEEN.sub("", record.text[record.answer_at :], count=1) if record.answer_at else ""
    again = record.prompt_text.strip()
    if not said.strip() or (again and again in said) or record.hole is not None:
        return record
    return replace(record, text=said, answer_at=0, read_from=f"{record.read_from} behind the prompt")
