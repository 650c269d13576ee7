"""Does the numbering of units hold? Stick, step back, skip, heading without a body.

One slip is human: models miscount now and then and go on. Two slips within three units are a model
that has lost its place. A stray heading that the numbering ignores afterwards counts once, a table of
contents or a restart after the last unit asked for does not count at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

LISTING_CHARS = 90
"""Units with bodies up to this length (median) are a table of contents: the numbering may start again."""
WINDOW = 3
"""A second slip within so many units of the first makes a break."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One numbering event. kind: "stick" | "back" | "repeat" | "skip" | "empty".

    index: the unit's place in the output, from 0. first/last: token span of the unit's heading.
    """

    kind: str
    index: int
    number: int
    before: int | None
    first: int


@dataclass(slots=True)
class _Unit:
    number: int
    first: int
    chars: int = 0


@dataclass(slots=True)
class Numbering:
    """Takes unit headings in order, and the characters of each body. wanted: units asked for."""

    wanted: int | None = None
    units: list[_Unit] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _last: int | None = None
    _anchor: int | None = None
    _step: int = 1
    _run_from: int = 0

    def body(self, chars: int) -> None:
        """More text of the current unit, in characters."""
        if self.units:
            self.units[-1].chars += chars

    @property
    def distinct(self) -> int:
        """Different numbers seen since the numbering last started, the current unit included."""
        return len(self._seen)

    @property
    def started(self) -> int:
        """Index of the first unit of the present numbering (units before it are a table of contents)."""
        return self._run_from

    def heading(self, number: int, first: int) -> Slip | None:
        """The next unit's number and the first token of its heading; what is wrong with it, if anything."""
        empty = self._empty()
        index = len(self.units)
        last, kind = self._last, self._judge(number)
        if kind == "restart":
            self._seen, self._run_from, self._step, kind, empty = set(), index, 1, None, None
        self.units.append(_Unit(number, first))
        self._anchor = last if kind in ("skip", "back") else None
        self._seen.add(number)
        self._last = number
        return Slip(kind, index, number, last, first) if kind else empty

    def _judge(self, number: int) -> str | None:
        last = self._last
        if last is None or number == last + self._step:
            return "repeat" if number in self._seen else None
        if self._anchor is not None and number == self._anchor + self._step:
            return None
        if number == last - 1 and len(self._seen) == 1 and last > 2:
            self._step = -1  # a countdown
            return None
        if number == last:
            return "stick"
        if number <= 1 and (self._listing() or (self.wanted is not None and self.wanted in self._seen)):
            return "restart"
        ahead = (number - last) * self._step > 0
        if number in self._seen:
            return "repeat" if ahead else "back"
        return "skip" if ahead else "back"

    def _listing(self) -> bool:
        bodies = [u.chars for u in self.units[self._run_from :]]
        return len(bodies) >= 2 and median(bodies) <= LISTING_CHARS

    def _empty(self) -> Slip | None:
        """The unit that ends now has no body, where units have one."""
        if not self.units or self.units[-1].chars > 2:
            return None
        bodies = [u.chars for u in self.units[self._run_from : -1]][:8]
        if len(bodies) < 3 or median(bodies) <= LISTING_CHARS:
            return None
        unit = self.units[-1]
        return Slip("empty", len(self.units) - 1, unit.number, None, unit.first)
