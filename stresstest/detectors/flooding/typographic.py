"""Floods without words: line breaks and blanks with a stray sign between them, or one figure over and over.

An exact loop of them needs no slip to hide from the loop detector: a stop or another figure now and then is
enough. Blank lines and zeros are also what tables, matrices and layouts are made of, so they need a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

from stresstest.model import Symptom, SymptomKind

FLOODED = 1024
"""Characters of white space, or equal figures, net of what stands between them."""
OPEN = 256
"""From here on it may yet become a flood."""
STRAY_CHARACTER = 4
"""What a character that is not white space takes off: four fifths of a flood are white space."""
STRAY_FIGURE = 9
"""What a word or another figure takes off: nine tenths of a flood are the one figure."""


@dataclass(slots=True)
class SignFlood:
    """A sum that grows with what floods and falls with what does not. It began where it last left zero."""

    name: str
    sum: int = 0
    first: int = 0
    last: int = 0
    alarm: int = 0

    def grow(self, by: int, position: int) -> None:
        """Take what floods."""
        if not self.sum:
            self.first, self.alarm = position, 0
        self.sum += by
        self.last = position
        if self.sum >= FLOODED and not self.alarm:
            self.alarm = position

    def fall(self, by: int) -> None:
        """Take what does not flood. A flood that was reported keeps its place until it has ended."""
        self.sum = max(min(self.sum, 2 * FLOODED) - by, 0)

    def symptom(self, *, active: bool) -> Symptom:
        """The symptom of a flood that was reported."""
        return Symptom(
            kind=SymptomKind.FLOODING,
            onset=self.first,
            alarm=self.alarm,
            end=None if active else self.last,
            score=0.75,
            detail={"words": [self.name], "count": self.sum},
            summary=f"a long stretch is little more than {self.name}",
        )


class TypographicFloods:
    """Both kinds over one answer. rising: whether either sum is above zero, so that words matter.

    A lone line break and a figure unlike the last one only leave a mark: prose is full of them.
    """

    __slots__ = ("_blank", "_blank_at", "_figure", "_found", "_key", "_key_at", "rising")

    def __init__(self) -> None:
        self._blank = SignFlood("white space")
        self._figure = SignFlood("")
        self._blank_at = self._key_at = 0
        self._key = ""
        self._found: list[Symptom] = []
        self.rising = False

    def add_blank(self, characters: int, position: int) -> None:
        """A token of white space alone."""
        before, self._blank_at = self._blank_at, position
        if characters > 1 or before == position - 1 or self._blank.sum:
            self._blank.grow(characters, position)
            self.rising = True

    def add_figure(self, text: str, position: int) -> None:
        """A token that is a figure."""
        if self._blank.sum:
            self._fall(self._blank, STRAY_CHARACTER * len(text))
        if text == self._key:
            if not self._figure.sum:
                self._figure = SignFlood(text[:24])
                self._figure.grow(1, self._key_at)
            self._figure.grow(1, position)
            self.rising = True
            return
        self._fall(self._figure, STRAY_FIGURE)
        if not self._figure.sum:
            self._key, self._key_at = text, position

    def add_other(self, characters: int, *, word: bool) -> None:
        """A token with so many characters that are no white space."""
        self._fall(self._blank, STRAY_CHARACTER * characters)
        if word:
            self._fall(self._figure, STRAY_FIGURE)
        self.rising = bool(self._blank.sum or self._figure.sum)

    def _fall(self, flood: SignFlood, by: int) -> None:
        if flood.sum:
            flood.fall(by)
            if not flood.sum and flood.alarm:
                self._found.append(flood.symptom(active=False))

    @property
    def open_from(self) -> int | None:
        """First token of what may yet become a flood."""
        starts = [f.first for f in (self._blank, self._figure) if f.sum >= OPEN and not f.alarm]
        return min(starts, default=None)

    def symptoms(self) -> list[Symptom]:
        """The floods so far."""
        active = [f.symptom(active=True) for f in (self._blank, self._figure) if f.sum and f.alarm]
        return self._found + active
