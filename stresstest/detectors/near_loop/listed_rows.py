"""Rows of a numbered list: whether the answer goes through its prompt's items, and whether they are verdicts.

Verdicts on many items ("Passage [3] is not relevant to the query.") are a handful of sentences again and
again, as they were asked for. They are told from a loop by the prompt, which numbers the items, or by their
order: a loop says the same in every row, or goes round, and each verdict says something.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stresstest.detectors.text.requested_repetition import RequestedRepetition

MAX_ROW_WORDS = 40
"""Words of a row."""
MAX_SKIPPED_ITEMS = 5
"""Items in a row that an answer may leave out."""
LEAST_ROWS, MOST_ROWS = 4, 512
"""Rows that say whether they are verdicts, and of a list that are read."""
MOST_VERDICTS = 6
"""Different rows of a list of verdicts."""

MAX_VERDICT_WORDS = 12
"""Words of a verdict, its number included."""
EQUAL_VERDICTS, MAX_EQUAL_WORDS = 14, 10
"""Verdicts in a row that are alike by chance, where 17 of 20 are, and the distance at which they repeat."""

_LABELLED = re.compile(r"[^\W\d_]{1,12}(\d{1,6})")


def row_number(word: str) -> int | None:
    """The number in a row's label: 3 of "Q3"; None for other words, and for plain numbers."""
    labelled = _LABELLED.fullmatch(word) if word[-1:].isdecimal() else None
    return None if labelled is None else int(labelled[1])


class ListedRows:
    """Follows the numbers of a list's rows. requests: they have the prompt's own list, which is looked for
    at the first number."""

    def __init__(self, requests: RequestedRepetition) -> None:
        self._requests = requests
        self._item: int | None = None
        self._item_at = -1
        self._starts: list[int] = []
        self._number = 0

    def add(self, n: int, value: int | None) -> None:
        """The number at index n. value: None where it cannot be read."""
        if value is None:
            return
        items = self._requests.items
        last = items.start - 1 if self._item is None else self._item
        if value in items and last < value <= last + 1 + MAX_SKIPPED_ITEMS:
            self._item, self._item_at = value, n
        starts = self._starts
        if not starts or n - starts[-1] > MAX_ROW_WORDS:
            self._starts, self._number = [n], value
        elif value == self._number + 1:
            starts.append(n)
            self._number = value
            del starts[:-MOST_ROWS]

    def answer_items(self, n: int) -> bool:
        """Whether the word at index n belongs to the answer to one of the prompt's items."""
        return self._item_at >= 0 and n - self._item_at <= MAX_ROW_WORDS

    def are_short(self, n: int) -> bool:
        """Whether the word at index n stands in a list whose rows have the length of verdicts."""
        starts = self._starts
        rows = len(starts) - 1
        if rows < 2 or n - starts[-1] > MAX_ROW_WORDS:
            return False
        return starts[-1] - starts[0] <= rows * MAX_VERDICT_WORDS

    def are_verdicts(self, codes: Sequence[int], n: int) -> bool:
        """Whether the rows up to the word at index n are few sentences without a rule in their order."""
        starts = self._starts
        if len(starts) <= LEAST_ROWS or n - starts[-1] > MAX_ROW_WORDS:
            return False
        if starts[-1] - starts[0] == len(starts) - 1:
            return False  # rows without a word
        rows = [tuple(codes[first + 1 : end]) for first, end in pairwise(starts)]
        return len(set(rows)) <= MOST_VERDICTS and _returns(rows) and not _goes_round(rows[len(rows) // 2 :])


def _returns(rows: Sequence[tuple[int, ...]]) -> bool:
    """Whether a row says what an earlier one said, and not the last one."""
    seen: set[tuple[int, ...]] = set()
    for before, row in pairwise(rows):
        seen.add(before)
        if row != before and row in seen:
            return True
    return False


def _goes_round(rows: Sequence[tuple[int, ...]]) -> bool:
    """Whether different rows repeat at one distance."""
    return len(set(rows)) > 1 and any(rows[lag:] == rows[:-lag] for lag in range(2, len(rows) // 2 + 1))
