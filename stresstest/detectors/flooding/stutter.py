"""Stutter: words come twice or more before the next ones, "der der der Server Server ist ist", "File triggers
File triggers should not should not".

No period holds and the words are many, so that neither loops nor floods of few words see it. Decoding does it
whose tokens are emitted again (a broken cache with speculative decoding), and so does a client that joins a
stream whose events, of one token or several, come twice.

Of 182,723 public answers of 227 models, five hold one, all of which loop, flood or drift besides. Where
people and models repeat words on purpose (refrains, tables, works cited), a sign or a line break stands
between.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import islice

from stresstest.model import Symptom, SymptomKind

WINDOW, REPEATED = 64, 22
"""Words looked at together, and how many of them that repeat what came directly before are a stutter. Of
tokens that all come twice, a third or more of the words do: those of one token."""
OPEN_WINDOW, OPEN_REPEATED = 24, 9
"""The same of what may become one."""
DIFFERENT = 8
"""Different words among them: fewer are a flood of few words, which a prompt may ask for."""
LONGEST_COPY = 8
"""Tokens of the longest copy: as many as one step of speculative decoding emits, or one event holds."""
_ENDED = REPEATED // 2


class Stutter:
    """The words that repeat what came directly before them, among the last 64."""

    __slots__ = ("_at", "_copied", "_copying", "_found", "_last", "_latest", "_recent", "_repeats", "_texts")

    def __init__(self) -> None:
        self._texts: deque[str] = deque(maxlen=LONGEST_COPY + 1)
        self._recent: deque[tuple[int, int]] = deque(maxlen=LONGEST_COPY)
        """Of the last tokens: (number of the word, or 0; position)."""
        self._copying: dict[int, int] = {}
        """Tokens that repeat those so many before them, of the copies under way."""
        self._at = self._copied = 0
        self._repeats: deque[tuple[int, int, str]] = deque()  # (number of the word, position, itself) of each
        self._latest: Symptom | None = None
        self._found: list[Symptom] = []
        self._last = 0

    def add(self, text: str, position: int, *, word: bool) -> None:
        """Take a word, a figure or a sign, which a line break is too."""
        self._at += word
        before, copied = self._copied, text in self._texts
        number = self._at if word else 0
        self._recent.append((number, position))
        if copied:
            self._copy(text, number)
        elif self._copying:
            self._copying = {}
        self._texts.append(text)
        if self._repeats and (word or self._copied > before):
            self._judge(position, repeats=self._copied > before)

    def _copy(self, text: str, number: int) -> None:
        """Go on with the copies that `text` belongs to. One begins between two words."""
        texts, size = self._texts, len(self._texts)
        between_words = number and self._recent[-2][0]
        going_on: dict[int, int] = {}
        for distance in range(1, min(size, LONGEST_COPY) + 1):
            if texts[-distance] != text:
                continue
            length = self._copying.get(distance)
            if length is None:
                if not between_words or (distance < size and texts[-distance - 1] == texts[-1]):
                    continue
                length = 0
            going_on[distance] = (length + 1) % distance
            if length + 1 == distance:
                self._take_copy([*texts, text][-distance:])
        self._copying = going_on

    def _take_copy(self, copy: list[str]) -> None:
        """Count the words of a copy that is whole now."""
        tokens = islice(self._recent, len(self._recent) - len(copy), None)
        for word, (number, position) in zip(copy, tokens, strict=True):
            if number > self._copied:
                self._repeats.append((number, position, word))
                self._copied = number

    def _judge(self, position: int, *, repeats: bool) -> None:
        while self._repeats and self._repeats[0][0] <= self._at - WINDOW:
            self._repeats.popleft()
        if self._latest is None:
            if len(self._repeats) >= REPEATED and self._different() >= DIFFERENT:
                self._latest = _symptom(self._repeats[0][1], position, len(self._repeats))
                self._last = position
        elif repeats:
            self._last = position
        elif len(self._repeats) < _ENDED:
            self._found.append(replace(self._latest, end=self._last))
            self._latest = None

    @property
    def open_from(self) -> int | None:
        """First repeated word of a tail that may become a stutter."""
        if self._latest is not None:
            return None
        tail = [position for at, position, _ in self._repeats if at > self._at - OPEN_WINDOW]
        enough = len(tail) >= OPEN_REPEATED and self._different() >= DIFFERENT // 2
        return tail[0] if enough else None

    def _different(self) -> int:
        return len({word for *_, word in self._repeats})

    def symptoms(self) -> list[Symptom]:
        """Those so far."""
        return self._found if self._latest is None else [*self._found, self._latest]


def _symptom(onset: int, alarm: int, count: int) -> Symptom:
    return Symptom(
        kind=SymptomKind.FLOODING,
        onset=onset,
        alarm=alarm,
        score=0.75,
        detail={"words": [], "count": count},
        summary=f"{count} of {WINDOW} words repeat the words directly before them",
    )
