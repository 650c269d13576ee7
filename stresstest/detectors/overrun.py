"""A unit's paragraph that does not end where this text's paragraphs end.

A model that has lost its place stops closing units: no line break and no heading comes any more. Only the
first paragraph of each unit counts, for what follows the last unit (an epilogue, a summary) is none of them.
Real texts have a long paragraph now and then, so this proves nothing alone; it stands beside sentences that
have lost their lengths, a numbering slip or, where it is no loop that fills it, a rise of entropy.
"""

from __future__ import annotations

import re
from bisect import insort
from dataclasses import dataclass, field
from statistics import median

from stresstest.detectors.compression import UNITS_LEAST, Shrunk

LEAST = UNITS_LEAST
"""Fewer paragraphs than this have no usual length."""
MOST = 24
PARAGRAPH = 60
"""Characters: a shorter line is a title, a line of dialogue, a list item."""
SENTENCES = 3
"""Fewer are sentences that do not end, which their own lengths show."""
ENDED = re.compile(r"[.!?…؟।۔。！？｡]\W*\Z")
EXCESS = 2.0
"""Times the longest paragraph so far."""


@dataclass(slots=True)
class ParagraphLengths:
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
    _told: bool = False

    def add(self, prose: str, first: int, line: int, unit: int) -> Shrunk | None:
        """The next sentence: its text, first token, line and unit. An overrun once a unit, dated to the
        first sentence that begins beyond the usual (median) length; its count is that of the different
        sentences from there on."""
        if unit != self._unit:
            self._end()
            self._unit, self._line = unit, line
        elif line != self._line:
            if self._chars >= PARAGRAPH:
                return None
            self._line = line
        if self._beyond is None and self._early and self._chars >= self._usual:
            self._beyond = first
        if self._beyond is not None and ENDED.search(prose):
            self._after.add(prose)
        self._chars += len(prose)
        self._sentences += 1
        if self._told or len(self._early) < LEAST or self._chars <= EXCESS * self._longest:
            return None
        if self._beyond is None or self._sentences < SENTENCES:
            return None
        self._told = True
        different = len(self._after)
        return Shrunk("paragraph", self._beyond, different, self._sentences, self._usual, self._chars)

    def _end(self) -> None:
        if self._chars >= PARAGRAPH and not self._told:
            self._longest = max(self._longest, self._chars)
            if len(self._early) < MOST:
                insort(self._early, self._chars)
                self._usual = median(self._early)
        self._chars = self._sentences = 0
        self._beyond, self._told = None, False
        self._after.clear()
