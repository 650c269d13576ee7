"""The flooding detector over a whole answer at once: only windows of few words are looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from stresstest.detectors.flooding import (
    BREAK,
    FEW,
    FIGURE,
    LEAVE_SHARE,
    MOST_DISTINCT,
    OPEN_WORDS,
    OWNED,
    SHARE,
    WINDOW,
    WORD,
    Flood,
    FloodingDetector,
    kind_of,
)
from stresstest.detectors.windows import Indices, dense, since

FAR = 15
"""Words within which most of the words of a flood come again."""


def flooded(lags: Indices, fences: Indices) -> Indices:
    """The last places of all windows, each within one text, that may be flooded. lags: see `since`.

    What is new in a window stands in it for the first time; what is not, and is one of the few that own it,
    stood not far before: a word can be `FAR` away from itself only so often.
    """
    seldom = FEW * (1 + (WINDOW - 1) // (FAR + 1))
    near = dense(lags <= FAR, WINDOW, OWNED - seldom, fences)
    return np.intersect1d(near, dense(lags < WINDOW, WINDOW, WINDOW - MOST_DISTINCT, fences), True)


def _owned(words: list[int]) -> int:
    """How many of the words the few most frequent ones are."""
    return sum(sorted(Counter(words).values())[-FEW:])


class _Spoken:
    """The words of an answer, as the detector's window holds them. codes: of each; same words, same codes."""

    def __init__(self, texts: Sequence[str]) -> None:
        kinds = {text: kind_of(text) for text in dict.fromkeys(texts)}
        rows = dict(zip(kinds, range(len(kinds)), strict=True))
        order = np.fromiter(map(rows.__getitem__, texts), np.int64, len(texts))
        words = dict.fromkeys(word for kind, word in kinds.values() if kind == WORD)
        self.numbers = {word: n for n, word in enumerate(words, 1)}
        self._names = ["", *words]
        every = np.array([self.numbers[word] if kind == WORD else 0 for kind, word in kinds.values()])
        every = every.astype(np.uint64).take(order)
        self._at = np.flatnonzero(every)
        self.codes = every[self._at]
        counted = (
            [kind == FIGURE for kind, _ in kinds.values()],
            [kind in (WORD, FIGURE) or bool(word) for kind, word in kinds.values()],
            [kind == BREAK for kind, _ in kinds.values()],
        )
        self._totals = [np.cumsum(np.array(each, np.int64).take(order))[self._at] for each in counted]

    def window(self, first: int, end: int) -> list[tuple[str, int, int, int, int]]:
        """The words of [first, end): text, position, and the figures, tokens and breaks up to it."""
        names = map(self._names.__getitem__, self.codes[first:end].tolist())
        totals = (each[first:end].tolist() for each in self._totals)
        return list(zip(names, (self._at[first:end] + 1).tolist(), *totals, strict=True))

    def position(self, n: int) -> int:
        """The 1-based token of a word."""
        return int(self._at[n]) + 1


class FloodingReader(FloodingDetector):
    """:meth:`read` once, instead of `update` with each token."""

    _spoken: _Spoken

    def read(self, texts: Sequence[str]) -> None:
        """The texts of all tokens of an answer without reasoning.

        Only windows that may be flooded are judged, and a flood is followed by counting its words.
        """
        self._spoken = _Spoken(texts)
        codes = self._spoken.codes
        if not len(codes):
            return
        n, fence = 0, np.array([len(codes) - 1])
        for full in flooded(since(codes, fence), fence).tolist():
            if full >= n and self._current is None:
                n = self._look(full)
        if self._current is None:
            if _owned(codes[-OPEN_WORDS:].tolist()) >= SHARE * OPEN_WORDS:
                self._until(len(codes) - 1)
            else:
                self._window.clear()  # its end is no tail of a flood

    def _until(self, n: int) -> None:
        """The detector's state after the word at n, without a flood."""
        window = self._spoken.window(max(n - WINDOW + 1, 0), n + 1)
        self._window.clear()
        self._window.extend(window)
        _, self._position, self._figures, self._tokens, self._breaks = window[-1]

    def _look(self, n: int) -> int:
        """Judge the window that ends with the word at n. The first word that was not read with it."""
        lacking = OWNED - _owned(self._spoken.codes[n - WINDOW + 1 : n + 1].tolist())
        if lacking > 0:
            return n + lacking  # a word more is one more at most
        self._until(n)
        self._judge()
        return n + 1 if self._current is None else self._go_on(self._current, n + 1)

    def _go_on(self, flood: Flood, n: int) -> int:
        """Follow a flood from the word at n on; the first word after it."""
        numbers = [self._spoken.numbers[word] for word in flood.words]
        own = np.isin(self._spoken.codes[n - WINDOW :], np.array(numbers, np.uint64))
        sums = np.cumsum(own, dtype=np.int64)
        over = np.flatnonzero(~own[WINDOW:] & (sums[WINDOW:] - sums[:-WINDOW] < WINDOW * LEAVE_SHARE))[:1]
        end = n + int(over[0]) if len(over) else len(self._spoken.codes)
        said = (np.flatnonzero(own[WINDOW : end - n + WINDOW]) + n).tolist()
        if flood.due and flood.count + len(said) >= flood.due:
            self._position = self._spoken.position(said[flood.due - flood.count - 1])
            flood.count += len(said)
            self._report(flood)
        else:
            flood.count += len(said)
        if said:
            flood.last = self._spoken.position(said[-1])
        if len(over):
            flood.standing = False
            self._current = None
        return end + 1
