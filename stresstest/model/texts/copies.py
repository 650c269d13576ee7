"""Whether a text ends in copies of itself, exactly: cheap enough for every text of a log."""

from __future__ import annotations

COPIES, LEAST_CHARS = 3, 40
"""A text ends in a repetition where so many copies of one text, so many characters in all, are its end."""
_MOST_CHARS = 2_000
"""Longest text whose copies are looked for."""


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
