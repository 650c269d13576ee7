"""What the near-loop detector keeps of copied text: stretches that may become near-loops, and near-loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

FIGURE_SHARE = 0.15
WORD_SHARE = 0.4
"""Figures among words and signs beyond which, and words below which, a stretch is a table, data or
formulas; it needs more words."""

DATA_FIGURES = 0.35
DATA_WORDS = 0.3
"""Beyond and below these, rows of data are never a near-loop: each says something in its figures."""

SHIFT = 2
"""A few words put in or left out move the distance by so many without being a jump."""


class Totals(NamedTuple):
    """What was written up to a place: words that say something, figures, signs."""

    words: int = 0
    figures: int = 0
    signs: int = 0

    @property
    def tabular(self) -> bool:
        """Whether it is a table, data or formulas."""
        return self.figures > FIGURE_SHARE * sum(self) or self.words < WORD_SHARE * sum(self)

    @property
    def data(self) -> bool:
        """Whether it is hardly anything but data."""
        return self.figures > DATA_FIGURES * sum(self) or self.words < DATA_WORDS * sum(self)


@dataclass(slots=True)
class Stretch:
    """Copied text in one piece. first: its first mark; lag: from how far it was copied then; noticed: the
    mark at which it was noticed; before: what stood before that one, None where it can be looked up.
    third, steady: when it is to be judged. data: rows of data so far."""

    first: int
    lag: int
    noticed: int
    before: Totals | None
    third: int
    steady: int
    data: bool = False


@dataclass(slots=True, eq=False)
class NearLoop:
    """first, last: indices of its first and last copied mark. need: copied words at which it was proof."""

    first: int
    start: int
    period: int
    alarm: int
    need: int
    steady: bool
    text: str
    last: int
    circling: bool
    standing: bool = True


def akin(one: int, other: int) -> bool:
    """Whether two distances differ by a few words put in or left out, or lead to another copy of the
    same period."""
    short, long = sorted((one, other))
    if long - short <= SHIFT:
        return True
    rest = long % short
    return min(rest, short - rest) <= min(2 * SHIFT, short // 8)
