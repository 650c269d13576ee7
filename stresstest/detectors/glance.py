"""The repetition detectors' own counting over hashes of words: may this text hold a loop or a near-loop?

What repeats for the detectors repeats in the hashes, which fold a little more. So their own arithmetic, told
of nothing but what stands again, comes to the bound where theirs does, and ends with an open candidate where
theirs does. A little slack is left for what the hashes join or cut otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.loop import OPEN_REPEATED, LoopDetector, bound
from stresstest.detectors.near_loop import THIRD, NearLoopDetector
from stresstest.detectors.stretch import Stretch, Totals

SLACK = 4
"""Words less than a detector needs."""
_NOTHING = PanelSpec()


class LoopGlance(LoopDetector):
    """Runs as long as the bound, whatever they say."""

    def __init__(self, pieces: list[int], again: Sequence[tuple[int, int]]) -> None:
        super().__init__(_NOTHING)
        self._seq = pieces
        self._pass_over(again)

    @property
    def suspicious(self) -> bool:
        """Whether a run reached the bound, or may yet where the text ends."""
        return self._enough or self.open_from is not None

    def _judge(self, run: object, n: int) -> None:
        del run, n
        self._enough = True


class NearLoopGlance(NearLoopDetector):
    """Copied stretches as long as the bounds, whatever they say."""

    def __init__(self, words: list[int], says: list[bool], before: Mapping[int, int]) -> None:
        super().__init__(_NOTHING)
        self._spoken_at = says
        self._written.seq = words
        self._written.copied = bytearray(len(words))
        self._pass_over(before, lambda n: (words[n], says[n], False, None))

    @property
    def suspicious(self) -> bool:
        """Whether a stretch reached a bound, or may yet where the text ends."""
        return self._enough or max(self._sum, self._circling) >= OPEN_REPEATED - SLACK

    def _stretched(self, n: int, first: int, lag: int) -> Stretch:
        return Stretch(first, lag, n, Totals(), THIRD - 2 * SLACK, bound(lag) - SLACK)

    def _says(self, n: int) -> bool:
        return self._spoken_at[n]

    def _judge(self, n: int, stretch: Stretch, lag: int) -> None:
        del n, stretch, lag
        self._enough = True
