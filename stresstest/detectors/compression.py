"""Do sentences or units shrink against the text's own beginning?

Lengths are characters, so that any script will do. The early baseline is robust: a sentence is short
when it is shorter than (nearly) every one of the first two dozen, a unit when it is under a share of
the early median. Texts whose early sentences vary much have a low floor and are hard to accuse, which
is as it should be.
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
DEPTH = 0.6
"""A collapse needs the median of the window below this share of the early median, not just many shorts."""
REGULAR = 0.45
"""Lengths prove something alone only where they are regular: the floor is at least this share of the
early median. Free prose mixes long and short sentences and turns to dialogue or notes when it likes."""
UNITS_LEAST = 4
"""Fewer units than this are no rhythm to lose."""
UNIT_SHORT = 0.5
UNIT_COLLAPSED = 1 / 3


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A run of short sentences or units. first: token where the run begins. certain: proves alone.

    count/of: short ones in the window; before/after: early and present median length in characters.
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
    def floor(self) -> float:
        """Below this many characters a sentence is short."""
        rank = 1 if len(self._early) >= 20 else 0
        return FLOOR * self._early[rank]

    def add(self, chars: int, first: int, unit: int = 0) -> Shrunk | None:
        """The next sentence: length, first token, units so far. The run of short ones it ends, if any."""
        short = len(self._early) >= EARLY_LEAST and chars < self.floor
        self._recent.append((chars, first, short, unit))
        if not short:
            if len(self._early) < EARLY_MOST:
                insort(self._early, chars)
            return None
        window = list(self._recent)[-5:]
        shorts = [each for each in window if each[2]]
        if len(shorts) < 3:
            return None
        before, after = median(self._early), median(each[0] for each in window)
        every = [each for each in self._recent if each[2]]
        whole = median(each[0] for each in self._recent)
        regular = self.floor >= REGULAR * before
        # A list of sources or a quick dialogue lies in one unit; a model that fails goes on numbering.
        running = unit >= UNITS_LEAST and len({each[3] for each in every}) >= 2
        certain = running and regular and len(every) >= 6 and whole <= DEPTH * before
        # A short sentence followed by a healthy one was a stray: the run begins with the next.
        begin = shorts[0] if window[window.index(shorts[0]) + 1][2] else shorts[1]
        return Shrunk("sentences", begin[1], len(shorts), len(window), before, after, certain)

    @property
    def open_from(self) -> int | None:
        """First token of a short sentence that might yet begin a run."""
        shorts = [each for each in list(self._recent)[-5:] if each[2]]
        if not shorts or (len(shorts) < 2 and not self._recent[-1][2]):
            return None
        return shorts[0][1]


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
