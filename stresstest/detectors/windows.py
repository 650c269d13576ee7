"""Arithmetic over the words of many texts laid end to end: what stood before, rows, sums, gaps.

Behind each text stands a fence, a place that is no word: `fences` are these places, in order, and the last
one is the last place of all. Nothing here reaches over a fence into another text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MIX, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_FALL = -(1 << 30)
NEVER = 1 << 30


def owners(places: Indices, fences: Indices) -> Indices:
    """The text that each of these places is in."""
    return np.searchsorted(fences, places)


def begins(fences: Indices) -> Indices:
    """The first place of each text."""
    return np.concatenate((np.zeros(1, np.int64), fences[:-1] + 1))


def repeated(hashes: Hashes, gram: int, fences: Indices) -> tuple[Indices, Indices]:
    """(first places, in order, of runs of `gram` hashes that stood before in their text, where last).

    The hash of a fence stands nowhere else.
    """
    return again_at(_own(hashes, fences), gram)


def again_at(hashes: Hashes, gram: int) -> tuple[Indices, Indices]:
    """:func:`repeated` within one text."""
    n = len(hashes) - gram + 1
    if n < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mixed = hashes[:n].copy()
    for i in range(1, gram):
        mixed *= _MIX
        mixed += hashes[i : i + n]
    return _again(mixed)


def since(hashes: Hashes, fences: Indices) -> Indices:
    """For each hash: how many places before it last stood in its text; `NEVER` if it did not."""
    found = np.full(len(hashes), NEVER, np.int64)
    at, source = _again(_own(hashes, fences))
    found[at] = at - source
    return found


def _own(hashes: Hashes, fences: Indices) -> Hashes:
    """The hashes, each text's different from all others'."""
    if len(fences) == 1:
        return hashes.copy()
    salts = np.arange(len(fences), dtype=np.uint64) * _SPREAD
    return hashes + np.repeat(salts, np.diff(fences, prepend=-1))


def _again(hashes: Hashes) -> tuple[Indices, Indices]:
    """(indices whose hash stood before, in order, where last). The low bits carry the index when sorted."""
    n = len(hashes)
    bits = np.uint64(n.bit_length())
    hashes *= _SPREAD
    hashes >>= bits
    hashes <<= bits
    hashes |= np.arange(n, dtype=np.uint64)
    hashes.sort()
    names = hashes >> bits
    same = np.flatnonzero(names[1:] == names[:-1])
    low = (np.uint64(1) << bits) - np.uint64(1)
    pairs = (hashes[same + 1] & low) << bits | (hashes[same] & low)
    pairs.sort()
    return (pairs >> bits).astype(np.int64), (pairs & low).astype(np.int64)


def rows(places: Indices, length: int) -> Indices:
    """Those of the places, which are in order, from which on so many follow one another."""
    if len(places) < length:
        return places[:0]
    first = places[: len(places) - length + 1]
    return first[places[length - 1 :] - first < length]


def between(places: Indices, first: Indices, end: Indices) -> Indices:
    """How many of the places, which are in order, lie in each [first, end)."""
    return np.searchsorted(places, end) - np.searchsorted(places, first)


def summed(flags: Flags) -> NDArray[np.int32]:
    """How many flags stand before each place, and in all."""
    sums = np.zeros(len(flags) + 1, np.int32)
    np.cumsum(flags, dtype=np.int32, out=sums[1:])
    return sums


def dense(flags: Flags, window: int, least: int, fences: Indices) -> Indices:
    """The last places of all windows with so many flags, each within one text."""
    if len(flags) < window:
        return np.zeros(0, np.int64)
    sums = summed(flags)
    first = np.flatnonzero(sums[window:] - sums[:-window] >= least)
    last = first + window - 1
    found: Indices = last[owners(first, fences) == owners(last, fences)]
    return found


def climb(evidence: NDArray[np.integer[Any]], fences: Indices) -> Indices:
    """Page's sum of whole-number evidence at every place: never below zero, and zero at a fence."""
    sums = evidence.astype(np.int64)
    sums[fences] = _FALL
    np.cumsum(sums, out=sums)
    lowest = np.minimum.accumulate(sums)
    sums -= np.minimum(lowest, 0, out=lowest)
    return sums


def highest(values: NDArray[Any], fences: Indices) -> NDArray[Any]:
    """The largest value of each text, the one at its fence included."""
    most: NDArray[Any] = np.maximum.reduceat(values, begins(fences))
    return most


def gaps(marked: Flags, fences: Indices, least: int) -> tuple[Indices, Indices]:
    """Maximal stretches [first, end) of at least so many places without a mark, within one text."""
    closed = marked.copy()
    closed[fences] = True
    end = np.flatnonzero(closed)
    first = np.concatenate((np.zeros(1, np.int64), end[:-1] + 1))
    wide = end - first >= least
    return first[wide], end[wide]
