"""An answer's pieces and words as arrays of hashes: what the fast path of `scan` looks at, at C speed.

A character counts folded, and every digit is the same one; blanks count nothing. A piece's hash is the
sum over its pairs of neighbouring characters, so that it needs no loop in Python. Hashes only ever say
"may be equal": the fast path passes what has few equal ones, and the panel judges the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.marks import ALONE
from stresstest.detectors.panel import text_tokens

_BLANK, _WORD, _ALONE, _SIGN, LINE, _LOW, STOP, JOINT = range(8)
"""Kinds of characters. STOP ends sentences, JOINT joins words."""
_LONGEST_PIECE = 32
"""Characters after which the panel's pieces are cut."""

Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Features:
    """count: pieces as `text_tokens` cuts them. pieces: their hashes, blanks left out; kinds: what they are.
    at: which of them are words; words: hashes of those; figures: which begin with a digit; capital: which
    with a capital. starts: UTF-16 offset at which each word begins; wide: whether those are no character
    offsets. beyond: letters of no Latin script. cut: further pieces of words longer than a piece may be.
    """

    count: int
    pieces: Hashes
    kinds: NDArray[np.uint8]
    at: Indices
    words: Hashes
    figures: NDArray[np.bool_]
    capital: NDArray[np.bool_]
    starts: Indices
    beyond: int
    wide: bool
    cut: int = 0


_DIGIT, _BEYOND, _CAPITAL = 1, 2, 4


@lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint8], Hashes, Hashes, NDArray[np.uint8]]:
    """(kind, left factor, right factor, digit, letter beyond Latin, capital) of every UTF-16 unit."""
    every = "".join(map(chr, range(0x10000)))
    classes = np.full(0x10000, _SIGN, np.uint8)
    for pattern, kind in (
        (r"\s", _BLANK),
        (r"\w", _WORD),
        (f"[{ALONE}]", _ALONE),
        (r"\n", LINE),
        ("[.!?…।؟]", STOP),
        ("['’-]", JOINT),
    ):
        for match in re.finditer(pattern, every):
            classes[match.start()] = kind
    # The second unit of a pair is no piece of its own; what lies beyond 16 bits is signs, mostly.
    classes[0xDC00:0xE000] = _LOW
    folded = np.fromiter((ord(c) if len(c := chr(n).lower()) == 1 else n for n in range(0x10000)), np.int64)
    digits = np.fromiter((chr(n).isnumeric() and classes[n] == _WORD for n in range(0x10000)), np.bool_)
    folded[digits] = ord("0")
    folded = np.minimum(folded, 0xFFFF)
    rng = np.random.Generator(np.random.PCG64(1))
    left = rng.integers(0, 1 << 63, 0x10000, np.uint64)[folded] | np.uint64(1)
    right = rng.integers(0, 1 << 63, 0x10000, np.uint64)[folded] | np.uint64(1)
    silent = (classes == _BLANK) | (classes == _LOW)
    left[silent] = 0
    # Before a word every blank and sign is the same: a word is what it is, whatever stands before it.
    right[(classes != _WORD)] = 1
    marks = np.fromiter(
        (
            (_BEYOND if n >= 0x250 and chr(n).isalpha() else 0) | (_CAPITAL if chr(n).isupper() else 0)
            for n in range(0x10000)
        ),
        np.uint8,
    )
    marks[digits] |= _DIGIT
    return classes, left, right, marks


def features(text: str) -> Features:
    """The features of a text that is not empty. Linear, about ten nanoseconds a character."""
    classes, left, right, marks = _tables()
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    kinds = classes.take(codes)
    values = left.take(codes)
    values[1:] *= right.take(codes[:-1])
    marked = marks.take(codes)
    inside = kinds == _WORD
    begins = (kinds >= _ALONE) & (kinds != _LOW)
    begins[0] |= inside[0]
    begins[1:] |= inside[1:] & ~inside[:-1]
    numeric = (marked & _DIGIT).view(np.bool_)
    # A run of digits is one digit, however long.
    values[1:][numeric[1:] & numeric[:-1]] = 0
    beyond = 0 if text.isascii() else int(np.count_nonzero(marked & _BEYOND))
    starts = np.flatnonzero(begins)
    if not len(starts):
        none, no = np.zeros(0, np.uint64), np.zeros(0, np.bool_)
        return Features(
            len(text_tokens(text)), none, none.astype(np.uint8), starts, none, no, no, starts, 0, False
        )
    pieces = np.add.reduceat(values, starts)
    kind = kinds.take(starts)
    at = np.flatnonzero((kind == _WORD) | (kind == _ALONE))
    words = starts.take(at)
    found = marked.take(words)
    wide = len(codes) != len(text)
    cut = _cut(inside)
    return Features(
        # Beyond 16 bits a sign is told from a letter the slow way.
        count=len(text_tokens(text)) if wide else int(len(starts) + cut + (kinds[-1] == _BLANK)),
        pieces=pieces,
        kinds=kind,
        at=at,
        words=pieces.take(at),
        figures=(found & _DIGIT) != 0,
        capital=(found & _CAPITAL) != 0,
        starts=words,
        beyond=beyond,
        wide=wide,
        cut=cut,
    )


def piece_count(text: str) -> int:
    """How many pieces `text_tokens` cuts a text into, without cutting it."""
    return features(text).count if text else 0


def _cut(inside: NDArray[np.bool_]) -> int:
    """Further pieces of words that are longer than a piece may be."""
    if len(inside) <= _LONGEST_PIECE:
        return 0
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    bounds = np.concatenate(([0], edges, [len(inside)]))
    lengths = np.diff(bounds)
    if lengths.max() <= _LONGEST_PIECE:
        return 0
    words = lengths[inside[bounds[:-1]]]
    return int(((words - 1) // _LONGEST_PIECE).sum())


def repeated(hashes: Hashes, gram: int) -> tuple[NDArray[np.bool_], Indices]:
    """For each run of `gram` hashes, by its first index: did it stand before, and if so where last?"""
    n = max(len(hashes) - gram + 1, 0)
    flags, source = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    if n > 1:
        mixed = hashes[:n].copy()
        for i in range(1, gram):
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed += hashes[i : i + n]
        at, back = _again(mixed)
        flags[at] = True
        source[at] = at - back
    return flags, source


def nearby(hashes: Hashes, distance: int) -> NDArray[np.bool_]:
    """For each hash: did the same one stand at most `distance` places before?"""
    flags = np.zeros(len(hashes), np.bool_)
    if len(hashes) > 1:
        at, back = _again(hashes.copy())
        flags[at[back <= distance]] = True
    return flags


def _again(hashes: Hashes) -> tuple[Indices, Indices]:
    """(indices whose hash stood before, how far before). One sort: the low bits carry the index."""
    n = len(hashes)
    bits = np.uint64(n.bit_length())
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes >>= bits
    hashes <<= bits
    hashes |= np.arange(n, dtype=np.uint64)
    hashes.sort()
    places = (hashes & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    names = hashes >> bits
    same = np.flatnonzero(names[1:] == names[:-1])
    return places[same + 1], places[same + 1] - places[same]


def densest(flags: NDArray[np.bool_], window: int) -> int:
    """The most flags in any `window` places in a row (in all of them, when there are fewer)."""
    if len(flags) <= window:
        return int(np.count_nonzero(flags))
    sums = np.cumsum(flags, dtype=np.int64)
    return int(max(sums[window - 1], (sums[window:] - sums[:-window]).max()))


def climbs(evidence: NDArray[np.floating[Any]]) -> float:
    """How high Page's sum of this evidence rises: the sum, never below zero, at its highest."""
    if not len(evidence):
        return 0.0
    sums = np.cumsum(evidence)
    return float((sums - np.minimum(np.minimum.accumulate(sums), 0.0)).max())


def gaps(marked: NDArray[np.bool_], least: int) -> list[tuple[int, int]]:
    """Maximal stretches [first, end) of at least so many places without a mark."""
    bounds = np.concatenate(([-1], np.flatnonzero(marked), [len(marked)]))
    wide = np.flatnonzero(np.diff(bounds) > least)
    return [(int(bounds[i]) + 1, int(bounds[i + 1])) for i in wide]
