"""The text around an onset, cut into parts: what came before, both copies of a loop, the rubbish."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.model import Generation, Symptom, Token
from stresstest.report.text import clean

BEFORE, FIRST, SECOND, AFTER, GAP, PLAIN = "before", "first", "second", "after", "gap", "plain"
"""first: a loop's first copy, legitimate; second: its second one, which begins at the onset."""

_AROUND = 70
"""Tokens before the onset's run."""
_COPY = 160
_RUBBISH = 160
_CHARACTERS = 900
"""Of one part."""
_READ = 4 * _CHARACTERS
"""What is looked at for them: cleaning may drop characters, and a token may be of any length."""

Part = tuple[str, str]


def parts(generation: Generation) -> list[Part]:
    """(kind, text) in reading order, cleaned; a `gap` holds how much is left out, in words."""
    tokens = generation.tokens
    onset = generation.verdict.onset
    if onset is None:
        return _healthy(tokens)
    cut = min(onset - 1, len(tokens))
    symptom = onset_symptom(generation)
    start = cut if symptom is None or symptom.start is None else min(max(0, symptom.start - 1), cut)
    found = _tail(BEFORE, tokens[max(0, start - _AROUND) : start])
    if start < cut:
        found += _middle(FIRST, tokens[start:cut])
    period = _period(symptom)
    copy = min(len(tokens), cut + period) if period else cut
    if copy > cut:
        found += _middle(SECOND, tokens[cut:copy])
    end = min(len(tokens), copy + _RUBBISH)
    found += _head(AFTER, tokens[copy:end])
    if end < len(tokens):
        found.append((GAP, f"{len(tokens) - end:,} tokens more"))
    return found


def fitted(found: Sequence[Part], room: int) -> list[Part]:
    """The parts in about `room` bytes of the page: the longest give way first, and say that they did."""
    lengths = [_bytes(text) for _, text in found]
    if sum(lengths) <= room:
        return list(found)
    longest = _level(lengths, max(0, room))
    return [
        (kind, text if size <= longest else f"{text[: max(1, len(text) * longest // size)]}…")
        for (kind, text), size in zip(found, lengths, strict=True)
    ]


def _level(lengths: Sequence[int], room: int) -> int:
    """The cap under which lengths, each cut to it, fill the room."""
    left, cap = len(lengths), 0
    for length in sorted(lengths):
        cap = room // left
        if length > cap:
            return cap
        room, left = room - length, left - 1
    return cap


def _bytes(text: str) -> int:
    """In the page, where some characters are written as escapes of six."""
    return len(text.encode("utf-8", "replace")) + 5 * sum(map(text.count, '<>&"\\\n'))


def onset_symptom(generation: Generation) -> Symptom | None:
    """The symptom that made the onset."""
    verdict = generation.verdict
    same = [s for s in verdict.symptoms if s.confirmed and s.kind is verdict.symptom]
    return next((s for s in same if s.onset == verdict.onset), same[0] if same else None)


def _period(symptom: Symptom | None) -> int | None:
    """Tokens of one copy, where the symptom is a repetition of a known first copy."""
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


def _middle(kind: str, tokens: Sequence[Token]) -> list[Part]:
    """A copy: whole where it is short, else both its ends."""
    if len(tokens) <= _COPY:
        return _head(kind, tokens)
    half = _COPY // 2
    gap = (GAP, f"{len(tokens) - 2 * half:,} tokens of this copy")
    return [*_head(kind, tokens[:half]), gap, *_tail(kind, tokens[-half:])]


def _head(kind: str, tokens: Sequence[Token]) -> list[Part]:
    text, left = _text(tokens)
    return _told((kind, text), (GAP, f"{left:,} characters") if left else None)


def _tail(kind: str, tokens: Sequence[Token]) -> list[Part]:
    text, left = _text(tokens, from_end=True)
    return _told((GAP, f"{left:,} characters") if left else None, (kind, text))


def _told(*found: Part | None) -> list[Part]:
    return [part for part in found if part is not None and part[1]]


def _text(tokens: Sequence[Token], *, from_end: bool = False) -> tuple[str, int]:
    """The first (or last) characters, cleaned, and how many are left out; a token may be of any length."""
    pieces: list[str] = []
    room = total = 0
    for token in reversed(tokens) if from_end else tokens:
        if room < _READ:
            pieces.append(token.text[-_READ:] if from_end else token.text[:_READ])
            room += len(pieces[-1])
        total += len(token.text)
    text = clean("".join(reversed(pieces) if from_end else pieces))
    if len(text) <= _CHARACTERS and total == room:
        return text, 0
    kept = text[-_CHARACTERS:] if from_end else text[:_CHARACTERS]
    return kept, max(1, total - len(kept))
