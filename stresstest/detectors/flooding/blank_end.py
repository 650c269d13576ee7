"""White space to the end: what is written under a grammar of JSON, which allows it between any two tokens.

A flood of blanks needs a thousand characters, as layouts have many (`typographic.py`). But they are followed
by something: of 195,000 public answers four end in more than 26, and each of these in more than 600.
"""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.entry import CUT_BY_CAP

TAIL = 64
"""Characters of white space at the end of an answer that its cap has cut, from which on it is a failure."""


def blank_ending(text: str) -> int:
    """Characters of white space in which a text ends."""
    return len(text) - len(text.rstrip())


class BlankEnd:
    """The white space in which an answer ends. first, last: its tokens; count: its characters."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.count = self.first = self.last = 0

    def add(self, ending: int, *, whole: bool, position: int) -> None:
        """Take a token that ends in so many characters of white space. whole: it has no others."""
        if not (whole and self.count):
            self.count, self.first = 0, position
        self.count += ending
        self.last = position

    def add_all(self, texts: Sequence[str]) -> None:
        """Take a whole answer, read from its end."""
        self.last = len(texts)
        for position in range(len(texts), 0, -1):
            text = texts[position - 1]
            ending = blank_ending(text)
            if not ending and text:
                return
            self.count, self.first = self.count + ending, position
            if ending < len(text):
                return

    def is_flood(self, finish_reason: str | None) -> bool:
        """Whether the white space is a failure. finish_reason: None where it is not known."""
        return self.count >= TAIL and finish_reason == CUT_BY_CAP

    @property
    def open_from(self) -> int | None:
        """First token of white space that may yet become a failure."""
        return self.first if self.count >= TAIL else None


def ends_in_blanks(text: str) -> bool:
    """Whether enough white space ends a text to be a failure."""
    return len(text) >= TAIL and text[-TAIL:].isspace()
