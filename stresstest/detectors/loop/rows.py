"""Equal rows within a loop: what repeats as a whole day of a schedule may be one entry for every hour."""

from __future__ import annotations

import re

LEAST_ROWS = 4
MIN_EQUAL = 0.95
"""Words that a row shares with the next one, figures and what stands with them aside: a record that says
something new in one word of twelve has fewer."""
MIN_ROW_WORDS = 3
MOST_WORDS = 4_000
"""Of a period that is looked at."""
_WORD = re.compile(r"\w+|\n")


def second_row(period: str) -> int | None:
    """The character at which the second of equal rows begins, of which a loop's period consists: they differ
    in figures at most, and are not mostly figures. None where it does not."""
    words = [(match.start(), match.group().lower()) for match in _WORD.finditer(period)]
    size = len(words)
    if not LEAST_ROWS * MIN_ROW_WORDS <= size <= MOST_WORDS:
        return None
    said = ["0" if any(map(str.isdigit, word)) else word for _, word in words]
    for length in range(MIN_ROW_WORDS, size // LEAST_ROWS + 1):
        allowed = int((1.0 - MIN_EQUAL) * (size - length))
        if _differ(said, length, allowed):
            continue
        row = [word for word in said[:length] if word != "\n"]
        if row.count("0") <= len(row) / 2 and len(row) - row.count("0") >= MIN_ROW_WORDS:
            return words[length][0]
        return None
    return None


def _differ(said: list[str], length: int, allowed: int) -> bool:
    """Whether more than so many words differ from those a row later."""
    differing = 0
    for one, other in zip(said, said[length:], strict=False):
        differing += one != other
        if differing > allowed:
            return True
    return False
