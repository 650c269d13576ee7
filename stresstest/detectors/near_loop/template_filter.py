"""Text that is alike by design: templates that are being filled in, and plans with recurring days.

Articles of a contract, moves of a puzzle, verses of a counting song and recipes of one kind differ in defined
places; a model that repeats itself changes a word here and there, alternates between the same few words, or
writes whole items again under the next numbers. So a place is a slot where, at least every other time that it
recurs, its uncopied words are new to the text (a number or a lone letter always is), and most of the numbered
items must have one filled. Places are identified by the two words before them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from statistics import median

from stresstest.detectors.languages.catalog import per_catalog
from stresstest.detectors.near_loop.token_history import MAX_BACKDATE_WORDS, TokenHistory

MAX_STRETCH_WORDS = 512
"""Words examined, at the end of the stretch."""
MIN_NEW_SHARE = 0.5
"""Share of a slot's occurrences in which it holds something new."""
MAX_WORDS_PER_SLOT = 64
"""Words per filled slot, at most, in a template."""
MIN_NUMBERED_ITEMS = 4
"""Consecutive numbers from which on they number items."""
MIN_FILLED_ITEMS = 0.6
"""Share of the numbered items in which a slot is filled."""

MIN_PLAN_DAYS = 3
"""Days that a cycle of a plan has at least: one body under "Day 7", "Day 8" is a near-loop."""
MIN_REPEATED_SHARE = 0.25
"""Share of a plan's words that recur after so many days; warm-ups recur every day."""


_day_words = per_catalog(lambda known: known.words(lambda language: language.day_words))
_weekdays = per_catalog(lambda known: known.words(lambda language: language.weekdays))


def is_template(written: TokenHistory, first: int, end: int, lag: int) -> bool:
    """Whether the copied words of [first, end) are a template that is being filled in. lag: words a copy."""
    first = max(first, end - MAX_STRETCH_WORDS, 2)
    numbers = _item_numbers(written, first, end)
    filled = _filled_slots(written, first, end, set(numbers), min(lag, MAX_BACKDATE_WORDS))
    if len(filled) * MAX_WORDS_PER_SLOT < end - first:
        return False
    said = len({bisect_right(numbers, place) for place in filled} - {0})
    return said >= MIN_FILLED_ITEMS * len(numbers)


def is_day_plan(written: TokenHistory, lags: Mapping[int, int], first: int, end: int) -> bool:
    """Whether the copied words of [first, end) are a plan with recurring days. lags: copy distance of
    each."""
    first = max(first, end - MAX_STRETCH_WORDS)
    headings = [n for n in range(first, end) if _is_day(written, n, end)]
    if len(headings) < MIN_PLAN_DAYS:
        return False
    cycle = (MIN_PLAN_DAYS - 0.5) * (headings[-1] - headings[0]) / (len(headings) - 1)
    return sum(lags.get(n, 0) >= cycle for n in range(first, end)) >= MIN_REPEATED_SHARE * (end - first)


def _is_day(written: TokenHistory, n: int, end: int) -> bool:
    """Whether the word names a day: "Day 7", "3. Tag", "Monday"."""
    word = written.token_text(n)
    numbered = written.number_at(n - 1) is not None or (n + 1 < end and written.number_at(n + 1) is not None)
    return word in _weekdays() or (word in _day_words() and numbered)


def _filled_slots(written: TokenHistory, first: int, end: int, numbers: set[int], lag: int) -> list[int]:
    """Where a slot holds something new to the text. A slot is also filled by words of this copy that no other
    copy has: the name in a letter that was in its address."""
    seq, copied = written.codes, written.copied
    came = Counter(zip(seq[first - 2 : end - 2], seq[first - 1 : end - 1], strict=True))
    copy = max(first - lag, 0)
    others = written.max_code_before(copy)
    every = max([others, *seq[copy:first]])
    filled: dict[tuple[int, int], int] = {}
    said: list[tuple[tuple[int, int], int]] = []
    n = first
    while n < end:
        start = n
        while n < end and not copied[n] and n not in numbers:
            n += 1
        if n > start:
            place, latest = (seq[start - 2], seq[start - 1]), max(seq[start:n])
            mute = not any(map(written.is_meaningful, range(start, n)))
            before = max(start - lag, copy)
            others, copy = max([others, *seq[copy:before]]), before
            # Codes are given in the order of the words.
            if mute or latest > others:
                filled[place] = filled.get(place, 0) + 1
            if mute or latest > every:
                said.append((place, start))
            every = max(every, latest)
        n += 1
    return [start for place, start in said if filled[place] >= MIN_NEW_SHARE * came[place]]


def _item_numbers(written: TokenHistory, first: int, end: int) -> list[int]:
    """Where the numbers are that number the items: the longest row of numbers that go up by one, if it spans
    at least half of the words; steps within the items are left out."""
    rows: dict[int, tuple[int, int, int]] = {}  # by the last number: how many, the first place, the last
    before: dict[int, int] = {}
    best = (0, 0, 0)
    for n in range(first, end):
        value = written.number_at(n)
        if value is None:
            continue
        count, begin, last = rows.get(value - 1, (0, n, 0))
        rows[value] = (count + 1, begin, n)
        if count:
            before[n] = last
        best = max(best, rows[value])
    count, begin, last = best
    if count < MIN_NUMBERED_ITEMS or 2 * (last - begin) < end - first:
        return []
    found = [last]
    while found[-1] in before:
        found.append(before[found[-1]])
    found = found[::-1]
    gaps = [after - n for n, after in pairwise(found)]
    usual = median(gaps)
    return [n for n, gap in zip(found, gaps, strict=False) if 2 * gap >= usual]
