"""Headings of units, also those that the task's own pattern does not match, and their numbering.

A model that loses the language or its place keeps writing headings: under another word ("Paragraph 9." in a
story of "Paragrafo"s) or with an absurd number ("Paragrafo 133213332."). To a pattern both are text, and the
numbering that fails there goes unseen.

One slip is normal: models miscount now and then and go on. Two slips within three units are a model that has
lost its place. A stray heading that the numbering ignores afterwards counts once, a table of contents or a
restart after the last requested unit does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median

from stresstest.unit_pattern import UnitPattern

LISTING_CHARS = 90
"""Units with bodies up to this length (median) are a table of contents: the numbering may start again."""
EMPTY_UNITS = 3
"""Units in a row that have nothing under their headings: not even titles, as a table of contents has."""
UNANSWERED_UNITS = 3
"""Units in a row that end with the same label and nothing after it: forms that were not filled in."""
SLIP_WINDOW = 3
"""A second slip within so many units of the first makes a break."""

_SHAPE = re.compile(r"[>#*_~\[(•\-\s]{0,16}([^\W\d_]{3,24})[ \t*_]{1,4}(\d{1,40})(?=[.:)\]*_]|\Z)")
_WORD = re.compile(r"[^\W\d_]+")
_LABEL = re.compile(r"[>#*_\-\s]{0,8}([^\W\d_][\w ]{0,30}?)[ *_]{0,4}:[ *_]{0,4}")
_LITERAL = re.compile(r"(?<!\\)[^\W\d_]{5,}")
"""The words that a pattern spells out."""
_MAX_DIGITS = 6
"""Digits of a unit's number, at most."""
_COGNATE_PREFIX = 5
"""Common first letters of cognates: Paragrafo, Paragraph, Paragraphe; Section, Sections."""
_MAX_NUMBER_GAP = 2
"""How far after a word's last number another word may take over the numbering."""


@dataclass(frozen=True, slots=True)
class NumberingSlip:
    """One numbering event. kind: "stick" | "back" | "repeat" | "skip" | "empty" | "empties" | "unanswered".

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
class NumberingTracker:
    """Takes unit headings in order, and the characters of each body. wanted: units asked for."""

    wanted: int | None = None
    units: list[_Unit] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    _last: int | None = None
    _anchor: int | None = None
    _step: int = 1
    numbering_start: int = 0

    def add_body(self, chars: int) -> None:
        if self.units:
            self.units[-1].chars += chars

    def add_heading(self, number: int, first: int) -> NumberingSlip | None:
        """The next unit's number and the first token of its heading; what is wrong with it, if anything."""
        empty = self._check_empty_unit()
        index = len(self.units)
        last, kind = self._last, self._classify(number)
        if kind == "restart":
            self.seen, self.numbering_start, self._step, kind, empty = set(), index, 1, None, None
        self.units.append(_Unit(number, first))
        self._anchor = last if kind in ("skip", "back") else None
        self.seen.add(number)
        self._last = number
        return NumberingSlip(kind, index, number, last, first) if kind else empty

    def _classify(self, number: int) -> str | None:
        last = self._last
        if last is None or number == last + self._step:
            return "repeat" if number in self.seen else None
        if self._anchor is not None and number == self._anchor + self._step:
            return None
        if number == last - 1 and len(self.seen) == 1 and last > 2:
            self._step = -1  # a countdown
            return None
        if number == last:
            return "stick"
        if number <= 1 and (
            self._is_table_of_contents() or (self.wanted is not None and self.wanted in self.seen)
        ):
            return "restart"
        ahead = (number - last) * self._step > 0
        if number in self.seen:
            return "repeat" if ahead else "back"
        return "skip" if ahead else "back"

    def _is_table_of_contents(self) -> bool:
        bodies = [u.chars for u in self.units[self.numbering_start :]]
        return len(bodies) >= 2 and median(bodies) <= LISTING_CHARS

    def _check_empty_unit(self) -> NumberingSlip | None:
        """The unit that ends now has no body, where units have one."""
        if not self.units or self.units[-1].chars > 2:
            return None
        last = self.units[-EMPTY_UNITS:]
        if len(last) == EMPTY_UNITS and all(unit.chars <= 2 for unit in last):
            earlier = self.units[:-EMPTY_UNITS]
            if not earlier or earlier[-1].chars > 2:
                return NumberingSlip(
                    "empties", len(self.units) - EMPTY_UNITS, last[0].number, None, last[0].first
                )
        bodies = [u.chars for u in self.units[self.numbering_start : -1]][:8]
        if len(bodies) < 3 or median(bodies) <= LISTING_CHARS:
            return None
        unit = self.units[-1]
        return NumberingSlip("empty", len(self.units) - 1, unit.number, None, unit.first)


@dataclass(slots=True)
class LabelTracker:
    """Counts units in a row that end with the same bare label, as "Answer:" with no answer."""

    _label: str = ""
    _first: int = 0
    _ended: str = ""
    _ended_at: int = 0
    _units: int = 0

    @property
    def unanswered(self) -> bool:
        """Whether the last units end so."""
        return self._units >= UNANSWERED_UNITS

    def add_line(self, text: str, first: int) -> None:
        """A sentence below a heading. first: its first token."""
        found = _LABEL.fullmatch(text)
        self._ended, self._ended_at = found[1].casefold() if found else "", first

    def end_unit(self, index: int, number: int) -> NumberingSlip | None:
        """What is wrong with the unit that ends now, once as many as `UNANSWERED_UNITS` end so."""
        if not self._ended or self._ended != self._label:
            self._label, self._first, self._units = self._ended, self._ended_at, 0
        self._units += bool(self._ended)
        self._ended = ""
        if self._units != UNANSWERED_UNITS:
            return None
        return NumberingSlip("unanswered", index, number, None, self._first)


@dataclass(frozen=True, slots=True)
class Heading:
    """A unit's number, where it ends in the line, and whether its word is new: not the one before."""

    number: int
    end: int
    renamed: bool = False


class HeadingReader:
    """Reads line heads in order. `pattern`: the task's own, whose group 1 is the number."""

    def __init__(self, pattern: UnitPattern) -> None:
        self._pattern = pattern
        self._own = {word.casefold() for word in _LITERAL.findall(pattern.pattern)}
        self._adopted: set[str] = set()
        self._seen_words: dict[str, int | None] = {}
        self._foreign = False

    def parse_line(self, text: str, last: int | None) -> Heading | None:
        """The heading in a line's head, if there is one. last: the number of the unit before."""
        match = self._pattern.search(text)
        if match is not None and match.groups() and (match.group(1) or "").isdecimal():
            words = _WORD.findall(text, 0, match.start(1))
            self._own.update(word.casefold() for word in words[-1:])
            self._foreign = False
            return Heading(int(match.group(1)), match.end(1))
        shape = _SHAPE.match(text)
        if shape is None or not shape.group(2).isdecimal():
            return None
        word, digits = shape.group(1).casefold(), shape.group(2)
        if word in self._own:
            return Heading(int(digits), shape.end(2)) if len(digits) > _MAX_DIGITS else None
        if not self._is_new_heading_word(word, int(digits), last):
            return None
        renamed, self._foreign = not self._foreign, True
        return Heading(int(digits), shape.end(2), renamed)

    def _is_new_heading_word(self, word: str, number: int, last: int | None) -> bool:
        """Whether headings under this word are the units' own: a cognate, or a word that continues the
        numbering where it stopped. A list within a unit begins at 1."""
        if word in self._adopted:
            return True
        if any(
            own[:_COGNATE_PREFIX] == word[:_COGNATE_PREFIX]
            for own in self._own
            if len(own) >= _COGNATE_PREFIX
        ):
            self._adopted.add(word)
            return True
        if word not in self._seen_words:
            follows = last is not None and last >= 2 and 0 < number - last <= _MAX_NUMBER_GAP
            self._seen_words[word] = number if follows else None
            return False
        before, self._seen_words[word] = self._seen_words[word], None
        if before is None or last is None or not last < before < number <= before + _MAX_NUMBER_GAP:
            return False
        self._adopted.add(word)
        return True
