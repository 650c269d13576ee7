"""The near-loop detector over a whole answer at once: the same near-loops, without a look at every word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.loop import bound
from stresstest.detectors.near_loop import GRAM, MOST, NEARBY, THIRD, NearLoopDetector
from stresstest.detectors.reading import Words, broken_at, coded, stood_before
from stresstest.detectors.stretch import Stretch, Totals
from stresstest.detectors.windows import Hashes, Indices
from stresstest.detectors.written import Entry
from stresstest.model import Token

_COPIED = bytes([1]) + bytes([2]) * 255
"""What a copy of a word is: of a new one a copy, of a copy a copy of a copy."""
_WORTH = 8
"""Copied words in a row from which on it is asked how far the copy goes on."""
_FAR = 512
"""Words ahead that are looked at for it."""


class NearLoopReader(NearLoopDetector):
    """:meth:`read` once, instead of `update` with each token."""

    _enough = False

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__(spec)
        self._words: Words | None = None
        self._codes: Hashes = np.zeros(0, np.uint64)
        self._odd: list[int] = []
        self._counting: list[bool] = []

    def read(self, texts: Sequence[str]) -> None:
        """The texts of all tokens of an answer without reasoning.

        Words that are new while nothing is being copied are passed over; where a word stands is asked of few.
        """
        words = Words(texts)
        if not words.whole:
            for text in texts:
                self.update(Token(text))
            return
        self._words = words
        marks, written = words.marks, words.words
        codes = coded({word: each.text for word, each in marks.items()})
        seq = list(map(codes.__getitem__, written))
        of_code = {code: marks[word] for word, code in codes.items()}
        says = np.array([False, *(each.word for each in of_code.values())])
        figure = np.array([False, *(each.figure for each in of_code.values())])
        self._codes = np.array(seq, np.uint64)
        order = self._codes.astype(np.int64)
        figures = np.flatnonzero(figure.take(order)).tolist()
        values = {n: marks[written[n]].value for n in figures}
        self._written.fill(seq, (each.text for each in of_code.values()), words.at, values)
        self._counting = says.take(order).tolist()
        plain: list[Entry] = [(code, word, False, None) for code, word in enumerate(says.tolist())]
        entries = list(map(plain.__getitem__, seq))
        for n, value in values.items():
            entries[n] = (seq[n], self._counting[n], True, value)
        self._pass_over(*stood_before(self._codes, GRAM), figures, entries)

    def _pass_over(self, at: Indices, lag: Indices, figures: list[int], entries: Sequence[Entry]) -> None:
        """Go on where a four-gram stands again, and until nothing is copied any more, or it is `_enough`.

        at: every place up to which a four-gram stands again, in order; lag: how far back it last stood.
        figures: the places of figures.
        """
        self._odd = sorted({*figures, *at[lag <= NEARBY].tolist()})
        places = at.tolist()
        before = dict(zip(places, (at - lag).tolist(), strict=True))
        n, end = 0, len(entries)
        for known in (*places, end):
            n = max(n, known)
            while n < end and (n in before or self._lag or self._sum or self._circling):
                if self._steady >= _WORTH and self._sum and not self._circling and not self._owed:
                    n = self._copy_on(n, end)
                    if n == end:
                        return
                self._go_on(n, entries[n], before.get(n))
                n += 1
                if self._enough:
                    return

    def _copy_on(self, n: int, end: int) -> int:
        """Where the copy that stands at n ends, or something is to be done about it: all words before that
        are hits, as `_hit` and `_weigh` take them one by one."""
        most = min(n + _FAR, end)
        if self._current is None:
            left = min(self._stretch.steady - self._steady, self._stretch.third - self._third) - 1
            most = min(most, n + left)
        odd = bisect_left(self._odd, n)
        if odd < len(self._odd):
            most = min(most, self._odd[odd])
        stop = broken_at(self._codes, n, most, self._lag) if most > n else n
        if stop == n:
            return n
        count, copied, lag = stop - n, self._written.copied, self._lag
        new = min(count, lag)  # beyond it, copies of this very stretch
        for i in range(n, n + new):
            self._third += self._counting[i] and copied[i - lag] > 0
        said = sum(self._counting[n:stop])
        self._third += sum(self._counting[n + new : stop])
        copied[n : n + new] = copied[n - lag : n - lag + new].translate(_COPIED)
        copied[n + new : stop] = b"\2" * (count - new)
        self._lags.update(dict.fromkeys(range(n, stop), lag))
        self._steady += count
        self._sum = min(self._sum + said, MOST)
        if self._current is not None:
            self._current.last = stop - 1
        return stop

    def _stretched(self, n: int, first: int, lag: int) -> Stretch:
        if self._words is None:
            return super()._stretched(n, first, lag)
        return Stretch(first, lag, n, None, THIRD, bound(lag))  # looked up when it is judged, if ever

    def _judge(self, n: int, stretch: Stretch, lag: int) -> None:
        if self._words is not None:
            self._position = self._words.arrive(n, self._code)
        super()._judge(n, stretch, lag)

    def _says(self, n: int) -> bool:
        return super()._says(n) if self._words is None else self._counting[n]

    def _counted(self, n: int) -> Totals:
        return super()._counted(n) if self._words is None else self._words.counted(n)
