"""How many words a near-loop needs: more where text is alike by design, or was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.flooding.online import MAX_FLOOD_WORDS, WINDOW
from stresstest.detectors.loop.online import SEPARATOR_REPEATED
from stresstest.detectors.near_loop.listed_rows import EQUAL_VERDICTS, MAX_EQUAL_WORDS, ListedRows
from stresstest.detectors.near_loop.template_filter import is_day_plan, is_template
from stresstest.detectors.near_loop.token_history import TokenHistory
from stresstest.detectors.text.requested_repetition import UNCOUNTED_LIMIT, requested_repetition
from stresstest.detectors.text.tokens import WordTotals

TEMPLATE_COPIED_WORDS = 1024
"""Words that a near-loop needs where pieces are alike by design: tests, types and records in code or markup,
filled-in templates, days of a plan. A steady one in code needs `SEPARATOR_REPEATED`."""

MODULE_COPIED_WORDS = 2 * TEMPLATE_COPIED_WORDS
"""Of a whole module: overloads and their docstrings take so many. `UnitComparison` finds equal functions."""

ASKED_COPIED_WORDS = 2 * TEMPLATE_COPIED_WORDS
"""Of verdicts on the items of the prompt: some two hundred and fifty."""

LISTED_WORDS = 96
"""Words of a numbered list that says the same items again: dozens of equal rows may be a form."""

MAX_PHRASE_DISTANCE, MIN_ITEM_WORDS = 12, 48
"""Text that recurs from further back, or steadily, is whole items: they need so many words. Four items of a
list that are worded alike, or three blanks of a letter to be filled in, have fewer."""


@dataclass(frozen=True, slots=True)
class StretchFacts:
    """What is known of a copied stretch when it is checked.

    first, last: its words. lag: distance in words from which it was copied. said: its words so far, by kind.
    repeated: of its last words, those that repeat at one distance; steady: whether it is proof as such.
    only_numbered: its figures do nothing but number the items. in_code: its end stands in code.
    """

    first: int
    last: int
    lag: int
    said: WordTotals
    repeated: int
    steady: bool
    only_numbered: bool
    in_code: bool


class WordBound(NamedTuple):
    """words: that a stretch needs. asked: whether it is verdicts or answers to the items of the prompt."""

    words: int
    asked: bool


class NearLoopBounds:
    """The bounds of one answer. rows: its numbered rows, which the detector adds."""

    def __init__(self, spec: DetectorSpec, history: TokenHistory) -> None:
        self._prose_wanted = spec.unit_pattern is not None
        self._module_wanted = spec.wants_code
        self._records_wanted = spec.counts_units and not self._prose_wanted
        self._code_wanted = spec.unit == "function"
        self._requests = requested_repetition(spec.requests, spec.copies)
        self.rows = ListedRows(self._requests)
        self._history = history

    def bound(self, facts: StretchFacts, lags: Mapping[int, int], least: int) -> WordBound:
        """What the stretch needs, `least` at any rate. lags: how often each distance occurred."""
        n, lag = facts.last, facts.lag
        row = range(n - lag + 1, n + 1)
        short = self.rows.are_short(n)
        verdicts = self.rows.are_verdicts(self._history.codes, n)
        answers = short and self.rows.answer_items(n)
        need = max(self._by_kind(facts, lags), least)
        if verdicts and facts.repeated < UNCOUNTED_LIMIT:
            need = max(need, ASKED_COPIED_WORDS if answers else TEMPLATE_COPIED_WORDS)
        elif answers:
            need = max(need, UNCOUNTED_LIMIT)
        elif short and lag <= MAX_EQUAL_WORDS:
            need = max(need, EQUAL_VERDICTS * sum(map(self._history.is_meaningful, row)))
        asked = self._requests.requested_copies(self._history.text(row.start, row.stop))
        if asked is not None:
            need = max(need, asked * lag or UNCOUNTED_LIMIT)
        return WordBound(need, verdicts or answers)

    def shares_keys(self, facts: StretchFacts) -> bool:
        """Whether its pieces share their keys with healthy ones before it, as records do."""
        return self._records_wanted or facts.said.tabular or facts.in_code

    def _by_kind(self, facts: StretchFacts, lags: Mapping[int, int]) -> int:
        """Words that the stretch needs, given what it is."""
        written, said, steady, code = self._history, facts.said, facts.steady, self._is_code(facts)
        first, end = facts.first, facts.last + 1
        items = steady or facts.lag > MAX_PHRASE_DISTANCE
        need = SEPARATOR_REPEATED if said.tabular or code else MIN_ITEM_WORDS if items else 0
        if steady and self._prose_wanted and not code:
            return 0  # no table was asked for, and a counter alone says nothing
        if steady and said.tabular and facts.only_numbered and not code:
            need = LISTED_WORDS
        elif steady and said.data:
            need = TEMPLATE_COPIED_WORDS if code else UNCOUNTED_LIMIT
        elif not steady and len(set(written.codes[max(end - 1 - WINDOW, 0) : end])) <= MAX_FLOOD_WORDS:
            # A list of labels; whether they flood is another detector's matter.
            need = max(need, UNCOUNTED_LIMIT)
        if self._module_wanted and not steady:
            return MODULE_COPIED_WORDS
        if said.words < need or said.words >= TEMPLATE_COPIED_WORDS or need == TEMPLATE_COPIED_WORDS:
            return need
        alike = not steady and (code or is_template(written, first, end, facts.lag))
        return TEMPLATE_COPIED_WORDS if alike or is_day_plan(written, lags, first, end) else need

    def _is_code(self, facts: StretchFacts) -> bool:
        """Whether pieces are alike by design. Where a table is wanted, a list of sentences may be written."""
        return facts.in_code or (self._records_wanted and (self._code_wanted or facts.said.tabular))
