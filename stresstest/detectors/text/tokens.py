"""Plain text as tokens, and the words of an output whatever its tokenizer: what near-loops are compared by.

A word may come in several tokens and a number digit by digit; a counter changes its digits, and with them its
tokens. So words are reassembled and case-folded, and figures masked. Punctuation and blanks are only counted,
since an edit of punctuation does not make new text. Scripts without spaces are read character by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from stresstest.model import Token

UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3001-\ua4cf\uac00-\ud7af\uf900-\ufaff"
)
"""Scripts without spaces between words, as a character class: every character is a word of its own."""

MAX_PIECE_CHARS, CUT_CHARS = 32, 8
"""Characters of the longest word and blank that is one piece of plain text (`text_tokens`), and of the pieces
that a longer word is cut into: what runs on without a blank repeats by then, if ever, every few tokens."""

_SPACED = rf"[^\W{UNSPACED_SCRIPTS}]"
_PIECE = re.compile(
    rf"[^\S\n]{{0,{MAX_PIECE_CHARS}}}(?:(?<!{_SPACED}){_SPACED}{{1,{MAX_PIECE_CHARS}}}+(?!{_SPACED})"
    rf"|[{UNSPACED_SCRIPTS}]|{_SPACED}{{1,{CUT_CHARS}}}|[^\w\s]|\n)"
    rf"|[^\S\n]{{1,{MAX_PIECE_CHARS}}}"
)
_WORD_CHARACTER = re.compile(_SPACED)
_WORD = re.compile(rf"{_SPACED}{{1,{MAX_PIECE_CHARS}}}")
_SIGN = re.compile(r"[^\w\s]")
_WORD_AFTER_BLANK = re.compile(rf"[^\S\n]{_SPACED}{{1,{MAX_PIECE_CHARS}}}")
_token = lru_cache(1 << 15)(Token)
"""Tokens are frozen, so that one serves every place where its piece stands."""

_CACHE_SIZE = 1 << 15
"""Token texts and words remembered, over all generations of the process."""

MAX_WORD_CHARS = 64
"""Characters after which a word is cut, so that one without end costs no quadratic time."""

WORD = re.compile(rf"[{UNSPACED_SCRIPTS}]|[^\W_{UNSPACED_SCRIPTS}]+")
_LEADING = re.compile(rf"[^\W_{UNSPACED_SCRIPTS}]+")

MAX_NUMBER_DIGITS = 9
"""Digits of the longest number that is read as a number; a longer one has no value."""

MAX_FIGURE_SHARE = 0.15
MIN_WORD_SHARE = 0.4
"""Figures among words and signs beyond which, and words below which, a stretch is a table, data or
formulas; it needs more words."""

DATA_FIGURE_SHARE = 0.35
DATA_WORD_SHARE = 0.3
"""Beyond and below these, rows of data are never a near-loop: each says something in its figures."""


def split_pieces(text: str) -> list[str]:
    """Plain text cut into words, punctuation and line breaks, each with the blanks before it. Joined they
    are the text. Scripts without spaces go character by character."""
    return _PIECE.findall(text)


def split_complete(held: str, text: str, before: str = "") -> tuple[list[str], str]:
    """(the pieces that are complete, the end that may go on) of `held` and of the text that follows on it.

    Text that arrives in parts is cut as the whole is, wherever the parts end. held: the end of the last part;
    before: the character before it, if there is one.
    """
    # Most events of prose are a word after a blank, go on with one, or are a sign.
    kind = _kind(text) if len(held) + len(text) <= MAX_PIECE_CHARS else None
    if kind and (not held or _is_word(held, before)):
        if kind == "sign":
            return [held, text] if held else [text], ""
        if kind == "blank and word":
            return [held] if held else [], text
        if held or _kind(before) != "word":
            return [], held + text
    whole, at = before + held + text, len(before)
    end = len(whole)
    pieces: list[str] = []
    for piece in _PIECE.finditer(whole, at):
        if piece.end() == end and (piece[0][-1].isspace() or _WORD_CHARACTER.fullmatch(piece[0][-1])):
            break
        pieces.append(piece[0])
        at = piece.end()
    return pieces, whole[at:]


def _is_word(held: str, before: str) -> bool:
    kind = _kind(held)
    return kind == "blank and word" or (kind == "word" and _kind(before) != "word")


@lru_cache(_CACHE_SIZE)
def _kind(text: str) -> Literal["word", "blank and word", "sign"] | None:
    if _WORD.fullmatch(text):
        return "word"
    if _WORD_AFTER_BLANK.fullmatch(text):
        return "blank and word"
    return "sign" if _SIGN.fullmatch(text) else None


def count_words(text: str, at: int, pieces: int) -> int:
    """How many of the next `pieces` pieces of plain text, from character `at` on, are words or figures."""
    found = islice(_PIECE.finditer(text, at), pieces)
    return sum(1 for piece in found if WORD.search(piece[0]))


def end_of_pieces(text: str, pieces: int) -> int:
    """The character behind the first `pieces` pieces of plain text; its end where it has fewer."""
    last = next(islice(_PIECE.finditer(text), pieces - 1, None), None)
    return len(text) if last is None else last.end()


def text_tokens(text: str) -> list[Token]:
    """Plain text as tokens without ids: its `split_pieces`."""
    return list(map(_token, _PIECE.findall(text)))


class NormalizedToken(NamedTuple):
    """A word or figure. text: folded, runs of numerals as one "0". word: it says something (a number
    and a lone letter of an alphabet do not). value: of a number that can be read."""

    text: str
    word: bool
    figure: bool
    value: int | None


class _TokenParts(NamedTuple):
    """A token's text. head: letters that go on with the word before; rest: whole words after it; tail:
    a word that may go on; signs: its other characters. broken: whether anything stands after the head."""

    head: str
    rest: tuple[str, ...]
    tail: str
    signs: int
    broken: bool


@lru_cache(_CACHE_SIZE)
def _split_token(text: str) -> _TokenParts:
    leading = _LEADING.match(text)
    head = leading.group() if leading else ""
    after = text[len(head) :]
    words = WORD.findall(after)
    tail = ""
    if words and after.endswith(words[-1]) and _LEADING.match(words[-1]):
        tail = words.pop()
    return _TokenParts(head, tuple(words), tail, _count_symbols(after), bool(after))


@lru_cache(_CACHE_SIZE)
def normalize_word(word: str) -> NormalizedToken:
    """What a whole word is compared by. Every Unicode numeral (Nd, Nl, No) is masked."""
    if any(map(str.isnumeric, word)) and not ("\u3400" <= word[0] <= "\u9fff"):
        masked = re.sub("0+", "0", "".join("0" if ch.isnumeric() else ch for ch in word.casefold()))
        value = int(word) if word.isdecimal() and len(word) <= MAX_NUMBER_DIGITS else None
        return NormalizedToken(masked, masked != "0" and len(masked) > 2, masked == "0", value)
    text = word.casefold()
    return NormalizedToken(text, len(text) > 1 or (not text.isascii() and text.upper() == text), False, None)


def _count_symbols(text: str) -> int:
    return sum(unicodedata.category(ch)[0] in "PS" for ch in text)


def is_unspaced_character(word: str) -> bool:
    return _LEADING.match(word) is None


class WordAssembler:
    """Puts words together from tokens. signs: other characters so far."""

    __slots__ = ("_at", "_pending", "signs")

    def __init__(self) -> None:
        self._pending = ""
        self._at = 0
        self.signs = 0

    def update(self, text: str, position: int, take: Callable[[str, int], None]) -> None:
        """Take the next token.

        take: called with each whole word and the position of its first token, as soon as the next token shows
        that it is whole. It is not kept: a detector that hands in a method of its own would be a cycle, and
        keep all that it has read until the garbage collector comes.
        """
        head, rest, tail, signs, broken = _split_token(text)
        pending = self._pending
        if head:
            if not pending:
                self._at = position
            pending += head
        if broken:
            if pending:
                take(pending, self._at)
            for word in rest:
                take(word, position)
            pending = tail
            self._at = position
            self.signs += signs
        elif len(pending) > MAX_WORD_CHARS:
            take(pending, self._at)
            pending = ""
        self._pending = pending

    def discard_pending(self) -> None:
        self._pending = ""


@lru_cache(1 << 13)
def is_symbol(char: str) -> bool:
    """Whether it is an emoji or the like, which flood as words do."""
    return unicodedata.category(char) == "So" and not _DRAWING_CHARACTER.match(char)


_DRAWING_CHARACTER = re.compile("[\u2190-\u23ff\u2500-\u25ff\u2800-\u28ff\u2b1b\u2b1c\U0001f7e5-\U0001f7eb]")
"""Arrows, technical signs, boxes, blocks, Braille dots, squares: rulers, diagrams, grids."""


class WordTotals(NamedTuple):
    """What was written up to a place: words that say something, figures, signs."""

    words: int = 0
    figures: int = 0
    signs: int = 0

    @property
    def tabular(self) -> bool:
        """Whether it is a table, data or formulas."""
        return self.figures > MAX_FIGURE_SHARE * sum(self) or self.words < MIN_WORD_SHARE * sum(self)

    @property
    def data(self) -> bool:
        """Whether it is hardly anything but data."""
        return self.figures > DATA_FIGURE_SHARE * sum(self) or self.words < DATA_WORD_SHARE * sum(self)
