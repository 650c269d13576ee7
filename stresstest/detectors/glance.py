"""The repetition detectors' own counting over hashes of words: may this text hold a loop or a near-loop?

What repeats for the detectors repeats in the hashes, which fold a little more. So their own arithmetic, told
of nothing but what stands again, comes to the bound where theirs does, and ends with an open candidate where
theirs does. A little slack is left for what the hashes join or cut otherwise.
"""

from __future__ import annotations

from itertools import repeat

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.loop import OPEN_REPEATED, bound
from stresstest.detectors.near_loop import THIRD
from stresstest.detectors.read_loop import LoopReader
from stresstest.detectors.read_near_loop import NearLoopReader
from stresstest.detectors.stretch import Stretch, Totals
from stresstest.detectors.windows import Hashes, Indices

SLACK = 4
"""Words less than a detector needs."""
_NOTHING = PanelSpec()


class LoopGlance(LoopReader):
    """Runs as long as the bound, whatever they say."""

    def __init__(self, pieces: Hashes, at: Indices, lag: Indices) -> None:
        super().__init__(_NOTHING)
        self._seq = pieces.tolist()
        self._pass_over(pieces, at, lag)

    @property
    def enough(self) -> bool:
        """Whether a run reached the bound."""
        return self._enough

    @property
    def suspicious(self) -> bool:
        """Whether a run reached the bound, or may yet where the text ends."""
        return self._enough or self.open_from is not None

    def _judge(self, run: object, n: int) -> None:
        del run, n
        self._enough = True


class NearLoopGlance(NearLoopReader):
    """Copied stretches as long as the bounds, whatever they say."""

    def __init__(self, words: Hashes, says: list[bool], at: Indices, lag: Indices) -> None:
        super().__init__(_NOTHING)
        self._codes = words
        seq = self._written.seq = words.tolist()
        self._written.copied = bytearray(len(seq))
        self._counting = says
        self._pass_over(at, lag, [], list(zip(seq, says, repeat(False), repeat(None))))

    @property
    def suspicious(self) -> bool:
        """Whether a stretch reached a bound, or may yet where the text ends."""
        return self._enough or max(self._sum, self._circling) >= OPEN_REPEATED - SLACK

    def _stretched(self, n: int, first: int, lag: int) -> Stretch:
        return Stretch(first, lag, n, Totals(), THIRD - 2 * SLACK, bound(lag) - SLACK)

    def _says(self, n: int) -> bool:
        return self._counting[n]

    def _judge(self, n: int, stretch: Stretch, lag: int) -> None:
        del n, stretch, lag
        self._enough = True
