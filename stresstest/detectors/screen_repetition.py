"""The screen for loops, near-loops and floods. See :mod:`stresstest.detectors.screen`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stresstest.detectors.features import Features
from stresstest.detectors.flooding import FEW, OPEN_WORDS, SHARE, WINDOW
from stresstest.detectors.glance import SLACK, LoopGlance, NearLoopGlance
from stresstest.detectors.loop import GRAM, MIN_REPEATED, OPEN_REPEATED
from stresstest.detectors.near_loop import CIRCLES, NEARBY, STRAY, THIRD
from stresstest.detectors.near_loop import GRAM as NEAR_GRAM
from stresstest.detectors.read_flooding import flooded
from stresstest.detectors.windows import (
    Flags,
    Hashes,
    Indices,
    begins,
    between,
    climb,
    highest,
    owners,
    repeated,
    rows,
    since,
)

ENDLESS = 8
"""Pieces beyond the first of words without end, which are one word each to the screen."""
JOINED = 0.02
"""Underscores a word from which on the near-loop's words are others than the screen's."""
UNCOVERED = -1
"""What a word without a copy counts against copies of copies: at least a quarter, nearly always four."""
AGAINST = -3
"""What a new word counts against copies at the end of a text."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """For each text: may it hold a loop, a near-loop, a flood, or end in what may become one?"""

    loop: Flags
    near_loop: Flags
    flood: Flags


def suspect_repetition(seen: Features) -> Suspects:
    """The texts in which enough stands again for one of the detectors.

    A loop repeats 48 tokens in a row, a steady near-loop as many words. A copying one has 96 copies of
    copies net of its misses; a hit that no four-gram covers stands between misses that cost more than it.
    """
    endless = seen.cut >= ENDLESS
    at, source = repeated(seen.pieces, GRAM, seen.fences)
    loop = _in_a_row(at, GRAM, seen.fences) | _at_the_end(seen.pieces, at, source, GRAM, seen.fences)
    plainly = np.zeros(len(loop), np.bool_)
    for i in np.flatnonzero(loop & ~endless).tolist():
        first, places, lag = _of_text(i, at, source, GRAM, seen.fences)
        end = int(seen.fences[i])
        kept = _standing(places, end - first, MIN_REPEATED - GRAM + 1)
        glance = LoopGlance(seen.pieces[first:end], places[kept], lag[kept])
        loop[i], plainly[i] = glance.suspicious, glance.enough
    at, source = repeated(seen.words, NEAR_GRAM, seen.closes)
    near = _in_a_row(at, NEAR_GRAM, seen.closes) | _copying(at, source, len(seen.words), seen.closes)
    near |= _circling(at, source, len(seen.words), seen.closes)
    lengths = seen.closes - begins(seen.closes)
    odd = endless | (seen.joined > 0)
    # A loop is a near-loop too, and a second look is worth nothing.
    for i in np.flatnonzero(near & ~odd & ~plainly).tolist():
        first, places, lag = _of_text(i, at, source, NEAR_GRAM, seen.closes)
        words = slice(first, int(seen.closes[i]))
        near[i] = NearLoopGlance(seen.words[words], seen.says(words).tolist(), places, lag).suspicious
    near |= endless | (seen.joined > JOINED * lengths)
    return Suspects(loop | endless, near, suspect_flood(seen) | endless)


def _standing(places: Indices, end: int, least: int) -> Flags:
    """Which stand in rows of at least so many places, or in the row that stands at the end."""
    rests = np.flatnonzero(np.diff(places) != 1) + 1
    firsts, ends = np.append(0, rests), np.append(rests, len(places))
    long = (ends - firsts >= least) | (places[ends - 1] == end - 1)
    return np.repeat(long, ends - firsts)


def _of_text(
    text: int, at: Indices, source: Indices, gram: int, fences: Indices
) -> tuple[int, Indices, Indices]:
    """(the first place of a text; there, where a gram ends that stood before; how far back it last did)."""
    first = int(fences[text - 1]) + 1 if text else 0
    a, b = np.searchsorted(at, (first, int(fences[text]) - gram + 1)).tolist()
    return first, at[a:b] - (first - gram + 1), at[a:b] - source[a:b]


def _in_a_row(at: Indices, gram: int, fences: Indices) -> Flags:
    """Which texts have 48 places in a row whose grams all stood before."""
    found = np.zeros(len(fences), np.bool_)
    found[owners(rows(at, MIN_REPEATED - gram + 1), fences)] = True
    return found


def _at_the_end(hashes: Hashes, at: Indices, source: Indices, gram: int, fences: Indices) -> Flags:
    """Which texts end with 12 places that are what stood one period before.

    A period is a distance at which some gram stood last, as it is for the detectors.
    """
    tail = OPEN_REPEATED - gram + 1
    ends = fences - gram + 1
    found: Flags = between(at, ends - tail, ends) == tail
    for i in np.flatnonzero(found).tolist():
        end = int(fences[i])
        last = int(np.searchsorted(at, end - gram + 1))
        periods = np.unique(at[last - tail : last] - source[last - tail : last]).tolist()
        first, own = end - OPEN_REPEATED, int(fences[i - 1]) + 1 if i else 0
        found[i] = any(
            first - period >= own and np.array_equal(hashes[first:end], hashes[first - period : end - period])
            for period in periods
        )
    return found


def _copying(at: Indices, source: Indices, words: int, fences: Indices) -> Flags:
    """Which texts have enough copies of copies, or end in a copied stretch."""
    enough = between(at, begins(fences), fences) >= OPEN_REPEATED - NEAR_GRAM + 1
    if not enough.any():
        return enough
    copies = np.zeros(words, np.bool_)
    for i in range(NEAR_GRAM):
        copies[at + i] = True
    third = np.zeros(words, np.bool_)
    for i in range(NEAR_GRAM):
        third[at[copies[source + i]] + i] = True
    new = (~copies).view(np.int8)
    most = highest(climb(UNCOVERED * new + third.view(np.int8), fences), fences)
    last = np.maximum(fences - 1, 0)
    opened = climb((AGAINST - 1) * new + np.int8(1), fences)[last]
    return enough & ((most >= THIRD - 3) | (opened >= OPEN_REPEATED))


def _circling(at: Indices, source: Indices, words: int, fences: Indices) -> Flags:
    """Which texts have enough words that end four of a moment ago, net of those between that do not."""
    near = at[at - source <= NEARBY]
    enough: Flags = between(near, begins(fences), fences) >= CIRCLES - SLACK
    if enough.any():
        turned = np.full(words, -STRAY, np.int8)
        turned[near] = 1
        enough &= highest(climb(turned, fences), fences) >= CIRCLES - SLACK
    return enough


def suspect_flood(seen: Features) -> Flags:
    """Which texts have a window, or a tail that may yet become one, of as few words as a flood."""
    plain = ~seen.figures
    fences = np.cumsum(plain, dtype=np.int64)[seen.closes] - 1
    lags = since(seen.words[plain], fences)
    found = np.zeros(len(fences), np.bool_)
    found[owners(flooded(lags, fences), fences)] = True
    few = int(OPEN_WORDS * (1 - SHARE)) + FEW
    close = np.flatnonzero(lags < WINDOW)
    tail = between(close, np.maximum(fences - OPEN_WORDS, begins(fences)), fences)
    return found | ((fences - begins(fences) >= OPEN_WORDS) & (tail >= OPEN_WORDS - few))
