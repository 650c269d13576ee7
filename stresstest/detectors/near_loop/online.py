"""Near-loops: text that repeats earlier text, with counters, small edits and changed words.

Four kinds of proof, over words with numbers masked (`text/tokens.py`), all online:

*Steady*: the words repeat at one distance, and the numbers among them stay or count up. That is an exact loop
but for its counter, and has the exact loop's bound.

*Copying*: each word is predicted to be the one that followed the previous occurrence of the last four words
(a match model, as in Mahoney's PAQ compressors). A failed prediction is kept for a while, so that a changed
word costs one word and not five; a word that was edited in the previous copy is looked up in the one before
it. Page's CUSUM (Biometrika 41, 1954) weighs predicted against unpredicted words: it grows where more than
five words of six are copies. It is proof once it holds enough words that occur for the *third* time: a
passage that occurs twice is a slip, a refrain, a text restated.

*Circling*: nearly every four words occurred a moment ago: phrases of the last line or two in ever new order
("because the old mill, while the old mill, because the wood, because the old mill"). Poems, chats and
multiple-choice questions reach half of its bound.

*Reordering*: known sentences in ever new order, and nothing new among them. A jump to another one costs
nothing here, a new word nearly all. Figures that change among them make it a template.

Text that is alike by design (filled-in templates, code, tables) needs more words; a table only where no units
of prose were asked for. The onset is where the sum
last left zero, its maximum-likelihood estimate: the second copy.
"""

from __future__ import annotations

from stresstest.detectors.entry import NATURAL_FINISH_REASONS, DetectorSpec
from stresstest.detectors.loop.online import (
    MAX_SECTIONS,
    MIN_REPEATED,
    OPEN_REPEATED,
    min_repeated_tokens,
)
from stresstest.detectors.near_loop.bounds import TEMPLATE_COPIED_WORDS, NearLoopBounds, StretchFacts
from stresstest.detectors.near_loop.listed_rows import row_number
from stresstest.detectors.near_loop.token_history import (
    CopiedStretch,
    HistoryEntry,
    NearLoopRun,
    Proof,
    TokenHistory,
    is_related_lag,
)
from stresstest.detectors.text.code_lines import CodeRegionTracker
from stresstest.detectors.text.tokens import WordAssembler, WordTotals
from stresstest.model import Symptom, Token

GRAM_WORDS = 4
"""Words that must match before a copy is followed."""

NEW_WORD_COST = 5
"""Cost of a new word, in copied words: text with one new word in six adds nothing up."""

FIGURE_COST = 8
"""Cost of a number that does not count. A changed word may be a slip; a number is new content."""

JUMP_COST = 8
"""Cost of copying on from elsewhere: known phrases in ever new order are a template."""

THIRD_COPY_WORDS = 98
"""Copied words occurring for the third time, net of uncopied ones, at which copying is proof."""

MAX_EVIDENCE = 2 * THIRD_COPY_WORDS
"""Limit of the sum, so that the end of a near-loop is seen within 39 new words."""

MAX_FAILED_PREDICTIONS = 8
"""Failed predictions in a row after which the copy is no longer followed."""

MAX_CIRCLE_DISTANCE = 24
"""Distance in words within which text circles. Below `GRAM_WORDS`, a word or two repeat exactly or flood."""

CIRCLING_WORDS = 32
"""Circling words that are proof: about the 48 tokens of an exact loop, at two words to three tokens."""

MAX_ITEM_WORDS = 12
"""Words of an item of a numbered list, at most."""

REORDERED_WORDS, NEW_AMONG_KNOWN_COST = 192, 100
"""Words that occur for the third time, about twenty-five short sentences, and what each new one among them
takes off: sections that are worded alike, drills and puzzles have a new one every few words."""

COUNTDOWN_STEPS = 2
"""Equal steps down, in a row, of a figure that says how far a countdown is, which ends. Other figures that
change make known sentences a template: they need `TEMPLATE_COPIED_WORDS`."""

STRAY_COST = 2
"""Cost of a word that does not end four recently repeated words (a new word costs four times as much)."""

RECHECK_INTERVAL = 48
"""Copied words, at most, after which a stretch that was no near-loop is checked again."""

_BITS = 20
_MASK = (1 << (_BITS * GRAM_WORDS)) - 1


def follows_in_list(before: tuple[int, int | None], n: int, value: int | None) -> bool:
    """Whether the number at index n is that of a list's next item. before: the last one's index and value."""
    at, last = before
    return value is not None and last is not None and value == last + 1 and n - at <= MAX_ITEM_WORDS


class NearLoopDetector:
    """Online search for near-loops over token texts, whatever their tokenizer.

    Cost: three dictionary look-ups and one comparison a word. Memory: a code, a position and a byte a word,
    the index of four-grams, and the distance from which each copied word was predicted.
    """

    def __init__(self, spec: DetectorSpec) -> None:
        self._reader = WordAssembler()
        self._code = CodeRegionTracker()
        self._position = 0
        self._reasoning = False
        self._sections = 0
        self._history = TokenHistory()
        self._bounds = NearLoopBounds(spec, self._history)
        self._rows = self._bounds.rows
        self._index: dict[int, int] = {}
        self._gram = 0
        self._lag = self._missed = self._owed = 0
        self._lags: dict[int, int] = {}
        self._steady = 0
        self._meaningful_words = self._figures = 0
        self._stretch = CopiedStretch(0, 0, 0, WordTotals(), THIRD_COPY_WORDS, MIN_REPEATED)
        self._circle = CopiedStretch(0, 0, 0, WordTotals(), CIRCLING_WORDS, MIN_REPEATED)
        self._reordered = CopiedStretch(0, 0, 0, WordTotals(), REORDERED_WORDS, MIN_REPEATED)
        self._recurs = bytearray()
        self._sum = self._third = self._circling = self._recurring = self._known = 0
        self._covered = self._refigured = self._unlisted = -1
        self._numbered: tuple[int, int | None] = (0, None)
        self._listed = False
        self._complete = False
        self._current: NearLoopRun | None = None
        self._found: list[NearLoopRun] = []

    def update(self, token: Token) -> None:
        self._position += 1
        if token.reasoning is not self._reasoning:
            self._start_section(token.reasoning)
        self._reader.update(token.text, self._position, self._process_word)
        self._code.update(token.text)

    def finish(self, finish_reason: str | None) -> None:
        """Close a near-loop that the output left some words ago. The last word may be incomplete and is not
        compared."""
        self._complete = finish_reason in NATURAL_FINISH_REASONS
        found = self._current
        if found is not None and len(self._history.codes) - 1 - found.last >= MAX_FAILED_PREDICTIONS:
            found.active = False

    @property
    def open_from(self) -> int | None:
        """First token of a copied stretch that may yet become a near-loop, or None."""
        if self._current is not None:
            return None
        new = NEW_AMONG_KNOWN_COST * (len(self._history.codes) - 1 - self._covered)
        known = self._known - new if self._recurring > new else 0
        sums = (
            (self._sum - NEW_WORD_COST * self._owed, self._stretch, OPEN_REPEATED),
            (self._circling, self._circle, OPEN_REPEATED),
            (known, self._reordered, self._reordered_words() // 2),
        )
        opened = (
            self._date_stretch(it)
            for total, it, least in sums
            if total >= least and not (it.data or (it.asked and self._complete))
        )
        first = min(opened, default=None)
        return None if first is None else self._history.at[first]

    def symptoms(self) -> list[Symptom]:
        return list(map(self._history.near_loop_symptom, self._found))

    def _process_word(self, word: str, position: int) -> None:
        written = self._history
        n = len(written.codes)
        entry = written.add(word, position)
        if entry[2]:
            self._listed = follows_in_list(self._numbered, n, entry[3])
            self._numbered = n, entry[3]
            self._rows.add(n, entry[3])
        else:
            self._rows.add(n, row_number(word))
        self._meaningful_words += entry[1]
        self._figures += entry[2]
        self._gram = gram = ((self._gram << _BITS) | entry[0]) & _MASK
        last = self._index.get(gram)
        self._index[gram] = n
        self._recurs.append(last is not None)
        if last is not None or self._lag or self._sum or self._circling:
            self._continue_copy(n, entry, last)
        elif entry[2]:
            written.continues_counter(n, 0, entry[3])

    def _continue_copy(self, n: int, entry: HistoryEntry, last: int | None) -> None:
        """The word at n, while something is being copied or after its four-gram occurred before, up to
        `last`."""
        code, counts, figure, value = entry
        lag = self._lag
        if lag:
            seq, lags = self._history.codes, self._lags
            lags[n] = lag
            if seq[n - lag] == code:
                self._steady += 1
                self._on_hit(n, counts)
            elif (older := lags.get(n - lag, 0)) and seq[n - lag - older] == code:
                self._steady = 0
                self._skip_known_edit(n, n - lag - older)
            else:
                self._on_miss(counts)
                if self._missed > 1 and self._lag and self._sum:
                    self._try_shift(n, code)
        elif self._sum:
            self._on_miss(counts)
        if last is not None and n - last != self._lag and (self._missed > 1 or not self._lag):
            self._switch_source(n, n - last)
        if figure:
            self._count_number(n, value)
        if self._sum:
            self._check_stretch(n)
        if last is not None and GRAM_WORDS <= n - last <= MAX_CIRCLE_DISTANCE:
            self._on_circling(n, n - last, counts)
        elif self._circling:
            self._charge_stray(STRAY_COST)
        if last is not None and (self._current is None or self._current.proof is Proof.REORDERING):
            self._take_known(n, last)

    def _take_known(self, n: int, last: int) -> None:
        """Weigh the words up to that at n, the last of four that recur, against those that no such four
        cover. The four words occurred before up to `last`."""
        more = n - self._covered
        if more > GRAM_WORDS:
            self._charge_new(more - GRAM_WORDS)
            more = GRAM_WORDS
        self._add_recurring(n, more, more if self._recurs[last] else 0, n - last)
        if self._known >= self._reordered.third and self._current is None:
            self._check_near_loop(n, self._reordered, n - last)

    def _charge_new(self, words: int) -> None:
        if self._recurring:
            cost = NEW_AMONG_KNOWN_COST * words
            self._recurring, self._known = max(self._recurring - cost, 0), max(self._known - cost, 0)

    def _add_recurring(self, n: int, more: int, known: int, lag: int) -> None:
        """Add the last `more` words up to that at n, of which so many are `known`: they occur for the third
        time."""
        self._covered = n
        if self._current is not None:
            if self._recurring:
                self._current.last = n
            else:
                self._end_near_loop(self._current)
        if not self._recurring:
            self._reordered = self._open_stretch(n, n - more + 1, lag)
            self._reordered.third, self._known = REORDERED_WORDS, 0
        self._recurring = min(self._recurring + more, 2 * REORDERED_WORDS)
        self._known += known

    def _on_hit(self, n: int, counts: bool) -> None:
        self._missed = 0
        if self._owed:
            self._settle_owed()
        copied = self._history.copied
        again = copied[n - self._lag]
        copied[n] = 2 if again else 1
        if counts:
            if not self._sum:
                self._begin_copy(n, n, self._lag)
            if self._sum < MAX_EVIDENCE:
                self._sum += 1
            if again:
                self._third += 1

    def _try_shift(self, n: int, code: int) -> None:
        """Continue a word or two away if the last two words occur there: a word was left out or inserted.
        Between two edits there are seldom four words."""
        seq = self._history.codes
        for lag in (self._lag + 1, self._lag - 1, self._lag + 2, self._lag - 2):
            if GRAM_WORDS <= lag < n and seq[n - lag] == code and seq[n - 1 - lag] == seq[n - 1]:
                self._switch_source(n, lag, 2)
                return

    def _skip_known_edit(self, n: int, source: int) -> None:
        """The copy repeats an edit of the previous copy: neither new content nor proof."""
        self._missed = 0
        if self._owed:
            self._settle_owed()
        copied = self._history.copied
        copied[n] = 2 if copied[source] else 1

    def _check_stretch(self, n: int) -> None:
        if self._current is not None:
            if self._history.copied[n]:
                self._current.last = n
        elif self._third >= self._stretch.third or self._steady >= self._stretch.constant_lag:
            self._check_near_loop(n, self._stretch, self._lag)

    def _on_circling(self, n: int, lag: int, counts: bool) -> None:
        if not self._circling:
            self._circle = self._open_stretch(n, n - GRAM_WORDS + 1, lag)
            self._circle.third = CIRCLING_WORDS
        self._circling += counts
        if self._current is not None:
            self._current.last = n
            self._circling = min(self._circling, 2 * CIRCLING_WORDS)
        elif self._circling >= self._circle.third:
            self._check_near_loop(n, self._circle, lag)

    def _charge_stray(self, cost: int) -> None:
        self._circling = max(self._circling - cost, 0)
        if self._current is not None and self._current.proof is Proof.CIRCLING and not self._circling:
            self._end_near_loop(self._current)

    def _end_near_loop(self, found: NearLoopRun) -> None:
        found.active = False
        self._current = None

    def _open_stretch(self, n: int, first: int, lag: int) -> CopiedStretch:
        """Begin a copied stretch; the totals up to the word at n precede it."""
        return CopiedStretch(first, lag, n, self._totals_at(n), THIRD_COPY_WORDS, min_repeated_tokens(lag))

    def _totals_at(self, n: int) -> WordTotals:
        del n
        return WordTotals(self._meaningful_words, self._figures, self._reader.signs)

    def _begin_copy(self, n: int, first: int, lag: int) -> None:
        self._stretch = self._open_stretch(n, first, lag)
        self._third = 0

    def _on_miss(self, counts: bool) -> None:
        self._steady = 0
        self._missed += 1
        if self._missed > MAX_FAILED_PREDICTIONS:
            self._lag = 0
        if counts and self._sum:
            if self._owed == GRAM_WORDS:
                self._charge_cost(NEW_WORD_COST)
            else:
                self._owed += 1

    def _settle_owed(self) -> None:
        """Charge for the unpredicted words: no four-gram shows that they were copied from elsewhere."""
        owed, self._owed = self._owed, 0
        self._charge_cost(owed * NEW_WORD_COST)

    def _charge_cost(self, cost: int) -> None:
        self._third = max(self._third - cost, 0)
        self._sum -= cost
        if self._sum <= 0:
            self._sum = 0
            if self._current is not None and self._current.proof is Proof.COPYING:
                self._end_near_loop(self._current)

    def _switch_source(self, n: int, lag: int, words: int = GRAM_WORDS) -> None:
        """Copy from elsewhere, where the last few words occur: nothing is owed for them."""
        first = n - words + 1
        if self._owed:
            self._owed = max(self._owed - sum(map(self._is_meaningful, range(first, n + 1))), 0)
            self._settle_owed()
        if self._sum and self._lag and not is_related_lag(lag, self._lag):
            self._charge_cost(JUMP_COST)
        self._lag, self._missed = lag, 0
        if not self._sum:
            self._begin_copy(n, first, lag)
        self._steady = words
        self._stretch.constant_lag = min_repeated_tokens(lag)
        copied, lags = self._history.copied, self._lags
        for i in range(first, n + 1):
            lags[i] = lag
            before, again = copied[i], copied[i - lag] > 0
            if before == 2 or (before and not again):
                continue
            copied[i] = 2 if again else 1
            if self._is_meaningful(i):
                if not before:
                    self._sum = min(self._sum + 1, MAX_EVIDENCE)
                self._third += again

    def _is_meaningful(self, n: int) -> bool:
        return self._history.is_meaningful(n)

    def _count_number(self, n: int, value: int | None) -> None:
        """Treat a number that neither stays nor counts as a new word."""
        written = self._history
        if not self._listed:
            self._unlisted = n
        if not written.continues_counter(n, self._lag, value):
            self._steady = written.copied[n] = 0
            self._charge_stray(FIGURE_COST)
            if written.down_alike >= COUNTDOWN_STEPS:
                self._charge_new(1)
            if not self._listed:
                self._refigured = n
            if self._sum:
                self._charge_cost(FIGURE_COST)

    def _check_near_loop(self, n: int, stretch: CopiedStretch, lag: int) -> None:
        """Enough was copied: report a near-loop, or check again later."""
        proof = self._proof(stretch)
        steady = proof is Proof.COPYING and self._steady >= stretch.constant_lag
        before = stretch.before or self._totals_at(stretch.noticed)
        written = self._history
        said = WordTotals(*(now - then for now, then in zip(self._totals_at(n), before, strict=True)))
        if said.tabular:
            # Rows that say something in their figures, and do not only number the items.
            stretch.data = said.data and not steady and self._unlisted >= stretch.first
        if stretch.data:
            self._check_later(stretch, RECHECK_INTERVAL)
            return
        only_numbered = self._unlisted < stretch.first
        facts = StretchFacts(
            stretch.first, n, lag, said, self._steady, steady, only_numbered, self._code.in_code
        )
        least = self._reordered_words() if proof is Proof.REORDERING else 0
        need, stretch.asked = self._bounds.bound(facts, self._lags, least)
        if said.words < need:
            self._check_later(stretch, min(need - said.words, RECHECK_INTERVAL))
            return
        if self._found and stretch.first <= self._found[-1].last:
            self._current = found = self._found[-1]
            found.active, found.proof, found.last = True, proof, n
            return
        need = max(need, stretch.constant_lag if steady else stretch.third)
        first = self._date_stretch(stretch)
        if proof is Proof.REORDERING and self._sum:
            first = min(first, self._date_stretch(self._stretch))
        if self._steady >= lag and self._bounds.shares_keys(facts):
            # Records share their keys with healthy ones; rows that only count are no records.
            steady_from = n - self._steady + 1
            rows_from = written.constant_from(steady_from, lag)
            first = max(first, steady_from) if rows_from == steady_from else max(rows_from, self._lowest)
        elif any(written.counts_late(i) for i in range(n - lag + 1, n + 1)):
            first = min(first, max(written.constant_from(n - self._steady + 1, lag), self._lowest))
        start = max(first - lag, 0)
        text = written.text(n - lag + 1, n + 1)
        self._current = NearLoopRun(first, start, lag, self._position, need, steady, text, n, proof)
        self._found.append(self._current)

    def _check_later(self, stretch: CopiedStretch, words: int) -> None:
        """Check a stretch again after so many more copied words."""
        stretch.third = max(self._evidence(self._proof(stretch)), stretch.third) + words
        stretch.constant_lag = max(self._steady, stretch.constant_lag) + words

    def _proof(self, stretch: CopiedStretch) -> Proof:
        if stretch is self._circle:
            return Proof.CIRCLING
        return Proof.REORDERING if stretch is self._reordered else Proof.COPYING

    def _reordered_words(self) -> int:
        """Words that known sentences in new order need: those of a template where figures change in them."""
        return TEMPLATE_COPIED_WORDS if self._refigured >= self._reordered.first else REORDERED_WORDS

    def _evidence(self, proof: Proof) -> int:
        return self._known if proof is Proof.REORDERING else max(self._third, self._circling)

    def _date_stretch(self, stretch: CopiedStretch) -> int:
        return self._history.backdate(stretch.first, stretch.lag, self._lowest)

    @property
    def _lowest(self) -> int:
        """The first word behind all near-loops so far."""
        return self._found[-1].last + 1 if self._found else 0

    def _start_section(self, reasoning: bool) -> None:
        """Start answer or reasoning: no copy crosses from one into the other, since an answer may quote its
        reasoning. Where they take turns (interleaved thinking), what repeats over several is no quote."""
        self._reasoning = reasoning
        self._reader.discard_pending()
        self._code.reset()
        self._sections += 1
        if self._sections > MAX_SECTIONS:
            return
        self._sum = self._third = self._circling = self._owed = self._recurring = self._known = 0
        self._covered = len(self._history.codes) - 1
        if self._current is not None:
            self._end_near_loop(self._current)
        self._index.clear()
        self._gram = self._lag = self._steady = 0
