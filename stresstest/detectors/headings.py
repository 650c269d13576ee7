"""Headings of units, also those that the task's own pattern does not know.

A model that loses the language or its place does not stop writing headings: it writes them under another
word ("Paragraph 9." in a story of "Paragrafo"s) or with a number that no counter has ("Paragrafo
133213332."). To a pattern both are text, and the numbering that falls apart there goes unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHAPE = re.compile(r"[>#*_~\[(•\-\s]{0,16}([^\W\d_]{3,24})[ \t*_]{1,4}(\d{1,40})(?=[.:)\]*_]|\Z)")
_WORD = re.compile(r"[^\W\d_]+")
_LITERAL = re.compile(r"(?<!\\)[^\W\d_]{5,}")
"""The words that a pattern spells out."""
_DIGITS = 6
"""No output has a unit with a longer number."""
_COGNATE = 5
"""Letters at the beginning that make two words one: Paragrafo, Paragraph, Paragraphe; Section, Sections."""
_REACH = 2
"""A word that takes over the numbering begins at most so far after its last number."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A unit's number, where it ends in the line, and whether its word is new: not the one before."""

    number: int
    end: int
    renamed: bool = False


class Headings:
    """Reads line heads in order. `pattern`: the task's own, whose group 1 is the number."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._own = {word.casefold() for word in _LITERAL.findall(pattern.pattern)}
        self._adopted: set[str] = set()
        self._met: dict[str, int | None] = {}
        self._foreign = False

    def read(self, text: str, last: int | None) -> Heading | None:
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
            return Heading(int(digits), shape.end(2)) if len(digits) > _DIGITS else None
        if not self._another(word, int(digits), last):
            return None
        renamed, self._foreign = not self._foreign, True
        return Heading(int(digits), shape.end(2), renamed)

    def _another(self, word: str, number: int, last: int | None) -> bool:
        """Whether headings under this word are the units' own: it is the same word in another language, or
        it takes the numbering up where it stopped and goes on with it. A list within a unit begins at 1."""
        if word in self._adopted:
            return True
        if any(own[:_COGNATE] == word[:_COGNATE] for own in self._own if len(own) >= _COGNATE):
            self._adopted.add(word)
            return True
        if word not in self._met:
            follows = last is not None and last >= 2 and 0 < number - last <= _REACH
            self._met[word] = number if follows else None
            return False
        before, self._met[word] = self._met[word], None
        if before is None or last is None or not last < before < number <= before + _REACH:
            return False
        self._adopted.add(word)
        return True
