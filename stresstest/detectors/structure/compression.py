"""Do sentences, units or paragraphs leave the lengths of the text's own beginning?

Lengths are characters, so that any script will do. The early baseline is robust: a sentence is odd when it is
shorter than (nearly) every one of the first two dozen (it has lost parts) or longer (it has lost its end), a
unit when it is under a share of the early median. Texts with varied early sentences have a wide range and are
rarely flagged. On the lab model 2 % of the sentences before the true onset are odd, and 61 % after it.

A unit's paragraph is endless when it exceeds this text's usual length: a model that has lost its place stops
closing units. Only the first paragraph of each unit counts, which excludes what follows the last unit (an
epilogue, a summary). Real texts have a long paragraph now and then, so this proves nothing alone.
"""

from __future__ import annotations

import re
from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from statistics import median

MIN_EARLY_SENTENCES = 8
MAX_EARLY_SENTENCES = 24
SHORT_FACTOR = 0.92
"""A sentence is short below this share of the shortest early one (the early 5 % quantile from 20 on)."""
LONG_FACTOR = 1.08
"""A sentence runs on above this multiple of the longest early one (the second longest from 20 on)."""
COLLAPSE_FACTOR = 0.6
"""A collapse needs the median of the window below this share of the early median, not just many shorts."""
MIN_REGULAR_FLOOR = 0.45
MAX_REGULAR_CEILING = 1.8
"""Lengths are proof alone only where they are regular: floor and ceiling are at least and at most these
shares of the early median. Free prose mixes long and short sentences, dialogue and notes."""
MIN_UNITS = 4
"""Fewer units than this are no rhythm to lose."""
UNIT_SHORT = 0.5
UNIT_COLLAPSED = 1 / 3

MIN_PARAGRAPHS = MIN_UNITS
"""Fewer paragraphs than this have no usual length."""
MAX_PARAGRAPHS = 24
MIN_PARAGRAPH_CHARS = 60
"""Characters: a shorter line is a title, a line of dialogue, a list item."""
MIN_SENTENCES = 3
"""Fewer are sentences that do not end, which their own lengths show."""
SENTENCE_END = re.compile(r"[.!?…؟।۔。！？｡]\W*\Z")
EXCESS = 2.0
"""Times the longest paragraph so far."""


@dataclass(frozen=True, slots=True)
class LengthAnomaly:
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
class SentenceLengthMonitor:
    """Early baseline and a window of the last seven sentences."""

    _early: list[int] = field(default_factory=list)
    _recent: deque[tuple[int, int, bool, int]] = field(default_factory=lambda: deque(maxlen=7))

    @property
    def ready(self) -> bool:
        """Whether there is a beginning to compare with."""
        return len(self._early) >= MIN_EARLY_SENTENCES

    @property
    def floor(self) -> float:
        rank = 1 if len(self._early) >= 20 else 0
        return SHORT_FACTOR * self._early[rank]

    @property
    def ceiling(self) -> float:
        rank = 2 if len(self._early) >= 20 else 1
        return LONG_FACTOR * self._early[-rank]

    @property
    def regular(self) -> bool:
        """Whether the early sentences are similar enough for lengths to be proof."""
        before = median(self._early)
        return self.floor >= MIN_REGULAR_FLOOR * before and self.ceiling <= MAX_REGULAR_CEILING * before

    def add(self, chars: int, first: int, unit: int = 0) -> LengthAnomaly | None:
        """The next sentence: length, first token, units so far. The run of odd ones it belongs to, if any."""
        odd = self.ready and not self.floor <= chars <= self.ceiling
        self._recent.append((chars, first, odd, unit))
        if not odd:
            if len(self._early) < MAX_EARLY_SENTENCES:
                insort(self._early, chars)
            return None
        window = list(self._recent)[-5:]
        odds = [each for each in window if each[2]]
        if len(odds) < 3:
            return None
        before, after = median(self._early), median(each[0] for each in window)
        # A stray odd sentence followed by a healthy one is no beginning: the run begins with the next.
        begin = odds[0] if window[window.index(odds[0]) + 1][2] else odds[1]
        return LengthAnomaly(
            "sentences", begin[1], len(odds), len(window), before, after, self._is_certain(before, unit)
        )

    def _is_certain(self, before: float, unit: int) -> bool:
        every = [each for each in self._recent if each[2]]
        # A list of sources or a quick dialogue lies in one unit; a model that fails goes on numbering.
        running = unit >= MIN_UNITS and len({each[3] for each in every}) >= 2
        shallow = median(each[0] for each in self._recent) > COLLAPSE_FACTOR * before
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
class UnitLengthMonitor:
    """Early median (four to eight units) and the present run of short units."""

    _early: list[int] = field(default_factory=list)
    _run: list[tuple[int, int]] = field(default_factory=list)

    def reset(self) -> None:
        """The numbering restarted: what came before was a table of contents."""
        self._early, self._run = [], []

    def add(self, chars: int, first: int) -> LengthAnomaly | None:
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
        return LengthAnomaly("units", self._run[0][1], size, size, before, after, certain)

    @property
    def open_from(self) -> int | None:
        """First token of the present run of short units."""
        return self._run[0][1] if self._run else None


@dataclass(slots=True)
class ParagraphLengthMonitor:
    """Lengths of the units' first paragraphs so far, in characters, and the present one's."""

    _early: list[int] = field(default_factory=list)
    _longest: int = 0
    _usual: float = 0.0
    _unit: int = -1
    _line: int = -1
    _chars: int = 0
    _sentences: int = 0
    _beyond: int | None = None
    _after: set[str] = field(default_factory=set)
    _reported: bool = False

    def add(self, prose: str, first: int, line: int, unit: int) -> LengthAnomaly | None:
        """Add a sentence: its text, first token, line and unit. Returns an overrun once a unit, dated to the
        first sentence that begins beyond the median length; its count is that of the distinct sentences from
        there on."""
        if unit != self._unit:
            self._end()
            self._unit, self._line = unit, line
        elif line != self._line:
            if self._chars >= MIN_PARAGRAPH_CHARS:
                return None
            self._line = line
        if self._beyond is None and self._early and self._chars >= self._usual:
            self._beyond = first
        if self._beyond is not None and SENTENCE_END.search(prose):
            self._after.add(prose)
        self._chars += len(prose)
        self._sentences += 1
        if self._reported or len(self._early) < MIN_PARAGRAPHS or self._chars <= EXCESS * self._longest:
            return None
        if self._beyond is None or self._sentences < MIN_SENTENCES:
            return None
        self._reported = True
        different = len(self._after)
        return LengthAnomaly("paragraph", self._beyond, different, self._sentences, self._usual, self._chars)

    def _end(self) -> None:
        if self._chars >= MIN_PARAGRAPH_CHARS and not self._reported:
            self._longest = max(self._longest, self._chars)
            if len(self._early) < MAX_PARAGRAPHS:
                insort(self._early, self._chars)
                self._usual = median(self._early)
        self._chars = self._sentences = 0
        self._beyond, self._reported = None, False
        self._after.clear()
