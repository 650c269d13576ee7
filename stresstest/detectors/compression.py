"""Do sentences or units leave the lengths of the text's own beginning?

Lengths are characters, so that any script will do. The early baseline is robust: a sentence is odd when
it is shorter than (nearly) every one of the first two dozen (it has lost parts) or longer (it has lost its
end and runs on), a unit when it is under a share of the early median. Texts whose early sentences vary
much have a wide range and are hard to accuse, which is as it should be. On the lab model 2 % of the
sentences before the true onset are odd, and 61 % after it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from statistics import median

EARLY_LEAST = 8
EARLY_MOST = 24
FLOOR = 0.92
"""A sentence is short below this share of the shortest early one (the early 5 % quantile from 20 on)."""
CEILING = 1.08
"""A sentence runs on above this multiple of the longest early one (the second longest from 20 on)."""
DEPTH = 0.6
"""A collapse needs the median of the window below this share of the early median, not just many shorts."""
REGULAR = 0.45
WIDEST = 1.8
"""Lengths prove something alone only where they are regular: floor and ceiling are at least and at most
these shares of the early median. Free prose mixes long and short sentences and turns to dialogue or
notes when it likes."""
UNITS_LEAST = 4
"""Fewer units than this are no rhythm to lose."""
UNIT_SHORT = 0.5
UNIT_COLLAPSED = 1 / 3


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A run of odd sentences or short units. first: token where the run begins. certain: proves alone.

    count/of: odd ones in the window; before/after: early and present median length in characters.
    """

    what: str
    first: int
    count: int
    of: int
    before: float
    after: float
    certain: bool = False


@dataclass(slots=True)
class SentenceLengths:
    """Early baseline and a window of the last seven sentences."""

    _early: list[int] = field(default_factory=list)
    _recent: deque[tuple[int, int, bool, int]] = field(default_factory=lambda: deque(maxlen=7))

    @property
    def ready(self) -> bool:
        """Whether there is a beginning to compare with; before it, lost parts are not seen."""
        return len(self._early) >= EARLY_LEAST

    @property
    def floor(self) -> float:
        """Below this many characters a sentence is short."""
        rank = 1 if len(self._early) >= 20 else 0
        return FLOOR * self._early[rank]

    @property
    def ceiling(self) -> float:
        """Above this many characters a sentence runs on."""
        rank = 2 if len(self._early) >= 20 else 1
        return CEILING * self._early[-rank]

    @property
    def regular(self) -> bool:
        """Whether the early sentences are so alike that lengths prove something."""
        before = median(self._early)
        return self.floor >= REGULAR * before and self.ceiling <= WIDEST * before

    def add(self, chars: int, first: int, unit: int = 0) -> Shrunk | None:
        """The next sentence: length, first token, units so far. The run of odd ones it belongs to, if any."""
        odd = self.ready and not self.floor <= chars <= self.ceiling
        self._recent.append((chars, first, odd, unit))
        if not odd:
            if len(self._early) < EARLY_MOST:
                insort(self._early, chars)
            return None
        window = list(self._recent)[-5:]
        odds = [each for each in window if each[2]]
        if len(odds) < 3:
            return None
        before, after = median(self._early), median(each[0] for each in window)
        # A stray odd sentence followed by a healthy one is no beginning: the run begins with the next.
        begin = odds[0] if window[window.index(odds[0]) + 1][2] else odds[1]
        return Shrunk(
            "sentences", begin[1], len(odds), len(window), before, after, self._certain(before, unit)
        )

    def _certain(self, before: float, unit: int) -> bool:
        every = [each for each in self._recent if each[2]]
        # A list of sources or a quick dialogue lies in one unit; a model that fails goes on numbering.
        running = unit >= UNITS_LEAST and len({each[3] for each in every}) >= 2
        shallow = median(each[0] for each in self._recent) > DEPTH * before
        both = any(each[0] < before for each in every) and any(each[0] > before for each in every)
        # Short ones only may be a change of style, unless they collapse; short and endless ones are not.
        return running and self.regular and len(every) >= (5 if both else 6) and (both or not shallow)

    @property
    def open_from(self) -> int | None:
        """First token of an odd sentence that might yet begin a run."""
        odds = [each for each in list(self._recent)[-5:] if each[2]]
        if not odds or (len(odds) < 2 and not self._recent[-1][2]):
            return None
        return odds[0][1]


@dataclass(slots=True)
class UnitLengths:
    """Early median (four to eight units) and the present run of short units."""

    _early: list[int] = field(default_factory=list)
    _run: list[tuple[int, int]] = field(default_factory=list)

    def reset(self) -> None:
        """The numbering began anew: what came before was a table of contents."""
        self._early, self._run = [], []

    def add(self, chars: int, first: int) -> Shrunk | None:
        """A complete unit's length and first token; the run of short units that it continues, if any."""
        early = self._early
        before = median(early) if early else 0.0
        if len(early) < 4 or chars >= UNIT_SHORT * before:
            self._run = []
            if len(early) < 8:
                early.append(chars)
            return None
        self._run.append((chars, first))
        if len(self._run) < 3:
            return None
        collapsed = [c for c, _ in self._run if c < UNIT_COLLAPSED * before]
        after = median(c for c, _ in self._run)
        size = len(self._run)
        certain = size >= 4 and len(collapsed) >= size - 1
        return Shrunk("units", self._run[0][1], size, size, before, after, certain)

    @property
    def open_from(self) -> int | None:
        """First token of the present run of short units."""
        return self._run[0][1] if self._run else None
