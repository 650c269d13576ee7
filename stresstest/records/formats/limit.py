"""The longest answer that is judged whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from stresstest.detectors.text.tokens import end_of_pieces
from stresstest.records.record import Record

MAX_CHARACTERS = 2_000_000
MAX_PIECES = 150_000
"""Characters, and words or signs, of an answer and its reasoning that are judged: about 200,000 tokens, more
than models write. The detectors need up to 80 bytes for a character, and 600 for a word."""


def cut_to_limit(record: Record) -> Record:
    """The record as far as it is judged. What lies beyond counts as text that the log has cut."""
    size = len(record.reasoning) + len(record.text)
    if size <= min(MAX_PIECES, MAX_CHARACTERS):
        return record
    most = min(MAX_CHARACTERS, end_of_pieces(record.reasoning + record.text, MAX_PIECES))
    if size <= most:
        return record
    tokens = record.tokens
    if tokens is not None:
        ends = [end for end in accumulate(len(token.text) for token in tokens) if end <= most]
        tokens, most = tokens[: len(ends)], max(ends, default=0)
    counted = record.completion_tokens
    reasoning = record.reasoning[:most]
    return replace(
        record,
        reasoning=reasoning,
        text=record.text[: most - len(reasoning)],
        tokens=tokens,
        # Of what is kept, about.
        completion_tokens=None if counted is None else max(1, round(counted * most / size)),
        has_text=False,
        hole=most if record.hole is None else min(record.hole, most),
    )
