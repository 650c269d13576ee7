"""A whole answer read at once: what stood before, found by sorting instead of token by token.

The repetition detectors do nothing where no gram stands again, which is nearly everywhere, and little where
a copy merely goes on. Over recorded text they are told all such places beforehand and pass over the rest.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from stresstest.detectors.code_lines import CodeLines
from stresstest.detectors.features import word_starts
from stresstest.detectors.marks import LONGEST, WORD, Mark, is_alone, mark
from stresstest.detectors.stretch import Totals
from stresstest.detectors.windows import Hashes, Indices, again_at


def coded(keys: Mapping[str, Hashable]) -> dict[str, int]:
    """A number for each text, the first being 1; texts of equal keys have equal ones."""
    numbers = {key: n for n, key in enumerate(dict.fromkeys(keys.values()), 1)}
    return dict(zip(keys, map(numbers.__getitem__, keys.values()), strict=True))


def stood_before(codes: Hashes, gram: int) -> tuple[Indices, Indices]:
    """(every n where the `gram` codes up to n stood before, in order; how far back, at the nearest)."""
    at, source = again_at(codes, gram)
    same = np.ones(len(at), np.bool_)  # hashes only say "may be"
    for i in range(gram):
        same &= codes.take(at + i) == codes.take(source + i)
    return at[same] + (gram - 1), (at - source)[same]


def broken_at(seq: Hashes, first: int, end: int, lag: int) -> int:
    """The first place of [first, end) that is not what stood `lag` before; end where all are."""
    other = seq[first:end] != seq[first - lag : end - lag]
    at = int(other.argmax()) if len(other) else 0
    return first + at if len(other) and other[at] else end


class Words:
    """The words of an answer, given by its tokens' texts, as `MarkReader` takes them one by one.

    words: each as it is written. marks: of every different word. whole: no word is so long that the reader
    would cut it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._whole = "".join(texts)
        words: list[str] = WORD.findall(self._whole)
        different = dict.fromkeys(words)
        self.whole = max(map(len, different), default=0) <= LONGEST
        if words and self._whole.endswith(words[-1]) and not is_alone(words[-1]):
            words.pop()  # it may go on
        self.words = words
        self.marks: dict[str, Mark] = {word: mark(word) for word in different}
        self.at = Places(texts, self._whole)
        self._told = 0
        self._counts = {0: 0}

    def arrive(self, n: int, code: CodeLines) -> int:
        """The token at which the word at n is known to be whole; `code` is told of all before it."""
        token = self._taken(n)
        if self._told < token - 1:
            code.update("".join(self._texts[self._told : token - 1]))
            self._told = token - 1
        return token

    def counted(self, n: int) -> Totals:
        """What was written up to the word at n, when it is known to be whole."""
        words, figures = self._said
        end = self.at.starts[self._taken(n) - 1]
        if end not in self._counts:
            known = max(each for each in self._counts if each < end)
            more = sum(self._whole.count(sign, known, end) for sign in self._signs)
            self._counts[end] = self._counts[known] + more
        return Totals(words[n], figures[n], self._counts[end])

    def _taken(self, n: int) -> int:
        word = self.words[n]
        return self.at.token(self.at.chars[n] + (0 if is_alone(word) else len(word)))

    @cached_property
    def _signs(self) -> list[str]:
        return [char for char in sorted(set(self._whole)) if unicodedata.category(char)[0] in "PS"]

    @cached_property
    def _said(self) -> tuple[list[int], list[int]]:
        word = {text: int(each.word) for text, each in self.marks.items()}
        figure = {text: int(each.figure) for text, each in self.marks.items()}
        totals = (accumulate(map(which.__getitem__, self.words)) for which in (word, figure))
        words, figures = map(list, totals)
        return words, figures


class Places:
    """The 1-based token in which each word of a text begins, by the word's index; worked out when asked."""

    def __init__(self, texts: Sequence[str], whole: str) -> None:
        self._texts, self._whole = texts, whole

    def __getitem__(self, n: int) -> int:
        return self.token(self.chars[n])

    def token(self, char: int) -> int:
        """The 1-based token that holds the character."""
        return bisect_right(self.starts, char)

    @cached_property
    def chars(self) -> list[int]:
        """The character at which each word begins."""
        return word_starts(self._whole)

    @cached_property
    def starts(self) -> list[int]:
        """The character at which each token begins, and the end."""
        return list(accumulate(map(len, self._texts), initial=0))
