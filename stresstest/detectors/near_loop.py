"""Near-loops: text that says again what it has said, with counters, small edits and changed words.

Three kinds of proof, over words with figures masked (`marks.py`), all online:

*Steady*: the words repeat at one distance, and the figures among them stay or count. That is an exact
loop but for its counter, and its bound is the exact loop's.

*Copying*: each word is predicted to be the one that followed when the last four words stood before (a
match model, as in Mahoney's PAQ compressors); a prediction that fails is kept for a while, so that a
changed word costs one word and not five. Page's CUSUM (Biometrika 41, 1954) adds up what was predicted
against what was not: it grows where more than five words of six are copies and falls where fewer are, so
that alike items with words and figures of their own never add up. It is proof once it holds enough
words that stand there for the *third* time: a passage that merely stands twice is a slip, a refrain, a
text restated.

*Circling*: nearly every four words stood a moment ago: phrases of the last line or two in ever new order
("because the old mill, while the old mill, because the wood, because the old mill"). Nothing healthy
comes near its bound: poems, chats and multiple choice reach half of it.

The onset is where the sum last left zero, its maximum-likelihood estimate: the second copy.
"""

from __future__ import annotations

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.code_lines import CodeLines
from stresstest.detectors.loop import MIN_REPEATED, OPEN_REPEATED, SEPARATOR_REPEATED, bound
from stresstest.detectors.marks import MarkReader, mark
from stresstest.detectors.stretch import NearLoop, Stretch, Totals, akin
from stresstest.detectors.template import UNCOUNTED, Requests
from stresstest.detectors.written import Entry, Written
from stresstest.model import Symptom, SymptomKind, Token

GRAM = 4
"""Words that must match before a copy is followed."""

MISS = 5
"""What a new word costs, in copied words: text with one new word in six adds nothing up."""

JUMP = 8
"""What it costs to go on copying from elsewhere: known phrases in ever new order are a template."""

THIRD = 96
"""Copied words that stand for the third time, net of what was not copied, at which copying is proof."""

MOST = 2 * THIRD
"""The sum grows no further, so that the end of a near-loop is seen within 39 new words."""

LOST = 8
"""Failed predictions in a row after which the copy is no longer followed."""

FIGURE_SHARE = 0.15
WORD_SHARE = 0.4
"""Figures among words and signs beyond which, and words below which, a stretch is a table, data or
formulas; it needs `SEPARATOR_REPEATED` words."""

DATA_FIGURES = 0.35
DATA_WORDS = 0.3
"""Beyond and below these, rows of data are never a near-loop: each says something in its figures."""

CODE_COPIED = 1024
"""Words that a near-loop in code or markup needs: tests, types and records are alike by design. A steady
one needs `SEPARATOR_REPEATED`."""

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
    word, and the index of four-grams.
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
        self._lag = self._missed = 0
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
        sums = ((self._sum, self._stretch), (self._circling, self._circle))
        opened = (self._dated(it) for total, it in sums if total >= OPEN_REPEATED and not it.data)
        first = min(opened, default=None)
        return None if first is None else self._written.at[first]

    def symptoms(self) -> list[Symptom]:
        """Every near-loop, in order of onset."""
        return [self._symptom(found) for found in self._found] if self._found else []

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
        if lag and self._written.seq[n - lag] == code:
            self._hit(n, counts)
        elif lag or self._sum:
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
            self._stray()

    def _hit(self, n: int, counts: bool) -> None:
        """The mark is the one that the copy predicted."""
        self._steady += 1
        self._missed = 0
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

    def _stray(self) -> None:
        self._circling = max(self._circling - STRAY, 0)
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
            self._charge(MISS)

    def _charge(self, cost: int) -> None:
        self._third = max(self._third - cost, 0)
        self._sum -= cost
        if self._sum <= 0:
            self._sum = 0
            if self._current is not None and not self._current.circling:
                self._end(self._current)

    def _follow(self, n: int, lag: int) -> None:
        """Copy from elsewhere: the last four words stood there. What was charged for them is paid back."""
        if self._sum and self._lag and not akin(lag, self._lag):
            self._charge(JUMP)
        paid = self._sum > 0
        self._lag, self._missed = lag, 0
        if not paid:
            self._begin(n, n - GRAM + 1, lag)
        self._steady = GRAM
        self._stretch.steady = bound(lag)
        written = self._written
        copied = written.copied
        for i in range(n - GRAM + 1, n + 1):
            before, again = copied[i], copied[i - lag] > 0
            if before == 2 or (before and not again):
                continue
            copied[i] = 2 if again else 1
            if self._says(i):
                back = 1 + MISS if paid else 1
                if not before:
                    self._sum = min(self._sum + back, MOST)
                if again:
                    self._third += 1 if before else back

    def _says(self, n: int) -> bool:
        """Whether the word at n is one that says something."""
        return mark(self._written.mark_of(n)).word

    def _count(self, n: int, value: int | None) -> None:
        """A figure that neither stays nor counts is a new word."""
        written = self._written
        if not written.counts(n, self._lag, value):
            self._steady = written.copied[n] = 0
            if self._sum:
                self._charge(MISS)

    def _judge(self, n: int, stretch: Stretch, lag: int) -> None:
        """Enough was copied: a near-loop, or something to be looked at again later."""
        before = stretch.before or self._counted(stretch.noticed)
        words, figures, signs = (now - then for now, then in zip(self._counted(n), before, strict=True))
        every = words + figures + signs
        text = self._written.text(n - lag + 1, n + 1)
        need = 0
        if figures > FIGURE_SHARE * every or words < WORD_SHARE * every:
            need = SEPARATOR_REPEATED
            stretch.data = figures > DATA_FIGURES * every or words < DATA_WORDS * every
        circling = stretch is self._circle
        steady = not circling and self._steady >= stretch.steady
        if self._code.inside:
            need = max(need, SEPARATOR_REPEATED if steady else CODE_COPIED)
        asked = self._requests.copies(text)
        if asked is not None:
            need = max(need, asked * lag or UNCOUNTED)
        if stretch.data or words < need:
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

    def _dated(self, stretch: Stretch) -> int:
        lowest = self._found[-1].last + 1 if self._found else 0
        return self._written.dated(stretch.first, stretch.lag, lowest)

    def _barrier(self, reasoning: bool) -> None:
        """An answer may quote its own reasoning: no copy crosses from one into the other."""
        self._reasoning = reasoning
        self._reader.cut()
        self._code.cut()
        self._sum = self._third = self._circling = 0
        if self._current is not None:
            self._end(self._current)
        self._index.clear()
        self._gram = self._lag = self._steady = 0

    def _symptom(self, found: NearLoop) -> Symptom:
        edits = self._written.copied.count(0, found.first, found.last + 1)
        copied = found.last + 1 - found.first - edits
        shown = found.text.rstrip() if len(found.text) <= 80 else f"{found.text[:77]}…"
        return Symptom(
            kind=SymptomKind.NEAR_LOOP,
            onset=self._written.at[found.first],
            alarm=found.alarm,
            start=self._written.at[found.start],
            end=None if found.standing else self._written.at[found.last],
            score=1.0 - 0.5 * found.need / max(copied, found.need),
            detail={"period_words": found.period, "copied": copied, "edits": edits, "steady": found.steady},
            summary=f"{copied} words say again what was said, {edits} new ones among them: “{shown}”",
        )
