"""Near-loops: text that says again what it has said, with counters, small edits and changed words.

Three kinds of proof, over words with figures masked (`marks.py`), all online:

*Steady*: the words repeat at one distance, and the figures among them stay or count. That is an exact
loop but for its counter, and its bound is the exact loop's.

*Copying*: each word is predicted to be the one that followed when the last four words stood before (a
match model, as in Mahoney's PAQ compressors). A prediction that fails is kept for a while, so that a changed
word costs one word and not five; a word that was edited in the copy before is looked for in the one before
that. Page's CUSUM (Biometrika 41, 1954) adds up what was predicted against what was not: it grows where more
than five words of six are copies. It is proof once it holds enough words that stand there for the *third*
time: a passage that merely stands twice is a slip, a refrain, a text restated.

*Circling*: nearly every four words stood a moment ago: phrases of the last line or two in ever new order
("because the old mill, while the old mill, because the wood, because the old mill"). Nothing healthy
comes near its bound: poems, chats and multiple choice reach half of it.

What is alike by design (`slots`, code, tables) needs more words: it says something in its figures and slots,
but not without end.

The onset is where the sum last left zero, its maximum-likelihood estimate: the second copy.
"""

from __future__ import annotations

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.code_lines import CodeLines
from stresstest.detectors.flooding import FEW, WINDOW
from stresstest.detectors.loop import MIN_REPEATED, OPEN_REPEATED, SEPARATOR_REPEATED, bound
from stresstest.detectors.marks import MarkReader
from stresstest.detectors.slots import days, template
from stresstest.detectors.stretch import NearLoop, Stretch, Totals, akin
from stresstest.detectors.template import UNCOUNTED, Requests
from stresstest.detectors.written import Entry, Written
from stresstest.model import Symptom, Token

GRAM = 4
"""Words that must match before a copy is followed."""

MISS = 5
"""What a new word costs, in copied words: text with one new word in six adds nothing up."""

FIGURE = 8
"""What a figure of its own costs. A changed word may be a slip; a figure says something new."""

JUMP = 8
"""What it costs to go on copying from elsewhere: known phrases in ever new order are a template."""

THIRD = 98
"""Copied words that stand for the third time, net of what was not copied, at which copying is proof."""

MOST = 2 * THIRD
"""The sum grows no further, so that the end of a near-loop is seen within 39 new words."""

LOST = 8
"""Failed predictions in a row after which the copy is no longer followed."""

ALIKE_COPIED = 1024
"""Words that a near-loop needs where pieces are alike by design: tests, types and records in code or markup,
templates that are being filled in, days of a plan. A steady one in code needs `SEPARATOR_REPEATED`."""

NEARBY = 24
"""Distance in words within which text circles. Below `GRAM` a word or two repeat, exactly or as a flood."""

CIRCLES = 32
"""Circling words that are proof: about the 48 tokens of an exact loop, at two words to three tokens."""

STRAY = 2
"""What a word costs that does not end four words of a moment ago (a new one costs four times so much)."""

LOOK_AGAIN = 48
"""Copied words after which a stretch that was no near-loop is looked at again."""

_BITS = 20
_MASK = (1 << (_BITS * GRAM)) - 1


class NearLoopDetector:
    """Online search for near-loops over token texts, whatever their tokenizer.

    Cost: a word is three dictionary look-ups and one comparison. Memory: a code, a position and a byte a
    word, the index of four-grams, and the distance from which each copied word was predicted.
    """

    def __init__(self, spec: PanelSpec) -> None:
        self._requests = Requests(spec.prompt_text, None if spec.unit_pattern else spec.units)
        self._reader = MarkReader(self._take)
        self._code = CodeLines()
        self._position = 0
        self._reasoning = False
        self._written = Written()
        self._index: dict[int, int] = {}
        self._gram = 0
        self._lag = self._missed = self._owed = 0
        self._lags: dict[int, int] = {}
        self._steady = 0
        self._spoken = self._figures = 0
        self._stretch = Stretch(0, 0, 0, Totals(), THIRD, MIN_REPEATED)
        self._circle = Stretch(0, 0, 0, Totals(), CIRCLES, MIN_REPEATED)
        self._sum = self._third = self._circling = 0
        self._current: NearLoop | None = None
        self._found: list[NearLoop] = []

    def update(self, token: Token) -> None:
        """Take the next output token."""
        self._position += 1
        if token.reasoning is not self._reasoning:
            self._barrier(token.reasoning)
        self._reader.update(token.text, self._position)
        self._code.update(token.text)

    def finish(self, finish_reason: str | None) -> None:
        """A near-loop that the output left some words ago no longer stands. The last word, which may be
        half a word, is not compared."""
        del finish_reason
        found = self._current
        if found is not None and len(self._written.seq) - 1 - found.last >= LOST:
            found.standing = False

    @property
    def open_from(self) -> int | None:
        """First token of the copied stretch that may yet become a near-loop, or None."""
        if self._current is not None:
            return None
        sums = ((self._sum - MISS * self._owed, self._stretch), (self._circling, self._circle))
        opened = (self._dated(it) for total, it in sums if total >= OPEN_REPEATED and not it.data)
        first = min(opened, default=None)
        return None if first is None else self._written.at[first]

    def symptoms(self) -> list[Symptom]:
        """Every near-loop, in order of onset."""
        return list(map(self._written.symptom, self._found))

    def _take(self, word: str, position: int) -> None:
        """The next whole word: does it go on with the copy, and what does that add up to?"""
        written = self._written
        n = len(written.seq)
        entry = written.add(word, position)
        self._spoken += entry[1]
        self._figures += entry[2]
        self._gram = gram = ((self._gram << _BITS) | entry[0]) & _MASK
        last = self._index.get(gram)
        self._index[gram] = n
        if last is not None or self._lag or self._sum or self._circling:
            self._go_on(n, entry, last)
        elif entry[2]:
            written.counts(n, 0, entry[3])

    def _go_on(self, n: int, entry: Entry, last: int | None) -> None:
        """The word at n, where something is being copied or its four-gram stood before, up to `last`."""
        code, counts, figure, value = entry
        lag = self._lag
        if lag:
            seq, lags = self._written.seq, self._lags
            lags[n] = lag
            if seq[n - lag] == code:
                self._steady += 1
                self._hit(n, counts)
            elif (older := lags.get(n - lag, 0)) and seq[n - lag - older] == code:
                self._steady = 0
                self._known(n, n - lag - older)
            else:
                self._miss(counts)
                if self._missed > 1 and self._lag and self._sum:
                    self._shift(n, code)
        elif self._sum:
            self._miss(counts)
        if last is not None and n - last != self._lag and (self._missed > 1 or not self._lag):
            self._follow(n, n - last)
        if figure:
            self._count(n, value)
        if self._sum:
            self._weigh(n)
        if last is not None and GRAM <= n - last <= NEARBY:
            self._turn(n, n - last, counts)
        elif self._circling:
            self._stray(STRAY)

    def _hit(self, n: int, counts: bool) -> None:
        """The mark is the one that the copy predicted."""
        self._missed = 0
        if self._owed:
            self._pay()
        copied = self._written.copied
        again = copied[n - self._lag]
        copied[n] = 2 if again else 1
        if counts:
            if not self._sum:
                self._begin(n, n, self._lag)
            if self._sum < MOST:
                self._sum += 1
            if again:
                self._third += 1

    def _shift(self, n: int, code: int) -> None:
        """Go on a word or two before or behind if the last two words stand there: a word was left out or put
        in. Between two edits there are seldom four."""
        seq = self._written.seq
        for lag in (self._lag + 1, self._lag - 1, self._lag + 2, self._lag - 2):
            if GRAM <= lag < n and seq[n - lag] == code and seq[n - 1 - lag] == seq[n - 1]:
                self._follow(n, lag, 2)
                return

    def _known(self, n: int, source: int) -> None:
        """The copy has here what was edited in the one before it: nothing new, and no proof."""
        self._missed = 0
        if self._owed:
            self._pay()
        copied = self._written.copied
        copied[n] = 2 if copied[source] else 1

    def _weigh(self, n: int) -> None:
        """Judge what is copied, or go on with what was found."""
        if self._current is not None:
            if self._written.copied[n]:
                self._current.last = n
        elif self._third >= self._stretch.third or self._steady >= self._stretch.steady:
            self._judge(n, self._stretch, self._lag)

    def _turn(self, n: int, lag: int, counts: bool) -> None:
        """The last four words stood a moment ago."""
        if not self._circling:
            self._circle = self._stretched(n, n - GRAM + 1, lag)
            self._circle.third = CIRCLES
        self._circling += counts
        if self._current is not None:
            self._current.last = n
            self._circling = min(self._circling, 2 * CIRCLES)
        elif self._circling >= self._circle.third:
            self._judge(n, self._circle, lag)

    def _stray(self, cost: int) -> None:
        self._circling = max(self._circling - cost, 0)
        if self._current is not None and self._current.circling and not self._circling:
            self._end(self._current)

    def _end(self, found: NearLoop) -> None:
        found.standing = False
        self._current = None

    def _stretched(self, n: int, first: int, lag: int) -> Stretch:
        """A copied stretch begins: what was counted up to the word at n is before it."""
        return Stretch(first, lag, n, self._counted(n), THIRD, bound(lag))

    def _counted(self, n: int) -> Totals:
        """What was counted up to the word at n, the last one."""
        del n
        return Totals(self._spoken, self._figures, self._reader.signs)

    def _begin(self, n: int, first: int, lag: int) -> None:
        self._stretch = self._stretched(n, first, lag)
        self._third = 0

    def _miss(self, counts: bool) -> None:
        """The mark is none that the copy predicted."""
        self._steady = 0
        self._missed += 1
        if self._missed > LOST:
            self._lag = 0
        if counts and self._sum:
            if self._owed == GRAM:
                self._charge(MISS)
            else:
                self._owed += 1

    def _pay(self) -> None:
        """The words that the copy did not predict are new: no four-gram says otherwise."""
        owed, self._owed = self._owed, 0
        self._charge(owed * MISS)

    def _charge(self, cost: int) -> None:
        self._third = max(self._third - cost, 0)
        self._sum -= cost
        if self._sum <= 0:
            self._sum = 0
            if self._current is not None and not self._current.circling:
                self._end(self._current)

    def _follow(self, n: int, lag: int, words: int = GRAM) -> None:
        """Copy from elsewhere: the last few words stood there. What is owed for them is no debt."""
        first = n - words + 1
        if self._owed:
            self._owed = max(self._owed - sum(map(self._says, range(first, n + 1))), 0)
            self._pay()
        if self._sum and self._lag and not akin(lag, self._lag):
            self._charge(JUMP)
        self._lag, self._missed = lag, 0
        if not self._sum:
            self._begin(n, first, lag)
        self._steady = words
        self._stretch.steady = bound(lag)
        copied, lags = self._written.copied, self._lags
        for i in range(first, n + 1):
            lags[i] = lag
            before, again = copied[i], copied[i - lag] > 0
            if before == 2 or (before and not again):
                continue
            copied[i] = 2 if again else 1
            if self._says(i):
                if not before:
                    self._sum = min(self._sum + 1, MOST)
                self._third += again

    def _says(self, n: int) -> bool:
        """Whether the word at n is one that says something."""
        return self._written.says(n)

    def _count(self, n: int, value: int | None) -> None:
        """A figure that neither stays nor counts is a new word."""
        written = self._written
        if not written.counts(n, self._lag, value):
            self._steady = written.copied[n] = 0
            self._stray(FIGURE)
            if self._sum:
                self._charge(FIGURE)

    def _judge(self, n: int, stretch: Stretch, lag: int) -> None:
        """Enough was copied: a near-loop, or something to be looked at again later."""
        circling = stretch is self._circle
        steady = not circling and self._steady >= stretch.steady
        before = stretch.before or self._counted(stretch.noticed)
        said = Totals(*(now - then for now, then in zip(self._counted(n), before, strict=True)))
        if said.tabular:
            stretch.data = said.data and not steady  # rows that say something in their figures
        text = self._written.text(n - lag + 1, n + 1)
        need = self._needed(n, stretch.first, lag, said, steady=steady)
        asked = self._requests.copies(text)
        if asked is not None:
            need = max(need, asked * lag or UNCOUNTED)
        if stretch.data or said.words < need:
            stretch.third = max(self._third, self._circling, stretch.third) + LOOK_AGAIN
            stretch.steady = max(self._steady, stretch.steady) + LOOK_AGAIN
            return
        if self._found and stretch.first <= self._found[-1].last:
            self._current = found = self._found[-1]
            found.standing, found.circling, found.last = True, circling, n
            return
        need = max(need, stretch.steady if steady else stretch.third)
        first = self._dated(stretch)
        start = max(first - lag, 0)
        self._current = NearLoop(first, start, lag, self._position, need, steady, text, n, circling)
        self._found.append(self._current)

    def _needed(self, n: int, first: int, lag: int, said: Totals, *, steady: bool) -> int:
        """Words that the copied stretch up to the word at n needs by what it is; `said` in it so far."""
        written, code = self._written, self._code.inside
        need = SEPARATOR_REPEATED if said.tabular or code else 0
        if steady and said.data:
            need = ALIKE_COPIED if code else UNCOUNTED
        elif not steady and len(set(written.seq[max(n - WINDOW, 0) : n + 1])) <= FEW:
            need = max(need, UNCOUNTED)  # a list of labels; whether they flood is another detector's matter
        if said.words >= ALIKE_COPIED or need == ALIKE_COPIED:
            return need
        alike = not steady and (code or template(written, first, n + 1, lag))
        return ALIKE_COPIED if alike or days(written, self._lags, first, n + 1) else need

    def _dated(self, stretch: Stretch) -> int:
        lowest = self._found[-1].last + 1 if self._found else 0
        return self._written.dated(stretch.first, stretch.lag, lowest)

    def _barrier(self, reasoning: bool) -> None:
        """An answer may quote its own reasoning: no copy crosses from one into the other."""
        self._reasoning = reasoning
        self._reader.cut()
        self._code.cut()
        self._sum = self._third = self._circling = self._owed = 0
        if self._current is not None:
            self._end(self._current)
        self._index.clear()
        self._gram = self._lag = self._steady = 0
