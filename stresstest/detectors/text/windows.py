"""Array operations over the words of many texts laid end to end: repetitions, runs, sums, gaps.

Each text is closed by a fence, a place that is no word: `fences` are these places, in order, and the last one
is the last place of all. No result crosses a fence into another text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MIX, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_MOST_BY_RADIX = 1 << 16
"""Above so many hashes, most share sixteen bits with another one."""
_SLOT_BITS = 3
"""At least so many times two slots for a hash."""
_FALL = -(1 << 30)
NO_EARLIER = 1 << 30


def text_index(places: Indices, fences: Indices) -> Indices:
    """The text that each place belongs to."""
    return np.searchsorted(fences, places)


def text_starts(fences: Indices) -> Indices:
    return np.concatenate((np.zeros(1, np.int64), fences[:-1] + 1))


def repeated_run_starts(hashes: Hashes, gram: int, fences: Indices) -> tuple[Indices, Indices]:
    """(first places, in order, of runs of `gram` hashes that occurred earlier in their text; where last).

    The hash of a fence occurs nowhere else.
    """
    return repeated_runs(_salt_by_text(hashes, fences), gram)


def repeated_runs(hashes: Hashes, gram: int) -> tuple[Indices, Indices]:
    """:func:`repeated_run_starts` within one text."""
    n = len(hashes) - gram + 1
    if n < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mixed = hashes[:n].copy()
    for i in range(1, gram):
        mixed *= _MIX
        mixed += hashes[i : i + n]
    return _repeated_indices(mixed)


def distance_to_previous(hashes: Hashes, fences: Indices) -> Indices:
    """Distance of each hash to its last occurrence in its text; `NO_EARLIER` without one."""
    source = _last_occurrences(_salt_by_text(hashes, fences))
    return np.where(source >= 0, np.arange(len(source)) - source, NO_EARLIER)


def _salt_by_text(hashes: Hashes, fences: Indices) -> Hashes:
    """Different hashes for different texts."""
    if len(fences) == 1:
        return hashes.copy()
    salts = np.arange(len(fences), dtype=np.uint64) * _SPREAD
    return hashes + np.repeat(salts, np.diff(fences, prepend=-1))


def _repeated_indices(hashes: Hashes) -> tuple[Indices, Indices]:
    """(indices whose hash occurred before, in order; where last)."""
    shared = _sharing_a_slot(hashes)
    source = _last_occurrences(hashes[shared])
    at = np.flatnonzero(source >= 0)
    return shared[at], shared[source[at]]


def _sharing_a_slot(hashes: Hashes) -> Indices:
    """The indices, in order, of all hashes that occur twice, and of a few others: those that share a slot of
    a hash table with another one. It costs a quarter of sorting them all."""
    bits = max(len(hashes).bit_length() + _SLOT_BITS, 8)
    slots = ((hashes * _SPREAD) >> np.uint64(64 - bits)).astype(np.int64)
    every = np.arange(len(hashes), dtype=np.int32)
    last = np.empty(1 << bits, np.int32)
    last[slots] = every
    shared = np.zeros(1 << bits, np.bool_)
    shared[slots[last.take(slots) != every]] = True
    return np.flatnonzero(shared.take(slots))


def _last_occurrences(hashes: Hashes) -> Indices:
    """The index at which each hash occurred last, or -1.

    A radix sort by sixteen bits brings equal hashes together, in order; where others share their bits, they
    are sorted as a whole.
    """
    hashes = hashes * _SPREAD
    if len(hashes) > _MOST_BY_RADIX:
        return _last_by_sorting(hashes)
    slots = (hashes >> np.uint64(48)).astype(np.uint16)
    order = np.argsort(slots, kind="stable")
    by_slot, slot = hashes.take(order), slots.take(order)
    same = by_slot[1:] == by_slot[:-1]
    source = np.full(len(hashes), -1, np.int64)
    source[order[1:][same]] = order[:-1][same]
    mixed = (slot[1:] == slot[:-1]) & ~same
    if mixed.any():
        shared = np.zeros(1 << 16, np.bool_)
        shared[slot[1:][mixed]] = True
        places = np.flatnonzero(shared.take(slots))
        found = _last_by_sorting(hashes[places])
        source[places] = np.where(found >= 0, places.take(found), -1)
    return source


def _last_by_sorting(hashes: Hashes) -> Indices:
    """:func:`_last_occurrences` of any number. Overwrites `hashes`: their low bits carry the index."""
    n = len(hashes)
    bits = np.uint64(n.bit_length())
    hashes >>= bits
    hashes <<= bits
    hashes |= np.arange(n, dtype=np.uint64)
    hashes.sort()
    names = hashes >> bits
    same = np.flatnonzero(names[1:] == names[:-1])
    order = (hashes & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    source = np.full(n, -1, np.int64)
    source[order[same + 1]] = order[same]
    return source


def run_starts(places: Indices, length: int) -> Indices:
    """Those of the sorted places at which a run of `length` consecutive places begins."""
    if len(places) < length:
        return places[:0]
    first = places[: len(places) - length + 1]
    return first[places[length - 1 :] - first < length]


def in_a_row(places: Indices, length: int, fences: Indices) -> Flags:
    """Which texts have a run of `length` of the places."""
    found = np.zeros(len(fences), np.bool_)
    found[text_index(run_starts(places, length), fences)] = True
    return found


def count_between(places: Indices, first: Indices, end: Indices) -> Indices:
    """How many of the sorted places are in each [first, end)."""
    return np.searchsorted(places, end) - np.searchsorted(places, first)


def prefix_sums(flags: Flags) -> NDArray[np.int32]:
    """Number of flags before each place, and in all."""
    sums = np.zeros(len(flags) + 1, np.int32)
    np.cumsum(flags, dtype=np.int32, out=sums[1:])
    return sums


def dense_window_ends(flags: Flags, window: int, least: int, fences: Indices) -> Indices:
    """The last places of all windows with at least `least` flags, each within one text."""
    if len(flags) < window:
        return np.zeros(0, np.int64)
    sums = prefix_sums(flags)
    first = np.flatnonzero(sums[window:] - sums[:-window] >= least)
    last = first + window - 1
    found: Indices = last[text_index(first, fences) == text_index(last, fences)]
    return found


def cusum(evidence: NDArray[np.integer[Any]], fences: Indices) -> Indices:
    """Page's sum of whole-number evidence at every place: never below zero, and zero at a fence."""
    sums = evidence.astype(np.int64)
    sums[fences] = _FALL
    np.cumsum(sums, out=sums)
    lowest = np.minimum.accumulate(sums)
    sums -= np.minimum(lowest, 0, out=lowest)
    return sums


def max_per_text(values: NDArray[Any], fences: Indices) -> NDArray[Any]:
    """The largest value of each text, the one at its fence included."""
    most: NDArray[Any] = np.maximum.reduceat(values, text_starts(fences))
    return most


def unmarked_gaps(marked: Flags, fences: Indices, least: int) -> tuple[Indices, Indices]:
    """Maximal stretches [first, end) of at least `least` places without a mark, within one text."""
    closed = marked.copy()
    closed[fences] = True
    end = np.flatnonzero(closed)
    first = np.concatenate((np.zeros(1, np.int64), end[:-1] + 1))
    wide = end - first >= least
    return first[wide], end[wide]
