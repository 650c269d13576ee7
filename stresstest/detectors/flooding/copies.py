"""Which texts may stutter: their words, as arrays, come again directly after themselves."""

from __future__ import annotations

import numpy as np

from stresstest.detectors.flooding.stutter import LONGEST_COPY, OPEN_REPEATED, OPEN_WINDOW, REPEATED, WINDOW
from stresstest.detectors.text.windows import (
    Flags,
    Hashes,
    Indices,
    count_between,
    dense_window_ends,
    prefix_sums,
    text_index,
    text_starts,
)


def may_stutter(words: Hashes, lags: Indices, fences: Indices) -> Flags:
    """Of each text, whether it may stutter, or end in what may become a stutter.

    words: of all texts, closed by fences; lags: see `distance_to_previous`. Most texts are passed for having
    few words that recur nearby, which is quickly seen.
    """
    found = _dense(lags <= LONGEST_COPY, fences)
    starts = text_starts(fences)
    for i in np.flatnonzero(found).tolist():
        own = words[starts[i] : fences[i] + 1]
        found[i] = _dense(_copied(own), np.array([len(own) - 1]))[0]
    return found


def _dense(flags: Flags, fences: Indices) -> Flags:
    """Which texts have a window with as many flags as a stutter, or as an open one, has words."""
    starts = text_starts(fences)
    short = fences - starts < OPEN_WINDOW
    found: Flags = short & (count_between(np.flatnonzero(flags), starts, fences + 1) >= OPEN_REPEATED)
    for window, least in ((WINDOW, REPEATED), (OPEN_WINDOW, OPEN_REPEATED)):
        found[text_index(dense_window_ends(flags, window, least, fences), fences)] = True
    return found


def _copied(words: Hashes) -> Flags:
    """Which words belong to a copy of the words directly before it."""
    changes = np.zeros(len(words) + 1, np.int64)
    for length in range(1, min(LONGEST_COPY, len(words) // 2) + 1):
        sums = prefix_sums(words[length:] == words[:-length])
        first = np.flatnonzero(sums[length:] - sums[:-length] == length) + length
        changes[first] += 1
        changes[first + length] -= 1
    copied: Flags = np.cumsum(changes[:-1]) > 0
    return copied
