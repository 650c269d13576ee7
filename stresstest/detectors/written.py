"""What was written so far, word by word, and which of it is a copy: the memory of the near-loop detector."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stresstest.detectors.marks import is_alone, mark
from stresstest.detectors.stretch import NearLoop
from stresstest.model import Symptom, SymptomKind

if TYPE_CHECKING:
    from stresstest.detectors.reading import Places

Entry = tuple[int, bool, bool, int | None]
"""A word's code, whether it says something, whether it is a figure, and the figure's value."""

FURTHEST = 192
"""Words by which a second copy is dated back at most."""
GIVEN_UP = 16
"""Net new words at which the dating back ends."""


class Written:
    """Marks by index. seq: a code for each; at: its token; copied: 0 new, 1 a copy, 2 a copy of a copy."""

    __slots__ = (
        "_at",
        "_codes",
        "_counter",
        "_entries",
        "_latest",
        "_stepped",
        "_texts",
        "_values",
        "at",
        "copied",
        "seq",
    )

    def __init__(self) -> None:
        self.seq: list[int] = []
        self._at = array("L")
        self.at: array[int] | Places = self._at
        self.copied = bytearray()
        self._entries: dict[str, Entry] = {}
        self._codes: dict[str, int] = {}
        self._texts: list[str] = [""]
        self._values: dict[int, tuple[int | None, int]] = {}
        self._stepped = 0
        self._latest = (0, 0)
        self._counter = (0, 0)

    def add(self, word: str, position: int) -> Entry:
        """The next word and its token; returns what it is compared by."""
        entry = self._entries.get(word)
        if entry is None:
            text, counts, figure, value = mark(word)
            code = self._codes.get(text)
            if code is None:
                code = self._codes[text] = len(self._texts)
                self._texts.append(text)
            entry = self._entries[word] = (code, counts, figure, value)
        self.seq.append(entry[0])
        self._at.append(position)
        self.copied.append(0)
        return entry

    def fill(
        self, seq: list[int], texts: Iterable[str], at: Places, values: Mapping[int, int | None]
    ) -> None:
        """All words of an answer at once, instead of :meth:`add` with each. texts: of the codes 1, 2, …;
        values: of the figures, by index."""
        self.seq = seq
        self._texts += texts
        self.at = at
        self.copied = bytearray(len(seq))
        self._values = {n: (value, 0) for n, value in values.items()}

    def mark_of(self, index: int) -> str:
        """The mark's text."""
        return self._texts[self.seq[index]]

    def says(self, index: int) -> bool:
        """Whether the word is one that says something."""
        return mark(self.mark_of(index)).word

    def latest(self, end: int) -> int:
        """The greatest code before `end`: a word is new to the text if its own is greater."""
        known, latest = self._latest if self._latest[0] <= end else (0, 0)
        latest = max(latest, max(self.seq[known:end], default=0))
        self._latest = end, latest
        return latest

    def value_of(self, index: int) -> int | None:
        """The number that stands there, if one does and can be read."""
        return self._values.get(index, (None, 0))[0]

    def text(self, first: int, end: int) -> str:
        """The words of [first, end) without the figures, as they would be written."""
        words = (self._texts[code] for code in self.seq[first:end])
        return "".join(word if is_alone(word) else f"{word} " for word in words if word != "0")

    def counts(self, index: int, lag: int, value: int | None) -> bool:
        """Whether a copied figure stays, goes up by one, by its usual step or, once, down by one or by the
        step of the figure before it (items of a list that begins anew).

        Else it says something new: so does a countdown, which ends, and a figure that goes on by another
        step than the one that counts the copies (sums, repetitions in a plan).
        """
        step, counts = 0, True
        if self.copied[index]:
            before, usual = self._values.get(index - lag, (None, 0))
            if value is not None and before is not None:
                step = value - before
                if step == usual and step > 1:
                    counter, at = self._counter
                    counts = counter in (0, step) or at < index - lag
                else:
                    counts = step in (0, 1) or (step in (-1, self._stepped) and step != usual)
                if counts and step:
                    self._counter = step, index
                self._stepped = step
        self._values[index] = (value, step)
        return counts

    def dated(self, first: int, lag: int, lowest: int) -> int:
        """Where a copied stretch that was noticed at `first` began: moved back over the edits of a second
        copy as long as three words of four are copies, two periods at most, not below `lowest`."""
        copied, seq = self.copied, self.seq
        best = total = 0
        begin = first
        for i in range(first - 1, max(lag, lowest, first - min(2 * lag, FURTHEST)) - 1, -1):
            total += 1 if copied[i] or seq[i] == seq[i - lag] else -3
            if total > best:
                best, begin = total, i
            elif total < best - GIVEN_UP:
                break
        return begin

    def symptom(self, found: NearLoop) -> Symptom:
        """The near-loop as a symptom of what was written."""
        edits = self.copied.count(0, found.first, found.last + 1)
        copied = found.last + 1 - found.first - edits
        shown = found.text.rstrip() if len(found.text) <= 80 else f"{found.text[:77]}…"
        return Symptom(
            kind=SymptomKind.NEAR_LOOP,
            onset=self.at[found.first],
            alarm=found.alarm,
            start=self.at[found.start],
            end=None if found.standing else self.at[found.last],
            score=1.0 - 0.5 * found.need / max(copied, found.need),
            detail={"period_words": found.period, "copied": copied, "edits": edits, "steady": found.steady},
            summary=f"{copied} words say again what was said, {edits} new ones among them: “{shown}”",
        )
