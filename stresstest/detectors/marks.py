"""Words and figures of an output, however its tokenizer cut them: what near-loops are compared by.

A word may come in several tokens and a number digit by digit; a counter changes its digits, and with
them its tokens. So words are put together again, folded, and figures masked. Signs and blanks are only
counted: an edit of punctuation is none. Scripts without spaces go character by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3001-\ua4cf\uac00-\ud7af\uf900-\ufaff"
"""Scripts without spaces between words, as a character class: every character is a word of its own."""

LONGEST_PIECE = 32
"""Characters after which plain text without tokens is cut within a word (`text_tokens`)."""

_KNOWN = 1 << 15
"""Token texts and words remembered, over all generations of the process."""

LONGEST = 64
"""Characters after which a word is cut, so that one without end costs no quadratic time."""

WORD = re.compile(rf"[{ALONE}]|[^\W_{ALONE}]+")
_LEADING = re.compile(rf"[^\W_{ALONE}]+")

LARGEST = 9
"""Digits of the longest number that is read as a number; a longer one has no value."""


class Mark(NamedTuple):
    """A word or figure. text: folded, runs of numerals as one "0". word: it says something (a number
    and a lone letter of an alphabet do not). value: of a number that can be read."""

    text: str
    word: bool
    figure: bool
    value: int | None


class _Cut(NamedTuple):
    """A token's text. head: letters that go on with the word before; rest: whole words after it; tail:
    a word that may go on; signs: its other characters. broken: whether anything stands after the head."""

    head: str
    rest: tuple[str, ...]
    tail: str
    signs: int
    broken: bool


@lru_cache(_KNOWN)
def _cut(text: str) -> _Cut:
    leading = _LEADING.match(text)
    head = leading.group() if leading else ""
    after = text[len(head) :]
    words = WORD.findall(after)
    tail = ""
    if words and after.endswith(words[-1]) and _LEADING.match(words[-1]):
        tail = words.pop()
    return _Cut(head, tuple(words), tail, _signs(after), bool(after))


@lru_cache(_KNOWN)
def mark(word: str) -> Mark:
    """What a whole word is compared by. Every Unicode numeral (Nd, Nl, No) is masked."""
    if any(map(str.isnumeric, word)) and not ("\u3400" <= word[0] <= "\u9fff"):
        masked = re.sub("0+", "0", "".join("0" if ch.isnumeric() else ch for ch in word.casefold()))
        value = int(word) if word.isdecimal() and len(word) <= LARGEST else None
        return Mark(masked, masked != "0" and len(masked) > 2, masked == "0", value)
    text = word.casefold()
    return Mark(text, len(text) > 1 or (not text.isascii() and text.upper() == text), False, None)


def _signs(text: str) -> int:
    return sum(unicodedata.category(ch)[0] in "PS" for ch in text)


def is_alone(word: str) -> bool:
    """Whether the word is a character of a script without spaces."""
    return _LEADING.match(word) is None


class MarkReader:
    """Puts words together from tokens. `take` calls back with each whole word and the position of its
    first token, as soon as the next token shows that it is whole. signs: other characters so far."""

    __slots__ = ("_at", "_pending", "_take", "signs")

    def __init__(self, take: Callable[[str, int], None]) -> None:
        self._take = take
        self._pending = ""
        self._at = 0
        self.signs = 0

    def update(self, text: str, position: int) -> None:
        """The next token's text and its position."""
        head, rest, tail, signs, broken = _cut(text)
        pending = self._pending
        if head:
            if not pending:
                self._at = position
            pending += head
        if broken:
            if pending:
                self._take(pending, self._at)
            for word in rest:
                self._take(word, position)
            pending = tail
            self._at = position
            self.signs += signs
        elif len(pending) > LONGEST:
            self._take(pending, self._at)
            pending = ""
        self._pending = pending

    def cut(self) -> None:
        """Forget the unfinished word: what comes next does not go on with it."""
        self._pending = ""
