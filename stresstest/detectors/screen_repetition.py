"""The screen for loops, near-loops and floods. See :mod:`stresstest.detectors.screen`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.asking import asked
from stresstest.detectors.base import PanelSpec
from stresstest.detectors.features import Features, climbs, densest, nearby, repeated
from stresstest.detectors.flooding import FEW, OPEN_WORDS, SHARE, WINDOW, FloodingDetector
from stresstest.detectors.loop import GRAM, MIN_REPEATED, OPEN_REPEATED, LoopDetector
from stresstest.detectors.near_loop import GRAM as NEAR_GRAM
from stresstest.detectors.near_loop import THIRD, NearLoopDetector
from stresstest.detectors.panel import text_tokens
from stresstest.model import Token

ENDLESS = 8
"""Pieces beyond the first of words without end, which are one word each to the screen."""
UNCOVERED = -1.0
"""What a word without a copy counts against copies of copies: at least a quarter, nearly always four."""
MOST_PERIODS = 48
_ZERO = np.zeros(1, np.int64)


def loops(text: str, seen: Features, spec: PanelSpec, finish_reason: str | None) -> int | None:
    """Loops, near-loops, floods: 0 for a symptom, else an open candidate's first token, None for neither."""
    exact, near, flood = *suspect_repetition(seen), suspect_flood(seen)
    exact, flood = exact or seen.cut >= ENDLESS, flood or seen.cut >= ENDLESS
    opened: list[int] = []
    if near:
        detector = NearLoopDetector(spec)
        lines = text.splitlines(keepends=True)
        for line in lines:
            detector.update(Token(line))
        at = asked((detector,), finish_reason)
        if at == 0:
            return 0
        if at is not None:
            opened.append(max(seen.count - len(text_tokens("".join(lines[at - 1 :]))), 0) + 1)
    if exact or flood:
        detectors = [*((LoopDetector(spec),) if exact else ()), *((FloodingDetector(spec),) if flood else ())]
        for token in text_tokens(text):
            for each in detectors:
                each.update(token)
        at = asked(detectors, finish_reason)
        if at == 0:
            return 0
        if at is not None:
            opened.append(at)
    return min(opened, default=None)


def suspect_repetition(seen: Features) -> tuple[bool, bool]:
    """Whether enough stands again for (a loop, a near-loop), or the end may be the beginning of one.

    A loop repeats 48 tokens in a row at one distance, a steady near-loop the same in words. A copying one
    has 96 copies of copies net of its misses; a hit that no four-gram covers stands between misses that
    cost more than it.
    """
    exact = _runs(seen.pieces, GRAM)
    again, source = repeated(seen.words, NEAR_GRAM)
    if np.count_nonzero(again) < OPEN_REPEATED - NEAR_GRAM + 1:
        return exact, False
    copies, third = _covered(again, source, len(seen.words))
    near = (
        climbs(np.where(third, 1.0, np.where(copies, 0.0, UNCOVERED))) >= THIRD - 3
        or _may_be_open(copies)
        or _runs(seen.words, NEAR_GRAM)
    )
    return exact, near


def _runs(hashes: NDArray[np.uint64], gram: int) -> bool:
    """Whether 48 in a row are what stood one period before, or the last 12 are.

    A period is a distance at which some gram stood last, as it is for the detectors.
    """
    again, source = repeated(hashes, gram)
    row, tail = MIN_REPEATED - gram + 1, OPEN_REPEATED - gram + 1
    if len(again) < tail:
        return False
    back = np.arange(len(again)) - source
    if again[-tail:].all():
        for period in np.unique(back[-tail:]):
            if np.array_equal(hashes[-OPEN_REPEATED:], hashes[-OPEN_REPEATED - period : -period]):
                return True
    if len(again) < row:
        return False
    sums = np.concatenate((_ZERO, np.cumsum(again, dtype=np.int64)))
    full = np.flatnonzero(sums[row:] - sums[:-row] == row)
    if not len(full):
        return False
    inside = np.zeros(len(again), np.bool_)
    for i in range(row):
        inside[full + i] = True
    periods = np.unique(back[inside])
    if len(periods) > MOST_PERIODS:
        return True
    return any(densest(hashes[p:] == hashes[:-p], MIN_REPEATED) >= MIN_REPEATED for p in periods)


def _covered(
    again: NDArray[np.bool_], source: NDArray[np.int64], words: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(words that a four-gram which stood before covers, those of them whose source is covered too)."""
    copies = np.zeros(words, np.bool_)
    third = np.zeros(words, np.bool_)
    ends = np.flatnonzero(again)
    for i in range(NEAR_GRAM):
        copies[ends + i] = True
    for i in range(NEAR_GRAM):
        third[ends + i] |= copies[source[ends] + i]
    return copies, third


def _may_be_open(copies: NDArray[np.bool_]) -> bool:
    """Whether a copied stretch may stand at the end: copies count for it, other words thrice against."""
    sums = np.cumsum(np.where(copies[-512:], 1, -3))
    return bool(sums[-1] - min(int(sums.min()), 0) >= OPEN_REPEATED)


def suspect_flood(seen: Features) -> bool:
    """Whether a window, or the tail that may yet become one, has as few different words as a flood."""
    words = seen.words[~seen.figures]
    close = nearby(words, WINDOW - 1)
    most = int(WINDOW * (1 - SHARE)) + FEW
    if densest(close, WINDOW) >= WINDOW - most:
        return True
    tail = close[-OPEN_WORDS:]
    few = int(OPEN_WORDS * (1 - SHARE)) + FEW
    return len(tail) == OPEN_WORDS and int(np.count_nonzero(tail)) >= OPEN_WORDS - few
