"""Units that are no paragraphs: the records of a JSON answer, the rows of a table, the functions of a module.

They are recognised while they are written, and compared as they close. A grammar can keep an answer valid for
ever, so that nothing here depends on broken syntax: what counts is whether the next unit says something new.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MIN_SAME_UNITS = 8
"""Units in a row that say what those before them said: more than a short table of equal defaults."""
MIN_SAME_STUBS = 64
"""Of functions of one statement: a stub says in its name alone what it is."""
MIN_RECURRING_UNITS = 12
"""Units in a row each of which an earlier one said, in whatever order: a few values taken anew, or functions
written again."""
ENDLESS_CHARACTERS, ENDLESS_FACTOR, FEWEST_UNITS = 2_000, 8, 3
"""A record that has not closed after so many characters, and so many times the longest of some before it: a
string, an array or an object in it never ends."""
MAX_PERIOD = 8
"""Units that may take turns."""

_SIGN = re.compile(r'["\\{}\[\]\n]')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RULING = re.compile(r"[\s|:+=-]*\Z")
_FUNCTION = re.compile(
    r"[ \t]*(?:(?:export|public|private|static|async|pub|default)\s+)*(?:def|func|fn|function)\s+(\w+)"
)
_LISTED = re.compile(r"\s*\d+[.)]\s+\S")
_FENCE = re.compile(r"\s*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A complete unit. start: its first character in the answer. name: of a function."""

    text: str
    start: int
    name: str = ""


class RecordReader:
    """Objects of a JSON array, or objects one after the other. begun: with the one that is open, which begins
    at character `open_from`."""

    def __init__(self) -> None:
        self.begun = 0
        self._depth: list[str] = []
        self._level: int | None = None
        self._start = 0
        self.open_from: int | None = None
        self._top = 0
        self._in_string = False
        self._escaped = -1
        self._pieces: list[str] = []

    def feed(self, text: str, at: int) -> Iterator[Unit]:
        """Take the text that begins at character `at`; the units that end in it."""
        done = 0
        for match in _SIGN.finditer(text):
            sign, here = match[0], match.start()
            if self._in_string:
                escaped = self._escaped == at + here
                if sign == "\\" and not escaped:
                    self._escaped = at + here + 1
                elif (sign == '"' and not escaped) or sign == "\n":
                    self._in_string = False
                continue
            if sign == '"':
                self._in_string = bool(self._depth)
            elif sign in "{[":
                if sign == "{" and self._opens_unit():
                    self._pieces, done, self._start = [], here, at + here
                    self.open_from = self._start
                    self.begun += 1
                self._depth.append(sign)
            elif sign in "}]" and self._depth:
                self._depth.pop()
                if sign == "}" and len(self._depth) == self._level:
                    yield Unit("".join((*self._pieces, text[done : here + 1])), self._start)
                    self._pieces, done, self.open_from = [], here + 1, None
        if self._level is not None and len(self._depth) > self._level:
            self._pieces.append(text[done:])

    def _opens_unit(self) -> bool:
        depth = len(self._depth)
        if depth == 0:
            self._top += 1
            if self._top == 2 and self._level != 0:
                self._level, self.begun = 0, 1  # one object after the other: the first was a unit too
        elif self._level is None and self._depth[-1] == "[":
            self._level = depth
        return depth == self._level and (depth == 0 or self._depth[-1] == "[")


class LineUnitReader:
    """Units made of lines: rows of a table, or functions with what follows them."""

    open_from: int | None = None
    """Rows are short, and a function may be as long as it likes."""

    def __init__(self, *, functions: bool) -> None:
        self.begun = 0
        self._functions = functions
        self._rest = ""
        self._open: list[str] = []
        self._name = ""
        self._start = 0
        self._head: str | None = None

    def feed(self, text: str, at: int) -> Iterator[Unit]:
        """Take the text that begins at character `at`; the units that end in it."""
        start = at - len(self._rest)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            yield from self._function(line, start) if self._functions else self._row(line, start)
            start += len(line) + 1

    def _row(self, line: str, start: int) -> Iterator[Unit]:
        if _LISTED.match(line):  # where a table was asked for, a model may write a list
            self.begun += 1
            yield Unit(line, start)
        elif line.count("|") < 2 and line.count(",") < 1 and line.count("\t") < 1:
            self._head = None
        elif not _RULING.match(line):
            if self._head is None:
                self._head = line  # the names of the columns
                return
            self.begun += 1
            yield Unit(line, start)

    def _function(self, line: str, start: int) -> Iterator[Unit]:
        found = _FUNCTION.match(line)
        if found or _FENCE.match(line):
            if self._open:
                yield Unit("\n".join(self._open).rstrip(), self._start, self._name)
            self._open = []
        if found:
            self.begun += 1
            self._name, self._start = found[1], start
        if found or self._open:
            self._open.append(line)


def unit_reader(unit: str) -> RecordReader | LineUnitReader | None:
    """The reader of a kind of unit; None for numbered paragraphs, which have headings."""
    if unit == "json_record":
        return RecordReader()
    return LineUnitReader(functions=unit == "function") if unit in ("row", "function") else None


@dataclass(frozen=True, slots=True)
class Repetition:
    """A run of units that say nothing new. first: its first unit, the second copy. period: units in turn."""

    first: Unit
    period: int
    count: int
    exact: bool


def _has_body(unit: Unit) -> bool:
    return not unit.name or unit.text.count("\n") > 1


class UnitComparison:
    """Compares each unit with those before it: equal but for numbers that stay or count, in turn or in any
    order."""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._starts = array("q")
        self._words: list[str] = []
        self._numbers: list[tuple[float, ...]] = []
        self._runs = [0] * (MAX_PERIOD + 1)
        self._last: dict[str, int] = {}
        self._recurring = 0
        self._reported = False

    @property
    def starts(self) -> Sequence[int]:
        """The first character of each unit so far."""
        return self._starts

    @property
    def complete(self) -> int:
        """Units so far."""
        return len(self._units)

    @property
    def run(self) -> Unit | None:
        """The first of the units up to the last one that all say what was said; None for fewer than two."""
        longest = max(*self._runs, self._recurring)
        return self._units[-longest] if longest > 1 else None

    @property
    def open(self) -> Unit | None:
        """The first unit of a run that may yet be too long; None without one."""
        longest = max(self._runs)
        if 2 * self._recurring > MIN_RECURRING_UNITS:  # a few rows that are alike are nothing yet
            longest = max(longest, self._recurring)
        return self._units[-longest] if longest > 1 else None

    def is_endless(self, characters: int) -> bool:
        """Whether an open unit of this length goes on far beyond those before it."""
        if characters < ENDLESS_CHARACTERS or len(self._units) < FEWEST_UNITS:
            return False
        return characters > ENDLESS_FACTOR * max(len(unit.text) for unit in self._units)

    def add(self, unit: Unit) -> Repetition | None:
        """Take the next unit; the repetition that it completes, the first one alone."""
        text = unit.text
        # A function in another one may name it.
        names = {unit.name, self._units[-1].name if self._units else ""} - {""}
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, "0")
        text = " ".join(text.split())
        self._units.append(unit)
        self._starts.append(unit.start)
        self._words.append(_NUMBER.sub("0", text.casefold()))
        self._numbers.append(tuple(map(float, _NUMBER.findall(text))))
        here = len(self._units) - 1
        for period in range(1, min(MAX_PERIOD, here) + 1):
            self._runs[period] = self._runs[period] + 1 if self._repeats(here, period) else 0
            run = self._runs[period]
            if run >= max(MIN_SAME_UNITS, 2 * period) and not self._reported:
                units = self._units[here - run + 1 :]
                if run < MIN_SAME_STUBS and sum(map(_has_body, units)) < MIN_SAME_UNITS:
                    continue
                self._reported = True
                exact = all(a.text == b.text for a, b in zip(units, units[period:], strict=False))
                return Repetition(units[0], period, run, exact)
        self._recurring = self._recurring + 1 if self._recurs(here) else 0
        self._last[self._words[here]] = here
        if self._recurring < MIN_RECURRING_UNITS or self._reported:
            return None
        self._reported = True
        return Repetition(self._units[here - self._recurring + 1], 1, self._recurring, exact=False)

    def _recurs(self, here: int) -> bool:
        """Whether an earlier unit says the same, but for numbers that count on from the unit before. A
        function is the same under its own name only, and a stub never."""
        earlier = self._last.get(self._words[here])
        if earlier is None:
            return False
        unit = self._units[here]
        if unit.name:
            return unit.text == self._units[earlier].text and _has_body(unit)
        now, then, before = self._numbers[here], self._numbers[earlier], self._numbers[here - 1]
        if len(before) != len(now):
            return now == then
        return all(a in (b, c + 1) for a, b, c in zip(now, then, before, strict=True))

    def _repeats(self, here: int, period: int) -> bool:
        before = here - period
        if self._words[here] != self._words[before]:
            return False
        now, then = self._numbers[here], self._numbers[before]
        if now == then:
            return True
        earlier = before - period
        if earlier < 0 or self._words[earlier] != self._words[before]:
            return all(a in (b, b + 1, b + period) for a, b in zip(now, then, strict=True))
        steps = zip(now, then, self._numbers[earlier], strict=True)
        return all(a == b or a - b == b - c or a in (b + 1, b + period) for a, b, c in steps)
