"""A long exact loop need not be read to its end to be judged.

The text is judged with some whole periods cut out of the middle of the loop, and the verdict is set back
on the whole text: what stands before the cut is untouched, what comes after it moves by what was cut. Only
where a loop was known well before the cut and stands well after it; else the text is read whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from stresstest.detectors.marks import LONGEST_PIECE
from stresstest.detectors.panel import lasts, precedence, zones_of
from stresstest.model import Symptom, SymptomKind, Verdict

_PROBE = 48
"""Characters whose last earlier occurrence proposes the period."""
_EARLIER = 6
"""So many earlier occurrences are tried: a phrase may stand several times in one period."""
_PLACES = (1.0, 0.8, 0.5)
"""Where in the text the probe ends."""
_PERIODS, _CHARS, _SIGNS = 2, 4000, 12_000
"""What is kept of the loop: periods, and characters with and without letters in it. Enough for every bound
of the detectors, which are in tokens from the third copy on at the latest."""
_BEHIND = 1000
"""Of these characters so many stay behind the cut, so that the loop stands there for all to see."""
_ENDLESS = re.compile(r"\w+")
_WORTH = 2000
"""Fewer characters are not worth the trouble."""


@dataclass(frozen=True, slots=True)
class Folded:
    """text: the shortened one. cut: the character before which it is the whole text."""

    text: str
    cut: int


def folded(text: str) -> Folded | None:
    """The text without the middle of a long exact repetition; None when there is none."""
    if len(text) < _CHARS + _WORTH:
        return None
    for place in _PLACES:
        end = int(len(text) * place)
        probe, at = text[end - _PROBE : end], end - _PROBE
        for _ in range(_EARLIER):
            at = text.rfind(probe, 0, at + _PROBE - 1)
            if at < 0:
                break
            found = _shortened(text, end, end - _PROBE - at)
            if found is not None:
                return found
    return None


def _shortened(text: str, end: int, period: int) -> Folded | None:
    shown = text[end - period : end]
    lettered = len(set(shown)) > 2 and any(map(str.isalpha, shown))
    keep = _PERIODS * period + (_CHARS if lettered else _SIGNS)
    start = end - _PROBE - _same(text[: end - _PROBE], text[: end - _PROBE - period], backwards=True) - period
    stop = end + _same(text[end:], text[end - period :], backwards=False)
    # An endless word is read in pieces: whole ones are cut out, so that those behind the cut are the same.
    step = lcm(period, LONGEST_PIECE) if _ENDLESS.fullmatch(shown) else period
    spare = (stop - start - keep) // step * step
    if spare < _WORTH:
        return None
    cut = start + keep - _BEHIND
    return Folded(text[:cut] + text[cut + spare :], cut)


def _same(one: str, other: str, *, backwards: bool) -> int:
    """How many characters two texts have in common at their beginnings, or backwards from their ends."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if backwards:
            same = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        else:
            same = one[low:middle] == other[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def unfolded(verdict: Verdict, cut: int, tokens: int) -> Verdict | None:
    """The verdict on the whole text of `tokens`, from that on the folded one; None when it must be read.

    cut: tokens before the cut. The score of an exact loop is that of all its repeated tokens.
    """
    known = [s for s in verdict.symptoms if s.kind is SymptomKind.LOOP and s.confirmed and s.alarm < cut]
    loop = next((s for s in known if s.end is None or s.end > cut), None)
    if loop is None:
        return None
    more = tokens - verdict.tokens
    moved = tuple(_moved(_longer(s, more) if s is loop else s, cut, more) for s in verdict.symptoms)
    zones = tuple(replace(z, start=_at(z.start, cut, more), end=_at(z.end, cut, more)) for z in verdict.zones)
    whole = replace(
        verdict,
        tokens=tokens,
        alarm=_at(verdict.alarm, cut, more),
        onset=_at(verdict.onset, cut, more),
        observed=_at(verdict.observed, cut, more),
        symptoms=moved,
        zones=zones,
        score=max([verdict.score, *(s.score for s in moved if s.confirmed)]),
    )
    first = min((s for s in moved if s.confirmed), key=precedence)
    if first.kind is not SymptomKind.LOOP or not lasts(first):
        return whole
    zones = zones_of(tokens, first.onset, list(moved))
    return replace(whole, onset=first.onset, observed=first.onset - 1, zones=zones)


def _at(position: Any, cut: int, more: int) -> Any:
    return position if position is None or position <= cut else position + more


def _moved(symptom: Symptom, cut: int, more: int) -> Symptom:
    return replace(
        symptom,
        onset=_at(symptom.onset, cut, more),
        alarm=_at(symptom.alarm, cut, more),
        start=_at(symptom.start, cut, more),
        end=_at(symptom.end, cut, more),
    )


def _longer(loop: Symptom, more: int) -> Symptom:
    """The loop with the repeated tokens that were cut out of it."""
    repeated, period = int(loop.detail["repeated"]), int(loop.detail["period"])
    score = 1.0 - (1.0 - loop.score) * repeated / (repeated + more)
    before, after = ((n + period) / period for n in (repeated, repeated + more))
    detail = {**loop.detail, "repeated": repeated + more, "exponent": round(after, 2)}
    summary = loop.summary.replace(f" {before:.1f} times", f" {after:.1f} times", 1)
    return replace(loop, score=score, detail=detail, summary=summary)
