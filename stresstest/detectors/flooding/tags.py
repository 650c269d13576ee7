"""Hashtags without an end: "#TechMentors #TechMentorship #TechMentorshipForWomen …".

Nearly each is a new word, so that no count of words sees them; they bring nothing new all the same. A post
has thirty at most (Instagram takes no more), and a list that was asked for a hundred.
"""

from __future__ import annotations

import re

from stresstest.model import Symptom, SymptomKind

USUAL = 30
"""Tags of a post. The onset is the one after them."""
FLOODED, OPEN = 128, 64
"""Tags in a row that are a flood, and from which on they may become one."""
_PART = re.compile(r"#|[^\W_]+|\s+|[^\w\s]|_")
_COLOUR = re.compile(r"[0-9a-fA-F]{3,8}|\d+")
"""`#fff` and `#1204` are colours and numbers of issues."""


class TagRun:
    """The hashtags in a row up to here, with nothing between them but signs and the numbers of a list.

    begun: there is one, or the beginning of one: what follows matters.
    """

    __slots__ = ("_alarm", "_count", "_found", "_last", "_onset", "_tag", "begun")

    def __init__(self) -> None:
        self._count = self._onset = self._alarm = self._last = 0
        self._tag: str | None = None
        self.begun = False
        self._found: list[Symptom] = []

    def add(self, text: str, position: int) -> None:
        """Take a token. Words outside of a tag, headings ("# …"), colours and numbers end the row."""
        for part in _PART.findall(text):
            if part == "#":
                self._end_tag()
                self._tag = ""
            elif self._tag is not None and (part == "_" or part.isalnum()):
                if not self._tag:
                    self._begin_tag(position)
                self._tag += part
            else:
                self._end_tag()
                if part.isalnum() and not part.isdigit():
                    self._end_row()
        self.begun = self._count > 0 or self._tag is not None

    def _begin_tag(self, position: int) -> None:
        self._count += 1
        self._last = position
        if self._count == USUAL + 1:
            self._onset = position
        if self._count == FLOODED:
            self._alarm = position

    def _end_tag(self) -> None:
        tag, self._tag = self._tag, None
        if tag is not None and (not tag or _COLOUR.fullmatch(tag)):
            self._end_row()

    def _end_row(self) -> None:
        if self._alarm:
            self._found.append(self._symptom(active=False))
        self._count = self._onset = self._alarm = 0

    @property
    def open_from(self) -> int | None:
        """The tag after the usual number, where the row may yet become a flood."""
        return self._onset if self._count >= OPEN and not self._alarm else None

    def symptoms(self) -> list[Symptom]:
        """The floods so far."""
        return [*self._found, self._symptom(active=True)] if self._alarm else self._found

    def _symptom(self, *, active: bool) -> Symptom:
        return Symptom(
            kind=SymptomKind.FLOODING,
            onset=self._onset,
            alarm=self._alarm,
            end=None if active else self._last,
            score=0.75,
            detail={"words": ["#"], "count": self._count},
            summary=f"{self._count} hashtags in a row",
        )


def may_be_tag_flood(text: str) -> bool:
    """Whether a text has enough tags for a flood, in a row or not. False is certain."""
    return text.count("#") >= OPEN
