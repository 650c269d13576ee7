"""A whole answer read at once: earlier occurrences, found by sorting instead of token by token.

The repetition detectors do nothing where no gram recurs, which is nearly everywhere, and little where a copy
merely continues. For recorded text they receive all such places in advance and skip the rest.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from stresstest.detectors.text.code_lines import CodeRegionTracker
from stresstest.detectors.text.features import word_starts
from stresstest.detectors.text.tokens import (
    MAX_WORD_CHARS,
    WORD,
    NormalizedToken,
    WordTotals,
    is_unspaced_character,
    normalize_word,
)
from stresstest.detectors.text.windows import Hashes, Indices, repeated_runs


def encode_keys(keys: Mapping[str, Hashable]) -> dict[str, int]:
    """A number for each text, from 1 on; equal for texts of equal keys."""
    numbers = {key: n for n, key in enumerate(dict.fromkeys(keys.values()), 1)}
    return dict(zip(keys, map(numbers.__getitem__, keys.values()), strict=True))


def find_repeated_grams(codes: Hashes, gram: int) -> tuple[Indices, Indices]:
    """(every n where the last `gram` codes occurred before, in order; distance to the nearest occurrence)."""
    at, source = repeated_runs(codes, gram)
    same = np.ones(len(at), np.bool_)  # hashes only say "may be"
    for i in range(gram):
        same &= codes.take(at + i) == codes.take(source + i)
    return at[same] + (gram - 1), (at - source)[same]


def first_mismatch(seq: Hashes, first: int, end: int, lag: int) -> int:
    """The first place of [first, end) that differs from the one `lag` before; end if none does."""
    other = seq[first:end] != seq[first - lag : end - lag]
    at = int(other.argmax()) if len(other) else 0
    return first + at if len(other) and other[at] else end


class WordIndex:
    """The words of an answer, given by its tokens' texts, as `WordAssembler` assembles them.

    words: as written. marks: of every distinct word. whole: no word is so long that the assembler would cut
    it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._whole = "".join(texts)
        words: list[str] = WORD.findall(self._whole)
        different = dict.fromkeys(words)
        self.whole = max(map(len, different), default=0) <= MAX_WORD_CHARS
        if words and self._whole.endswith(words[-1]) and not is_unspaced_character(words[-1]):
            words.pop()  # it may go on
        self.words = words
        self.marks: dict[str, NormalizedToken] = {word: normalize_word(word) for word in different}
        self.at = WordPositions(texts, self._whole)
        self._emitted = 0
        self._counts = {0: 0}

    def known_token(self, n: int, code: CodeRegionTracker) -> int:
        """The token at which the word at n is complete; `code` receives all text before it."""
        token = self._symbols_taken(n)
        if self._emitted < token - 1:
            code.update("".join(self._texts[self._emitted : token - 1]))
            self._emitted = token - 1
        return token

    def totals_at(self, n: int) -> WordTotals:
        """The totals up to the word at n, when it is complete."""
        words, figures = self._meaningful_totals
        end = self.at.starts[self._symbols_taken(n) - 1]
        if end not in self._counts:
            known = max(each for each in self._counts if each < end)
            more = sum(self._whole.count(sign, known, end) for sign in self._signs)
            self._counts[end] = self._counts[known] + more
        return WordTotals(words[n], figures[n], self._counts[end])

    def _symbols_taken(self, n: int) -> int:
        word = self.words[n]
        return self.at.token(self.at.chars[n] + (0 if is_unspaced_character(word) else len(word)))

    @cached_property
    def _signs(self) -> list[str]:
        return [char for char in sorted(set(self._whole)) if unicodedata.category(char)[0] in "PS"]

    @cached_property
    def _meaningful_totals(self) -> tuple[list[int], list[int]]:
        word = {text: int(each.word) for text, each in self.marks.items()}
        figure = {text: int(each.figure) for text, each in self.marks.items()}
        totals = (accumulate(map(which.__getitem__, self.words)) for which in (word, figure))
        words, figures = map(list, totals)
        return words, figures


class WordPositions:
    """The 1-based token in which each word of a text begins, by the word's index; computed on demand."""

    def __init__(self, texts: Sequence[str], whole: str) -> None:
        self._texts, self._whole = texts, whole

    def __getitem__(self, n: int) -> int:
        return self.token(self.chars[n])

    def token(self, char: int) -> int:
        """The 1-based token that contains the character."""
        return bisect_right(self.starts, char)

    @cached_property
    def chars(self) -> list[int]:
        return word_starts(self._whole)

    @cached_property
    def starts(self) -> list[int]:
        """The character at which each token begins, and the end."""
        return list(accumulate(map(len, self._texts), initial=0))
