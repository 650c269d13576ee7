"""Nothing but one sign to the end: "!!!!!!!!", what a server writes whose numbers have overflowed.

An exact loop of signs needs hundreds, as rulers, dot leaders and bits have many. An answer that is nothing
else has no such excuse, and no other text ends in hundreds where the cap cuts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.entry import CUT_BY_CAP

WHOLE = 32
"""Signs from which on an answer of nothing else is a failure, where the cap cut it."""
TAIL = 128
"""The same behind other text, and of an answer that no cap cut: more than a line has."""
LINE = 512
"""The same of an answer that ended by itself and may be a line or a number."""
_RULERS = frozenset("-=_*#~.·•─━═+0123456789")
"""What lines, leaders and figures are made of: a text may end in them, and a whole answer be a line."""

_SEVERAL = "several"
_UNITS = range(2, 5)


def sole_sign(text: str) -> tuple[str, int]:
    """The one sign that a piece of text consists of, and how many times; of a piece without a
    blank ("hahaha"), up to four that it repeats.

    ("", 0) for blanks, which may stand in between; (a line break, 0) for line breaks, which may come first:
    lines of one sign may be a drawing. (several, 0) for anything else.
    """
    signs = text.strip()
    if not signs:
        return ("\n", 0) if "\n" in text else ("", 0)
    if "\n" in text:
        return _SEVERAL, 0
    if signs.count(signs[0]) == len(signs):
        return signs[0], len(signs)
    for size in _UNITS if signs == text else ():
        if len(signs) >= size and signs[size:] == signs[:-size]:
            return signs[:size], len(signs) // size
    return _SEVERAL, 0


class OneSign:
    """The run of one sign in which the text ends. first, last: its tokens. whole: nothing came before."""

    __slots__ = ("count", "first", "last", "sign", "whole")

    def __init__(self) -> None:
        self.sign, self.whole = "", True
        self.count = self.first = self.last = 0

    def add(self, sign: str, count: int, position: int) -> None:
        """Take a token, as of `sole_sign`."""
        if not sign or (sign == "\n" and not self.sign):
            return
        if sign != self.sign:
            self.whole = not self.sign
            self.sign, self.count, self.first = sign, 0, position
        self.count += count
        self.last = position

    def add_all(self, texts: Sequence[str]) -> None:
        """Take a whole answer, read from its end."""
        for position in range(len(texts), 0, -1):
            sign, count = sole_sign(texts[position - 1])
            if not sign:
                continue
            if not count or self.sign not in ("", sign):
                self.whole = not any(text.strip() for text in texts[:position])
                return
            self.sign, self.first = sign, position
            self.last = self.last or position
            self.count += count

    def is_flood(self, finish_reason: str | None) -> bool:
        """Whether the run is a failure. finish_reason: None where it is not known."""
        cut = finish_reason == CUT_BY_CAP
        if self.whole and cut:
            return self.count >= WHOLE
        lined = self._is_line and not (self.whole and finish_reason is None)
        if self.whole:
            return self.count >= (LINE if lined else TAIL)
        return self.count >= TAIL and cut and not lined

    @property
    def open_from(self) -> int | None:
        """First token of a run that may yet become a failure."""
        enough = WHOLE if self.whole else TAIL
        return self.first if self.count >= enough and (self.whole or not self._is_line) else None

    @property
    def _is_line(self) -> bool:
        return _RULERS.issuperset(self.sign)


def ends_in_one_sign(text: str) -> bool:
    """Whether so few different signs end a text that they may be a failure. False is certain."""
    return len({sign for sign in text.rstrip()[-WHOLE:] if not sign.isspace()}) < _UNITS.stop
