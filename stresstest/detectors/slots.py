"""What is alike by design: templates that are being filled in, and plans whose days come round.

Articles of a contract, moves of a puzzle, verses of a counting song, recipes of one kind differ where they
are meant to; a model that repeats itself changes a word here and a word there, has the same few words in
turn, or writes whole items again under the next numbers. So a place is a slot where, at least every other
time that it comes round, what was not copied is new to the text (a figure or a lone letter always is), and
most of the numbered items must have one filled. Places are told by the two words before them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from statistics import median

from stresstest.detectors.written import FURTHEST, Written

SEEN = 512
"""Words of the stretch that are looked at, the last ones."""
LIVE = 0.5
"""Of the times that a slot comes round, those in which it holds something new."""
APART = 64
"""Words to one filled slot, at most, in a template."""
COUNTED = 4
"""Numbers that go up by one, from which on they number items."""
ITEMS = 0.6
"""Of the numbered items, those in which a slot is filled."""

DAYS = 3
"""Days that a cycle of a plan has at least: one body under "Day 7", "Day 8" is a near-loop."""
AGAIN = 0.25
"""Of the words of a plan, those that come again after so many days; warm-ups come again every day."""
_DAYS = "day giorno jour día dia tag dag день gün hari ngày يوم اليوم 日 天 일"
_WEEKDAYS = (
    "monday tuesday wednesday thursday friday saturday sunday"
    " lunedì martedì mercoledì giovedì venerdì sabato domenica"
    " lundi mardi mercredi jeudi vendredi samedi dimanche"
    " montag dienstag mittwoch donnerstag freitag samstag sonntag"
    " lunes martes miércoles jueves viernes sábado domingo feira"
    " понедельник вторник среда четверг пятница суббота воскресенье"
    " pazartesi salı çarşamba perşembe cuma cumartesi pazar"
    " senin selasa rabu kamis jumat sabtu minggu"
    " الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد 曜"
)
_DAY, _WEEKDAY = frozenset(_DAYS.split()), frozenset(_WEEKDAYS.split())


def template(written: Written, first: int, end: int, lag: int) -> bool:
    """Whether the copied words of [first, end) are a template that is being filled in. lag: words a copy."""
    first = max(first, end - SEEN, 2)
    numbers = _numbers(written, first, end)
    filled = _filled(written, first, end, set(numbers), min(lag, FURTHEST))
    if len(filled) * APART < end - first:
        return False
    said = len({bisect_right(numbers, place) for place in filled} - {0})
    return said >= ITEMS * len(numbers)


def days(written: Written, lags: Mapping[int, int], first: int, end: int) -> bool:
    """Whether the copied words of [first, end) are a plan whose days come round. lags: from how far each was
    copied."""
    first = max(first, end - SEEN)
    headings = [n for n in range(first, end) if _is_day(written, n, end)]
    if len(headings) < DAYS:
        return False
    cycle = (DAYS - 0.5) * (headings[-1] - headings[0]) / (len(headings) - 1)
    return sum(lags.get(n, 0) >= cycle for n in range(first, end)) >= AGAIN * (end - first)


def _is_day(written: Written, n: int, end: int) -> bool:
    """Whether the word names a day: "Day 7", "3. Tag", "Monday"."""
    word = written.mark_of(n)
    numbered = written.value_of(n - 1) is not None or (n + 1 < end and written.value_of(n + 1) is not None)
    return word in _WEEKDAY or (word in _DAY and numbered)


def _filled(written: Written, first: int, end: int, numbers: set[int], lag: int) -> list[int]:
    """Where something stands in a slot that the text did not say before. A slot is also filled by what this
    copy said before, and no other: the name in the letter that stood in its address."""
    seq, copied = written.seq, written.copied
    came = Counter(zip(seq[first - 2 : end - 2], seq[first - 1 : end - 1], strict=True))
    copy = max(first - lag, 0)
    others = written.latest(copy)
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
            mute = not any(map(written.says, range(start, n)))
            before = max(start - lag, copy)
            others, copy = max([others, *seq[copy:before]]), before
            # Codes are given in the order of the words.
            if mute or latest > others:
                filled[place] = filled.get(place, 0) + 1
            if mute or latest > every:
                said.append((place, start))
            every = max(every, latest)
        n += 1
    return [start for place, start in said if filled[place] >= LIVE * came[place]]


def _numbers(written: Written, first: int, end: int) -> list[int]:
    """Where the figures stand that number the items: the longest row of numbers that go up by one, if it goes
    on through at least half of the words; steps within the items do not."""
    rows: dict[int, tuple[int, int, int]] = {}  # by the last number: how many, the first place, the last
    before: dict[int, int] = {}
    best = (0, 0, 0)
    for n in range(first, end):
        value = written.value_of(n)
        if value is None:
            continue
        count, begin, last = rows.get(value - 1, (0, n, 0))
        rows[value] = (count + 1, begin, n)
        if count:
            before[n] = last
        best = max(best, rows[value])
    count, begin, last = best
    if count < COUNTED or 2 * (last - begin) < end - first:
        return []
    found = [last]
    while found[-1] in before:
        found.append(before[found[-1]])
    found = found[::-1]
    gaps = [after - n for n, after in pairwise(found)]
    usual = median(gaps)
    return [n for n, gap in zip(found, gaps, strict=False) if 2 * gap >= usual]
