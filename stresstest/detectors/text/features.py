"""Pieces and words of many answers as arrays of hashes: what the fast path of `scan` looks at, at C speed.

A character counts folded, and every run of digits is one digit; blanks count nothing. A word's hash is the
sum over its pairs of neighbouring characters, so that it needs no loop in Python. Hashes only ever say
"may be equal": the fast path passes texts with few equal ones, and the suite reads the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.text.tokens import (
    CUT_CHARS,
    MAX_PIECE_CHARS,
    UNSPACED_SCRIPTS,
    is_symbol,
    split_pieces,
    text_tokens,
)
from stresstest.detectors.text.tokens import WORD as MARKED
from stresstest.detectors.text.windows import Flags, Hashes, Indices, distance_to_previous, text_index

_BLANK, WORD, _ALONE, _SIGN, LINE, _LOW, STOP, JOINT = range(8)
"""Kinds of characters. STOP ends sentences, JOINT joins words; LOW is the second half of a pair."""
_KIND, _DIGIT, _BEYOND, _CAPITAL, _JOIN, _SYMBOL = 7, 8, 16, 32, 64, 128
"""Bits of a character's class: its kind; a digit; a letter of no Latin script; a capital; an underscore; a
sign that floods as words do, or half of one that may."""
_GREEK = (0x370, 0x3FF)
_LAST_LATIN, _MORE_LATIN = 0x24F, range(0x1E00, 0x1F00)
"""The last of the Latin letters, and the block of those that Vietnamese is full of."""
MAX_LONG_WORD_PIECES = 8
"""Pieces beyond the first of words without end, from which on a text has to be read by the detectors."""
_EMOJI = (0xD83C, 0xD83D, 0xD83E)
"""First halves of the pairs that are signs, with few exceptions."""


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """Some texts end to end, each closed by a fence, which is a piece and a word of its own.

    texts: as given. codes: UTF-16 units. begins: the unit at which each text begins. pieces: hashes of what
    `text_tokens` cuts them into, blanks left out; kinds: of the pieces; fences: among the pieces.
    at: which pieces are words; words: their hashes; starts: the unit at which each begins; closes: fences
    among the words; figures, capital: words that begin with a digit, with a capital.
    Of each text: counts: pieces as `text_tokens` counts them; cut: those that are more pieces of a word
    longer than a piece may be; symbols: emoji and the like, at most; beyond: letters of no Latin script, lone
    Greek ones left out; wide: whether it may have letters of more than 16 bits; joined: underscores, which
    join what are two words for others.
    """

    texts: Sequence[str]
    codes: NDArray[np.uint16]
    text_starts: Indices
    pieces: Hashes
    kinds: NDArray[np.uint8]
    fences: Indices
    at: Indices
    words: Hashes
    starts: Indices
    word_fences: Indices
    starts_with_digit: Flags
    capital: Flags
    counts: Indices
    cut: Indices
    symbols: Indices
    non_latin_letters: Indices
    may_have_astral: Flags
    underscores: Indices

    def char_offset(self, text: int, unit: int) -> int:
        """The character of a text at a unit of all texts."""
        first = int(self.text_starts[text])
        units = int(self.text_starts[text + 1]) - 1 - first
        if units == len(self.texts[text]):
            return unit - first
        return len(self.codes[first:unit].tobytes().decode("utf-16-le", "surrogatepass"))

    @property
    def endless(self) -> Flags:
        """Which texts have words without end: one word each here, many pieces for a detector."""
        return self.cut >= MAX_LONG_WORD_PIECES


class WordLags(NamedTuple):
    """The words of some texts but for figures. plain: which of all words they are; lags: see
    `distance_to_previous`, in such words; fences: among them."""

    plain: Flags
    lags: Indices
    fences: Indices


def word_lags(seen: TextFeatures) -> WordLags:
    plain = ~seen.starts_with_digit
    fences = np.cumsum(plain, dtype=np.int64)[seen.word_fences] - 1
    return WordLags(plain, distance_to_previous(seen.words[plain], fences), fences)


@lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint8], Hashes, Hashes]:
    """(class, left factor, right factor) of every UTF-16 unit."""
    every = "".join(map(chr, range(0x10000)))
    classes = np.full(0x10000, _SIGN, np.uint8)
    for pattern, kind in (
        (r"\s", _BLANK),
        (r"\w", WORD),
        (f"[{UNSPACED_SCRIPTS}]", _ALONE),
        (r"\n", LINE),
        ("[.!?…।؟]", STOP),
        ("['’-]", JOINT),
    ):
        for match in re.finditer(pattern, every):
            classes[match.start()] = kind
    classes[0xDC00:0xE000] = _LOW
    folded = np.fromiter((ord(c) if len(c := chr(n).lower()) == 1 else n for n in range(0x10000)), np.int64)
    digits = np.fromiter((chr(n).isnumeric() and classes[n] == WORD for n in range(0x10000)), np.bool_)
    folded[digits] = ord("0")
    folded = np.minimum(folded, 0xFFFF)
    rng = np.random.Generator(np.random.PCG64(1))
    left = rng.integers(0, 1 << 63, 0x10000, np.uint64)[folded] | np.uint64(1)
    right = rng.integers(0, 1 << 63, 0x10000, np.uint64)[folded] | np.uint64(1)
    left[(classes == _BLANK) | (classes == _LOW)] = 0
    # A word is what it is, whatever blank or sign stands before it.
    right[classes != WORD] = 1
    for n, char in enumerate(every):
        beyond = _BEYOND if n > _LAST_LATIN and n not in _MORE_LATIN and char.isalpha() else 0
        classes[n] |= beyond | (_CAPITAL if char.isupper() else 0) | (_DIGIT if digits[n] else 0)
        classes[n] |= _SYMBOL if classes[n] & _KIND == _LOW or is_symbol(char) else 0
    classes[ord("_")] |= _JOIN
    return classes, left, right


def word_starts(text: str) -> list[int]:
    """The character at which each word begins, as the near-loop detector cuts them (`tokens.WORD`)."""
    codes, _ = _utf16_units([text])
    if len(codes) != len(text) + 1:
        return [match.start() for match in MARKED.finditer(text)]
    marks = _tables()[0].take(codes.astype(np.intp))
    kinds = marks & np.uint8(_KIND)
    inside = (kinds == WORD) & ((marks & _JOIN) == 0)
    begin = inside.copy()
    begin[1:] &= ~inside[:-1]
    return np.flatnonzero(begin | (kinds == _ALONE)).tolist()


def extract_features(texts: Sequence[str]) -> TextFeatures:
    """The features of at least one text. Linear, a few nanoseconds a character.

    Worth most for some 100,000 characters at once, whose arrays fit a core's cache.
    """
    classes, left, right = _tables()
    codes, begins = _utf16_units(texts)
    index = codes.astype(np.intp)
    marks = classes.take(index)
    kinds = marks & np.uint8(_KIND)
    inside = kinds == WORD
    starts = np.flatnonzero(_piece_starts(kinds, inside))
    values = left.take(index)
    values[1:] *= right.take(index[:-1])
    numeric = (marks & _DIGIT) != 0
    values[1:][numeric[1:] & numeric[:-1]] = 0
    np.cumsum(values, out=values)
    ends = np.append(starts[1:], len(codes)) - 1
    pieces = values.take(ends)
    pieces[1:] -= values.take(ends[:-1])
    kind = kinds.take(starts)
    bare = kind != WORD
    pieces[bare] = left.take(index.take(starts[bare]))
    fences = np.searchsorted(starts, begins[1:] - 1)
    pieces[fences] = _fence_hashes(len(texts))
    kind[fences] = WORD
    at = np.flatnonzero((kind == WORD) | (kind == _ALONE))
    kind[fences] = LINE
    words = starts.take(at)
    found = marks.take(words)
    wide = _has_astral_letters(codes, marks, begins, texts)
    cut = _split_long_pieces(starts, kinds, begins)
    return TextFeatures(
        texts=texts,
        codes=codes,
        text_starts=begins,
        pieces=pieces,
        kinds=kind,
        fences=fences,
        at=at,
        words=pieces.take(at),
        starts=words,
        word_fences=np.searchsorted(at, fences),
        starts_with_digit=(found & _DIGIT) != 0,
        capital=(found & _CAPITAL) != 0,
        counts=_counts(texts, kinds, fences, begins, cut, wide),
        cut=cut,
        symbols=_count_per_text((marks & _SYMBOL) != 0, begins),
        non_latin_letters=_non_latin_letters(codes, marks, begins),
        may_have_astral=wide,
        underscores=_count_per_text((marks & _JOIN) != 0, begins),
    )


@lru_cache(maxsize=64)
def _fence_hashes(count: int) -> Hashes:
    """Hashes that no piece has, one for each fence."""
    return np.random.Generator(np.random.PCG64(2)).integers(0, 1 << 63, count, np.uint64)


def _utf16_units(texts: Sequence[str]) -> tuple[NDArray[np.uint16], Indices]:
    """(UTF-16 units of the texts, each closed by a line break; where each begins, and the end)."""
    parts = [text.encode("utf-16-le", "surrogatepass") for text in texts]
    codes = np.frombuffer(b"\n\0".join([*parts, b""]), np.uint16)
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(part) // 2 + 1 for part in parts], out=begins[1:])
    return codes, begins


def _piece_starts(kinds: NDArray[np.uint8], inside: Flags) -> Flags:
    found: Flags = (kinds > WORD) & (kinds != _LOW)
    found[0] |= inside[0]
    found[1:] |= inside[1:] & ~inside[:-1]
    return found


def _count_per_text(flags: Flags, begins: Indices) -> Indices:
    places = np.flatnonzero(flags)
    return np.diff(np.searchsorted(places, begins))


def _non_latin_letters(codes: NDArray[np.uint16], marks: NDArray[np.uint8], begins: Indices) -> Indices:
    """Letters of no Latin script in each text; a Greek one alone is part of a formula."""
    places = np.flatnonzero(marks & np.uint8(_BEYOND))
    if len(places):
        letters = codes[places]
        near = np.diff(places) == 1
        alone = ~(np.append(near, False) | np.append(False, near))
        places = places[~(alone & (letters >= _GREEK[0]) & (letters <= _GREEK[1]))]
    return np.diff(np.searchsorted(places, begins))


def _has_astral_letters(
    codes: NDArray[np.uint16], marks: NDArray[np.uint8], begins: Indices, texts: Sequence[str]
) -> Flags:
    """Which texts have characters of more than 16 bits that may be letters: all but emoji, nearly."""
    wide = np.zeros(len(texts), np.bool_)
    if begins[-1] == sum(map(len, texts)) + len(texts):
        return wide
    low = np.flatnonzero((marks & np.uint8(_KIND)) == _LOW)
    high, second = codes[low - 1], codes[low]
    emoji = (high == _EMOJI[1]) | ((high == _EMOJI[2]) & (second < 0xDFF0))
    emoji |= (high == _EMOJI[0]) & (second >= 0xDDE6)
    wide[text_index(low[~emoji], begins[1:] - 1)] = True
    return wide


def _counts(
    texts: Sequence[str],
    kinds: NDArray[np.uint8],
    fences: Indices,
    begins: Indices,
    cut: Indices,
    wide: Flags,
) -> Indices:
    counts = np.diff(fences, prepend=-1) - 1 + cut
    lasts = begins[1:] - 2
    counts += (lasts >= begins[:-1]) & (kinds[lasts] == _BLANK)
    for i in np.flatnonzero(wide).tolist():
        counts[i] = len(text_tokens(texts[i]))
    return counts


def _split_long_pieces(starts: Indices, kinds: NDArray[np.uint8], begins: Indices) -> Indices:
    """Further pieces of each text's words and blanks that are longer than a piece may be."""
    more = np.zeros(len(begins) - 1, np.int64)
    edges = np.concatenate((np.zeros(1, np.int64), starts))
    fences = begins[1:] - 1
    for i in np.flatnonzero(np.diff(edges) > MAX_PIECE_CHARS).tolist():
        first, end = int(edges[i]), int(edges[i + 1])
        here = kinds[first:end]
        if here[0] == WORD:
            length = int((here == WORD).sum())
            if length > MAX_PIECE_CHARS:
                more[text_index(edges[i : i + 1], fences)] += (length - 1) // CUT_CHARS
        blanks = int((here == _BLANK).sum())  # they are the next piece's, or end the text
        more[text_index(edges[i + 1 : i + 2], fences)] += max(blanks - 1, 0) // MAX_PIECE_CHARS
    return more


def piece_count(text: str) -> int:
    """How many pieces `text_tokens` cuts a text into, without cutting it."""
    codes, begins, marks, kinds, starts = _single_text_pieces(text)
    fences = np.array([len(starts) - 1])
    cut = _split_long_pieces(starts, kinds, begins)
    return int(
        _counts([text], kinds, fences, begins, cut, _has_astral_letters(codes, marks, begins, [text]))[0]
    )


def piece_ends(text: str) -> list[int]:
    """The characters up to and with each piece that `text_tokens` cuts a text into, without cutting it."""
    codes, begins, _, kinds, starts = _single_text_pieces(text)
    if len(codes) != len(text) + 1 or _split_long_pieces(starts, kinds, begins).any():
        return list(accumulate(map(len, split_pieces(text))))
    ends, inside = starts + 1, kinds == WORD
    ends[inside[starts]] = np.flatnonzero(inside[:-1] & ~inside[1:]) + 1  # the text is closed by a sign
    found: list[int] = ends[:-1].tolist()
    return [*found, len(text)] if text and kinds[-2] == _BLANK else found


def _single_text_pieces(
    text: str,
) -> tuple[NDArray[np.uint16], Indices, NDArray[np.uint8], NDArray[np.uint8], Indices]:
    """(units, begins, classes, kinds, where pieces start) of one text and its fence."""
    codes, begins = _utf16_units([text])
    marks = _tables()[0].take(codes.astype(np.intp))
    kinds = marks & np.uint8(_KIND)
    return codes, begins, marks, kinds, np.flatnonzero(_piece_starts(kinds, kinds == WORD))
