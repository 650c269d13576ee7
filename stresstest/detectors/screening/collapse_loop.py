"""A long exact loop need not be read to its end to be judged.

The text is judged with some whole periods cut out of the middle of the loop, and the verdict is set back
on the whole text: what stands before the cut is untouched, what comes after it moves by what was cut. Only
where a loop was known well before the cut and stands well after it; else the text is read whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import lcm

from stresstest.detectors.loop.online import repeat_words
from stresstest.detectors.text.tokens import CUT_CHARS
from stresstest.detectors.verdict import PositionMap, derive_zones, is_long_loop, symptom_order
from stresstest.model import GenerationVerdict, Symptom, SymptomKind

_PROBE_CHARS = 48
"""Characters whose last earlier occurrence proposes the period."""
_MAX_EARLIER_OCCURRENCES = 6
"""So many earlier occurrences are tried: a phrase may stand several times in one period."""
_PROBE_POSITIONS = (1.0, 0.8, 0.5)
"""Where in the text the probe ends."""
_PERIODS, _CHARS, _SIGNS = 2, 4000, 12_000
"""What is kept of the loop: periods, and characters with and without letters in it. Enough for every bound
of the detectors, which are in tokens from the third copy on at the latest."""
_TAIL_CHARS = 1000
"""Of these characters so many stay behind the cut, so that the loop stands there for all to see."""
_LONG_WORD = re.compile(r"\w+")
_MIN_REMOVED_CHARS = 2000
"""Fewer characters are not worth the trouble."""


@dataclass(frozen=True, slots=True)
class CollapsedText:
    """text: the shortened one. cut: the character before which it is the whole text."""

    text: str
    cut: int


def collapse_loop(text: str) -> CollapsedText | None:
    """The text without the middle of a long exact repetition; None when there is none."""
    if len(text) < _CHARS + _MIN_REMOVED_CHARS:
        return None
    for place in _PROBE_POSITIONS:
        end = int(len(text) * place)
        probe, at = text[end - _PROBE_CHARS : end], end - _PROBE_CHARS
        for _ in range(_MAX_EARLIER_OCCURRENCES):
            at = text.rfind(probe, 0, at + _PROBE_CHARS - 1)
            if at < 0:
                break
            found = _remove_copies(text, end, end - _PROBE_CHARS - at)
            if found is not None:
                return found
    return None


def _remove_copies(text: str, end: int, period: int) -> CollapsedText | None:
    shown = text[end - period : end]
    lettered = len(set(shown)) > 2 and any(map(str.isalpha, shown))
    keep = _PERIODS * period + (_CHARS if lettered else _SIGNS)
    start = (
        end
        - _PROBE_CHARS
        - _common_length(text[: end - _PROBE_CHARS], text[: end - _PROBE_CHARS - period], backwards=True)
        - period
    )
    stop = end + _common_length(text[end:], text[end - period :], backwards=False)
    # An endless word is read in pieces: whole ones are cut out, so that those behind the cut are the same.
    step = lcm(period, CUT_CHARS) if _LONG_WORD.fullmatch(shown) else period
    spare = (stop - start - keep) // step * step
    if spare < _MIN_REMOVED_CHARS:
        return None
    cut = start + keep - _TAIL_CHARS
    return CollapsedText(text[:cut] + text[cut + spare :], cut)


def _common_length(one: str, other: str, *, backwards: bool) -> int:
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


def expand_verdict(verdict: GenerationVerdict, cut: int, tokens: int) -> GenerationVerdict | None:
    """The verdict on the whole text of `tokens`, from that on the shortened one; None when it must be read.

    cut: tokens before the cut. The score of an exact loop is that of all its repeated tokens.
    """
    known = [s for s in verdict.symptoms if s.kind is SymptomKind.LOOP and s.confirmed and s.alarm < cut]
    loop = next((s for s in known if s.end is None or s.end > cut), None)
    if loop is None:
        return None
    more = tokens - verdict.tokens
    scale = PositionMap(
        tokens,
        first=lambda position: position if position <= cut else position + more,
        last=lambda position: position if position <= cut else position + more,
    )
    extended = tuple(_extend_loop(s, more) if s is loop else s for s in verdict.symptoms)
    whole = scale.verdict(replace(verdict, symptoms=extended))
    moved = whole.symptoms
    whole = replace(whole, score=max([verdict.score, *(s.score for s in moved if s.confirmed)]))
    first = min((s for s in moved if s.confirmed), key=symptom_order)
    if first.kind is not SymptomKind.LOOP or not is_long_loop(first):
        return whole
    zones = derive_zones(tokens, first.onset, moved)
    return replace(whole, onset=first.onset, observed=first.onset - 1, zones=zones)


def _extend_loop(loop: Symptom, more: int) -> Symptom:
    """The loop with the repeated tokens that were cut out of it."""
    repeated, period = int(loop.detail["repeated"]), int(loop.detail["period"])
    score = 1.0 - (1.0 - loop.score) * repeated / (repeated + more)
    before, after = ((n + period) / period for n in (repeated, repeated + more))
    detail = {**loop.detail, "repeated": repeated + more, "exponent": round(after, 2)}
    summary = loop.summary.replace(repeat_words(before), repeat_words(after), 1)
    return replace(loop, score=score, detail=detail, summary=summary)
