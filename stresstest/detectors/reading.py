"""A whole answer read at once: what stood before, found by sorting instead of token by token.

The repetition detectors do nothing where no gram stands again, which is nearly everywhere. Over recorded
text they are told all such places beforehand and pass over the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from stresstest.detectors.code_lines import CodeLines
from stresstest.detectors.marks import LONGEST, WORD, is_alone, mark, signs_in
from stresstest.detectors.stretch import Totals
from stresstest.detectors.windows import again_at


def coded(keys: Iterable[Hashable]) -> list[int]:
    """A number for each key, the first being 1; equal keys have equal ones."""
    codes: dict[Hashable, int] = {}
    return [codes.setdefault(key, len(codes) + 1) for key in keys]


def stood_before(seq: Sequence[int], gram: int) -> Iterator[tuple[int, int]]:
    """(n, where the `gram` codes up to n last stood), for every n where they did, in order."""
    at, source = again_at(np.array(seq, np.uint64), gram)
    for first, last in zip(at.tolist(), source.tolist(), strict=True):
        if seq[first : first + gram] == seq[last : last + gram]:  # hashes only say "may be"
            yield first + gram - 1, last + gram - 1


class Words:
    """The words of an answer, given by its tokens' texts, as `MarkReader` takes them one by one.

    marks: of each word. whole: no word is so long that the reader would cut it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._whole = "".join(texts)
        words = WORD.findall(self._whole)
        self.whole = max(map(len, words), default=0) <= LONGEST
        if words and self._whole.endswith(words[-1]) and not is_alone(words[-1]):
            words.pop()  # it may go on
        self._words = words
        self._told = 0
        self.marks = list(map(mark, words))

    @cached_property
    def at(self) -> Places:
        """The 1-based token in which each word begins."""
        return Places(self._starts, [match.start() for match in WORD.finditer(self._whole)])

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
        return Totals(words[n], figures[n], self._signs[self._taken(n) - 1])

    def _taken(self, n: int) -> int:
        word = self._words[n]
        return self.at.token(self.at.chars[n] + (0 if is_alone(word) else len(word)))

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self._texts), initial=0))

    @cached_property
    def _signs(self) -> list[int]:
        return list(accumulate(map(signs_in, self._texts), initial=0))

    @cached_property
    def _said(self) -> tuple[list[int], list[int]]:
        words = accumulate(each.word for each in self.marks)
        return list(words), list(accumulate(each.figure for each in self.marks))


class Places:
    """Places by index, looked up when they are asked for. chars: the character of each; starts: of tokens."""

    def __init__(self, starts: list[int], chars: list[int]) -> None:
        self._starts = starts
        self.chars = chars

    def __getitem__(self, n: int) -> int:
        return self.token(self.chars[n])

    def token(self, char: int) -> int:
        """The 1-based token that holds the character."""
        return bisect_right(self._starts, char)
