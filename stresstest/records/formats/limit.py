"""The longest answer that is judged whole."""

from __future__ import annotations

from dataclasses import replace

from stresstest.records.record import Record

MAX_CHARACTERS = 2_000_000
"""Characters of an answer and its reasoning that are judged: about 500,000 tokens, more than models write.
The detectors need up to 80 bytes for each."""


def up_to_limit(record: Record) -> Record:
    """The record as far as it is judged. What lies beyond counts as text that the log has cut."""
    if len(record.reasoning) + len(record.text) <= MAX_CHARACTERS:
        return record
    reasoning = record.reasoning[:MAX_CHARACTERS]
    text = record.text[: MAX_CHARACTERS - len(reasoning)]
    hole = MAX_CHARACTERS if record.hole is None else min(record.hole, MAX_CHARACTERS)
    return replace(record, reasoning=reasoning, text=text, tokens=None, has_text=False, hole=hole)
