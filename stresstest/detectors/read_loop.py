"""The loop detector over a whole answer at once: the same loops, without a look at every token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stresstest.detectors.loop import GRAM, LoopDetector, key_of
from stresstest.detectors.reading import broken_at, coded, stood_before
from stresstest.detectors.windows import Hashes, Indices


class LoopReader(LoopDetector):
    """:meth:`read` once, instead of `update` with each token."""

    _enough = False

    def read(self, texts: Sequence[str]) -> None:
        """The texts of all tokens of an answer that has neither token ids nor reasoning."""
        codes = coded({text: key_of(text) for text in dict.fromkeys(texts)})
        first = {code: text for text, code in reversed(codes.items())}
        self._texts += map(first.__getitem__, range(1, len(first) + 1))
        self._seq = list(map(codes.__getitem__, texts))
        seq = np.array(self._seq, np.uint64)
        self._pass_over(seq, *stood_before(seq, GRAM))

    def _pass_over(self, seq: Hashes, at: Indices, lag: Indices) -> None:
        """at: every place up to which a gram stands again, in order; lag: how far back it last stood.

        Only there is anything to do: a candidate that stands is such a place, and where the next token is
        none all candidates break. Nor does anything happen while one gram after the other stood equally far
        back, but where another candidate breaks and where one is to be judged.
        """
        if not len(at):
            return
        last = np.flatnonzero((np.diff(at) != 1) | (np.diff(lag) != 0))
        firsts, lasts = np.append(0, last + 1), np.append(last, len(at) - 1)
        rows = zip(at[firsts].tolist(), at[lasts].tolist(), lag[firsts].tolist(), strict=True)
        before = -1
        for first, end, period in rows:
            if self._active and first > before + 1:
                self._drop(list(self._active))
            if self._active:
                self._advance(first, self._seq[first])
            self._propose(first, period)
            if end > first:
                self._extend(seq, first + 1, end, period)
            before = end
            if self._enough:
                return
        if before < len(seq) - 1:
            self._drop(list(self._active))

    def _extend(self, seq: Hashes, n: int, end: int, period: int) -> None:
        """From n to `end` all is what stood a period before, and that is a candidate already."""
        while n <= end and not self._enough:
            stop = end + 1
            for run in self._active:
                stop = min(stop, max(run.start + run.need - 1, n))
            for run in self._active:
                if run.period != period:
                    stop = broken_at(seq, n, stop, run.period)
            if stop > n:
                for run in self._active:
                    if run.loop is not None:
                        run.loop.last = stop - 1
            if stop <= end:
                self._advance(stop, self._seq[stop])
            n = stop + 1
