"""The text around an onset in parts: before it, the first two copies of a loop, the degenerate rest."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.model import Generation, GenerationRecord, Symptom, Token
from stresstest.render.text import sanitize

BEFORE, FIRST, SECOND, AFTER, GAP, PLAIN = "before", "first", "second", "after", "gap", "plain"
"""Kinds of a part. first: a loop's first copy, legitimate text. second: its second copy, from the onset."""

_CONTEXT_TOKENS = 70
"""Tokens shown before the start of the repeated or degenerate text."""
_COPY = 160
_RUBBISH = 160
_MAX_PART_CHARS = 900
"""Maximum characters of one part."""
_MAX_READ_CHARS = 4 * _MAX_PART_CHARS
"""Maximum characters read for a part: sanitizing may remove some, and a token may be of any length."""

Part = tuple[str, str]


def excerpt_parts(generation: Generation) -> list[Part]:
    """The parts as (kind, sanitized text) in reading order; the text of a `gap` states what is omitted."""
    tokens = generation.tokens
    onset = generation.verdict.onset
    if onset is None:
        return _healthy(tokens)
    cut = min(onset - 1, len(tokens))
    symptom = onset_symptom(generation)
    start = cut if symptom is None or symptom.start is None else min(max(0, symptom.start - 1), cut)
    found = _tail(BEFORE, tokens[max(0, start - _CONTEXT_TOKENS) : start])
    if start < cut:
        found += _copy_part(FIRST, tokens[start:cut])
    period = _period(symptom)
    copy = min(len(tokens), cut + period) if period else cut
    if copy > cut:
        found += _copy_part(SECOND, tokens[cut:copy])
    end = min(len(tokens), copy + _RUBBISH)
    found += _head(AFTER, tokens[copy:end])
    if end < len(tokens):
        found.append((GAP, f"{len(tokens) - end:,} tokens more"))
    return found


def fit_parts(found: Sequence[Part], room: int) -> list[Part]:
    """The parts shortened to about `room` bytes of the page, the longest first, with an ellipsis."""
    lengths = [_bytes(text) for _, text in found]
    if sum(lengths) <= room:
        return list(found)
    longest = _fair_cap(lengths, max(0, room))
    return [
        (kind, text if size <= longest else f"{text[: max(1, len(text) * longest // size)]}…")
        for (kind, text), size in zip(found, lengths, strict=True)
    ]


def _fair_cap(lengths: Sequence[int], room: int) -> int:
    """The cap for which the lengths, each reduced to at most the cap, add up to about `room`."""
    left, cap = len(lengths), 0
    for length in sorted(lengths):
        cap = room // left
        if length > cap:
            return cap
        room, left = room - length, left - 1
    return cap


def _bytes(text: str) -> int:
    """Size in the page, where some characters are escaped as six bytes."""
    return len(text.encode("utf-8", "replace")) + 5 * sum(map(text.count, '<>&"\\\n'))


def onset_symptom(generation: GenerationRecord) -> Symptom | None:
    """The symptom that determined the onset; None if there is none."""
    verdict = generation.verdict
    same = [s for s in verdict.symptoms if s.confirmed and s.kind is verdict.symptom]
    return next((s for s in same if s.onset == verdict.onset), same[0] if same else None)


def _period(symptom: Symptom | None) -> int | None:
    """Tokens of one copy if the symptom is a repetition with a known first copy, else None."""
    if symptom is None or symptom.start is None:
        return None
    period = symptom.detail.get("period")
    if isinstance(period, int | float) and period >= 1:
        return int(period)
    return max(1, symptom.onset - symptom.start)


def _healthy(tokens: Sequence[Token]) -> list[Part]:
    if len(tokens) <= 2 * _COPY:
        return _head(PLAIN, tokens)
    gap = (GAP, f"{len(tokens) - 2 * _COPY:,} tokens")
    return [*_head(PLAIN, tokens[:_COPY]), gap, *_tail(PLAIN, tokens[-_COPY:])]


def _copy_part(kind: str, tokens: Sequence[Token]) -> list[Part]:
    """A copy, complete if it is short, else its beginning and end."""
    if len(tokens) <= _COPY:
        return _head(kind, tokens)
    half = _COPY // 2
    gap = (GAP, f"{len(tokens) - 2 * half:,} tokens of this copy")
    return [*_head(kind, tokens[:half]), gap, *_tail(kind, tokens[-half:])]


def _head(kind: str, tokens: Sequence[Token]) -> list[Part]:
    text, left = _text(tokens)
    return _omitted_note((kind, text), (GAP, f"{left:,} characters") if left else None)


def _tail(kind: str, tokens: Sequence[Token]) -> list[Part]:
    text, left = _text(tokens, from_end=True)
    return _omitted_note((GAP, f"{left:,} characters") if left else None, (kind, text))


def _omitted_note(*found: Part | None) -> list[Part]:
    return [part for part in found if part is not None and part[1]]


def _text(tokens: Sequence[Token], *, from_end: bool = False) -> tuple[str, int]:
    """(first or last characters, sanitized; number of characters omitted). A token may be of any length."""
    pieces: list[str] = []
    room = total = 0
    for token in reversed(tokens) if from_end else tokens:
        if room < _MAX_READ_CHARS:
            pieces.append(token.text[-_MAX_READ_CHARS:] if from_end else token.text[:_MAX_READ_CHARS])
            room += len(pieces[-1])
        total += len(token.text)
    text = sanitize("".join(reversed(pieces) if from_end else pieces))
    if len(text) <= _MAX_PART_CHARS and total == room:
        return text, 0
    kept = text[-_MAX_PART_CHARS:] if from_end else text[:_MAX_PART_CHARS]
    return kept, max(1, total - len(kept))
