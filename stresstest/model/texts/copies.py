"""Whether a text ends in copies of itself, exactly: cheap enough for every text of a log."""

from __future__ import annotations

import re

COPIES, LEAST_CHARS = 3, 40
"""A text ends in a repetition where so many copies of one text, so many characters in all, are its end."""
_MOST_CHARS = 2_000
"""Longest text whose copies are looked for."""

_PASSAGE = 300
"""Characters of a passage that no healthy answer copies word for word right behind it."""
_EQUAL_TOKENS = re.compile(r"(.{1,12}?)\1{29,}\Z|\s{30,}\Z", re.DOTALL)
"""Thirty equal tokens, or blanks of any kinds: Ollama broke off after more, and compared them trimmed."""
_MOST_EQUAL = 31 * 12


def breaks_off_repeating(text: str) -> bool:
    """Whether a text ends as a server breaks it off that looks for repetitions: in copies, in one token again
    and again, or in blanks."""
    return ends_in_copies(text) or _EQUAL_TOKENS.search(text[-_MOST_EQUAL:]) is not None


def ends_in_second_copy(text: str) -> bool:
    """Whether a text ends in a second copy, or a later one, of a long passage that stands right before it.
    The copy may be at any place of the passage: a cap cuts anywhere."""
    text = text.rstrip()
    tail = text[-_PASSAGE:]
    at = text.rfind(tail, 0, len(text) - 1) if len(text) >= 2 * _PASSAGE else -1
    size = len(text) - len(tail) - at
    return at >= 0 and size >= _PASSAGE and text[-2 * size : -size] == text[-size:]


def ends_in_copies(text: str, least: int = LEAST_CHARS) -> bool:
    """Whether a text ends in adjacent copies of one text that holds a letter or a digit. least: characters of
    all copies."""
    text = text.rstrip()
    if len(text) < COPIES:
        return False
    end, most = text[-8:], min(_MOST_CHARS, len(text) // COPIES)
    at = len(text) - len(end)
    while (at := text.rfind(end, max(0, len(text) - len(end) - most), at + len(end) - 1)) >= 0:
        size = len(text) - len(end) - at
        copies = max(COPIES, -(-least // size))
        tail = text[-size * copies :]
        if tail[size:] == tail[:-size] and len(tail) == size * copies and any(map(str.isalnum, tail[:size])):
            return True
    return False
