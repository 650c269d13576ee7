"""Numbering that no task describes: headings such as "Chapter 7." or "**Step 12:**" at the heads of lines.

What a text numbers is not known here, so that only a count that was kept for long and is then lost shows
anything. Healthy texts begin again at 1, skip numbers, give one number to two headings (the morning and the
evening of a day) or return to earlier ones in a review. They do not mix the last two close together.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from stresstest.detectors.entry import ScreenBatch, Suspicion

KEPT = 8
"""Consecutive headings, each numbered one higher than the last, that establish a count."""
LOST, WITHIN, NEAR = 3, 6, 5
"""A count is lost where `LOST` of the last `WITHIN` headings repeat the number before or go back by at most
`NEAR`, some of them the one and some the other; or where `LOST` + 1 in a row repeat it."""
_MAX_WORDS = 32
"""Words whose headings are counted: texts use few, and hostile ones get no more."""
_HEADING = re.compile(
    r"^[>#*_~\[(•\-\s]{0,16}([^\W\d_]{3,24})[ \t*_]{1,4}(\d{1,6})(?=[.:)\]*_]|[ \t]*$)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class LostCount:
    """Where a count was lost. at: the place of the first heading that repeats a number or goes back. number:
    of the heading that shows it; before: of the one before that."""

    at: int
    word: str
    number: int
    before: int


@dataclass(slots=True)
class _Count:
    """Headings under one word. run: consecutive ones in order. made: the count is established. slips: of the
    last headings, place and kind of each that is out of order, None for the others."""

    last: int = 0
    run: int = 0
    made: bool = False
    slips: deque[tuple[int, str] | None] = field(default_factory=lambda: deque(maxlen=WITHIN))

    def add(self, number: int, at: int) -> int | None:
        """The place at which the count was lost, once this heading shows it."""
        before, self.last = self.last, number
        if number == before + 1:
            self.run += 1
            self.made = self.made or self.run >= KEPT
            self.slips.append(None)
            return None
        self.run = 1
        if not self.made or number <= 1 or number > before or before - number > NEAR:
            self.made = self.made and number > 1
            self.slips.append(None)
            return None
        self.slips.append((at, "stick" if number == before else "back"))
        found = [slip for slip in self.slips if slip is not None]
        kinds = {kind for _, kind in found}
        stuck = all(slip is not None and slip[1] == "stick" for slip in [*self.slips][-LOST - 1 :])
        lost = (len(found) >= LOST and len(kinds) == 2) or (stuck and len(found) > LOST)
        return found[0][0] if lost else None


class InferredCounts:
    """Takes the heads of lines in order."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}

    def add(self, head: str, at: int) -> LostCount | None:
        """at: the place of the line, in any unit."""
        match = _HEADING.match(head)
        return None if match is None else self.add_heading(match, at)

    def add_heading(self, heading: re.Match[str], at: int) -> LostCount | None:
        """The same of a heading that was found."""
        word, number = heading[1].casefold(), int(heading[2])
        count = self._counts.get(word)
        if count is None:
            if len(self._counts) >= _MAX_WORDS:
                return None
            count = self._counts[word] = _Count()
        before = count.last
        found = count.add(number, at)
        return None if found is None else LostCount(found, word, number, before)


def _loses_count(text: str) -> bool:
    counts = InferredCounts()
    return any(counts.add_heading(found, found.start()) for found in _HEADING.finditer(text))


def suspect_lost_counts(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts that lose a count of headings."""
    least = KEPT + LOST
    return [
        Suspicion(text, plain=True) if text.count("\n") >= least and _loses_count(text) else None
        for text in batch.texts
    ]
