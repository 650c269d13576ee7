"""The words written so far and which of them are copies: the memory of the near-loop detector."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from stresstest.detectors.text.tokens import WordTotals, is_unspaced_character, normalize_word
from stresstest.model import Symptom, SymptomKind

if TYPE_CHECKING:
    from stresstest.detectors.text.word_index import WordPositions

HistoryEntry = tuple[int, bool, bool, int | None]
"""A word's code, whether it carries meaning, whether it is a number, and the number's value."""

MAX_BACKDATE_WORDS = 192
"""Words by which a second copy is dated back at most."""
MAX_NET_NEW_WORDS = 16
"""Net new words at which the dating back ends."""

ROWS_BEFORE_FIGURES, ROWS_BEFORE_WORDS = 1.5, 3
"""Equal rows before a change of figures, and of words, beyond which steady ones are dated back."""

MAX_SHIFT = 2
"""So many inserted or omitted words move the distance without being a jump."""

SHORT_COUNTDOWN, SURE_STEPS = 100, 8
"""Steps of the longest countdown that says how far it is: a song of ninety-nine verses. A figure that goes
down from further away counts from so many equal steps on."""

_ROUNDS = frozenset({12, 24, 28, 29, 30, 31, 60})
"""Hours, days and minutes after which counting begins again."""


class _Number(NamedTuple):
    """A number at a place. step: from the number a copy before; alike: how often in a row it was that step;
    goes_round: as a clock does; sinks: step by step, from too far away for a countdown."""

    value: int | None
    step: int = 0
    alike: int = 0
    goes_round: bool = False
    sinks: bool = False


_UNREADABLE = _Number(None)


class TokenHistory:
    """Words by index. codes: of each word; at: its token; copied: 0 new, 1 a copy, 2 a copy of a copy.
    down_alike: how often in a row the last number has gone down by one step, copy by copy."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self._at = array("L")
        self.at: array[int] | WordPositions = self._at
        self.copied = bytearray()
        self._entries: dict[str, HistoryEntry] = {}
        self._codes: dict[str, int] = {}
        self._texts: list[str] = [""]
        self._values: dict[int, _Number] = {}
        self._stepped = 0
        self.down_alike = 0
        self._latest = (0, 0)
        self._counter = (0, 0)

    def add(self, word: str, position: int) -> HistoryEntry:
        """Append a word at a token position; returns what it is compared by."""
        entry = self._entries.get(word)
        if entry is None:
            text, counts, figure, value = normalize_word(word)
            code = self._codes.get(text)
            if code is None:
                code = self._codes[text] = len(self._texts)
                self._texts.append(text)
            entry = self._entries[word] = (code, counts, figure, value)
        self.codes.append(entry[0])
        self._at.append(position)
        self.copied.append(0)
        return entry

    def fill(
        self, seq: list[int], texts: Iterable[str], at: WordPositions, values: Mapping[int, int | None]
    ) -> None:
        """Set all words of an answer at once, instead of :meth:`add` with each. texts: of the codes 1, 2, …;
        values: of the numbers, by index."""
        self.codes = seq
        self._texts += texts
        self.at = at
        self.copied = bytearray(len(seq))
        self._values = {n: _Number(value) for n, value in values.items()}

    def token_text(self, index: int) -> str:
        return self._texts[self.codes[index]]

    def is_meaningful(self, index: int) -> bool:
        """Whether the word carries meaning."""
        return normalize_word(self.token_text(index)).word

    def max_code_before(self, end: int) -> int:
        """The greatest code before `end`: a word with a greater code is new to the text."""
        known, latest = self._latest if self._latest[0] <= end else (0, 0)
        latest = max(latest, max(self.codes[known:end], default=0))
        self._latest = end, latest
        return latest

    def number_at(self, index: int) -> int | None:
        """The value of the number at this index, if there is a readable one."""
        return self._values.get(index, _UNREADABLE).value

    def text(self, first: int, end: int) -> str:
        """The words of [first, end) without numbers, in their normal spelling."""
        words = (self._texts[code] for code in self.codes[first:end])
        return "".join(word if is_unspaced_character(word) else f"{word} " for word in words if word != "0")

    def continues_counter(self, index: int, lag: int, value: int | None) -> bool:
        """Whether a copied number stays, goes up by one, by its usual step or, once, down by one or by the
        step of the number before it (list items that start anew). A clock and a calendar go round.

        Otherwise it is new content: so is a countdown, which ends (one from far away does not), and a number
        that goes on by another step than the one that counts the copies (sums, repetitions in a plan).
        """
        step, alike, counts, goes_round, sinks = 0, 0, True, False, False
        if self.copied[index]:
            before, usual, alike, goes_round, _ = self._values.get(index - lag, _UNREADABLE)
            if value is not None and before is not None:
                step = value - before
                if step < 0 and max(usual, 1) - step in _ROUNDS and value <= max(usual, 1):
                    step, goes_round = max(usual, 1), True
                if step == usual and step > 1:
                    counter, at = self._counter
                    counts = counter in (0, step) or at < index - lag or goes_round
                elif step == usual < 0:
                    counts = sinks = alike >= SURE_STEPS and value - alike * step > -SHORT_COUNTDOWN * step
                else:
                    counts = step in (0, 1) or (step in (-1, self._stepped) and step != usual)
                if counts and step and not sinks:
                    self._counter = step, index
                self._stepped = step
            alike = alike + 1 if step == usual else 0
        self._values[index] = _Number(value, step, alike, goes_round, sinks)
        self.down_alike = alike if step < 0 else 0
        return counts

    def backdate(self, first: int, lag: int, lowest: int) -> int:
        """Where a copied stretch that was noticed at `first` began: moved back over the edits of a second
        copy while three words of four are copies, two periods at most, not below `lowest`."""
        copied, seq = self.copied, self.codes
        best = total = 0
        begin = first
        for i in range(first - 1, max(lag, lowest, first - min(2 * lag, MAX_BACKDATE_WORDS)) - 1, -1):
            total += 1 if copied[i] or seq[i] == seq[i - lag] else -3
            if total > best:
                best, begin = total, i
            elif total < best - MAX_NET_NEW_WORDS:
                break
        return begin

    def constant_from(self, first: int, lag: int) -> int:
        """Where rows began that repeat steadily from `first` on: moved back over a few figures that differ,
        as where a minute is over, while more than one row before them repeats; over words, such as the name
        of a month, while several do; over figures that sink, as they do from `first` on."""
        copied, seq = self.copied, self.codes
        begin = at = first
        run = missed = 0
        # Places in the row at which a number goes round, as is known from the first rollover on, or sinks.
        clocks = {i % lag for i in range(first, len(seq)) if self.counts_late(i)}
        least = lag * ROWS_BEFORE_FIGURES
        while at > lag and missed <= lag // 2:
            at -= 1
            same = seq[at] == seq[at - lag]
            if same and (copied[at] or at % lag in clocks):
                run += 1
            else:
                run, missed = 0, missed + 1
                least = max(least, lag * (ROWS_BEFORE_FIGURES if same else ROWS_BEFORE_WORDS))
            if run >= least:
                begin, missed, least = at, 0, lag * ROWS_BEFORE_FIGURES
        return begin

    def counts_late(self, index: int) -> bool:
        """Whether the number at this index counts although earlier ones of its rows did not."""
        number = self._values.get(index, _UNREADABLE)
        return number.goes_round or number.sinks

    def near_loop_symptom(self, found: NearLoopRun) -> Symptom:
        edits = self.copied.count(0, found.first, found.last + 1)
        copied = found.last + 1 - found.first - edits
        shown = found.text.rstrip() if len(found.text) <= 80 else f"{found.text[:77]}…"
        return Symptom(
            kind=SymptomKind.NEAR_LOOP,
            onset=self.at[found.first],
            alarm=found.alarm,
            start=self.at[found.start],
            end=None if found.active else self.at[found.last],
            score=1.0 - 0.5 * found.need / max(copied, found.need),
            detail={
                "period_words": found.period,
                "copied": copied,
                "edits": edits,
                "steady": found.constant_lag,
            },
            summary=f"{copied} words say again what was said, {edits} new ones among them: “{shown}”",
        )


@dataclass(slots=True)
class CopiedStretch:
    """A contiguous copied stretch. first: its first word; lag: distance from which it was copied then;
    noticed: the word at which it was noticed; before: totals before that word, None where they can be looked
    up. third, constant_lag: when it is checked. data: rows of data so far. asked: rows that may be
    verdicts, which were asked for."""

    first: int
    lag: int
    noticed: int
    before: WordTotals | None
    third: int
    constant_lag: int
    data: bool = False
    asked: bool = False


class Proof(Enum):
    """What shows a near-loop, and so what ends it."""

    COPYING = auto()
    CIRCLING = auto()
    REORDERING = auto()


@dataclass(slots=True, eq=False)
class NearLoopRun:
    """first, last: indices of its first and last copied word. need: copied words at which it was proof."""

    first: int
    start: int
    period: int
    alarm: int
    need: int
    constant_lag: bool
    text: str
    last: int
    proof: Proof
    active: bool = True


def is_related_lag(one: int, other: int) -> bool:
    """Whether two distances differ by a few inserted or omitted words, or lead to another copy of one
    period."""
    short, long = sorted((one, other))
    if long - short <= MAX_SHIFT:
        return True
    rest = long % short
    return min(rest, short - rest) <= min(2 * MAX_SHIFT, short // 8)
