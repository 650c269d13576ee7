"""What is known of words, by their hashes: the evidence of `word_evidence` for whole texts at once.

A direct-mapped cache: a word that is not in it is weighed once, by the detectors' own lexicon, and
replaces whatever word had its place. So a lookup costs a few nanoseconds and memory is bounded: 13 MB at
most, and less for the languages of a few answers.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.features import Features
from stresstest.detectors.function_words import languages_of
from stresstest.detectors.marks import ALONE
from stresstest.detectors.windows import Indices
from stresstest.detectors.word_evidence import lexicon

_LEAST_BITS, _MOST_BITS = 15, 20
_ROOM = 16
"""Places for each word that is known: with fewer, words that share one are weighed again and again."""
_WORD = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+")
_LONGEST = 128
"""UTF-16 units of a word that are looked at."""
OWN, STRANGE, USED, LONE = 1, 2, 4, 8
"""Flags: a function word of the wanted language alone; of others, and not of this one; of this one too; one
letter, which formulas are full of."""
UNIT = 1000
"""The evidence is counted in thousandths, rounded up."""


class WordTable:
    """The words of answers wanted in one language."""

    def __init__(self, language: str | None) -> None:
        self._language = language
        self._lexicon = lexicon(language)
        self._known = 0
        self._make(_LEAST_BITS)

    def _make(self, bits: int) -> None:
        self._bits, self._shift = bits, np.uint64(64 - bits)
        self._tags = np.zeros(1 << bits, np.uint64)
        self._letters = np.zeros(1 << bits, np.int16)
        self._grammar = np.zeros(1 << bits, np.int16)
        self._flags = np.zeros(1 << bits, np.uint8)

    def _grow(self) -> None:
        """Twice the places, as long as there are few for the words; all that is known moves with them."""
        tags, letters, grammar, flags = self._tags, self._letters, self._grammar, self._flags
        known = np.flatnonzero(tags)
        self._make(self._bits + 1)
        places = (tags[known] >> self._shift).astype(np.int64)
        self._tags[places] = tags[known]
        self._letters[places], self._grammar[places] = letters[known], grammar[known]
        self._flags[places] = flags[known]

    def __call__(self, seen: Features) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.uint8]]:
        """(letters' evidence, grammar's evidence, flags) of every word in lower case; a fence has none."""
        while self._known * _ROOM > 1 << self._bits and self._bits < _MOST_BITS:
            self._grow()
        places = (seen.words >> self._shift).astype(np.int64)
        found = self._strangers(seen, places)
        for i in found:
            self._learn(seen, places, i)
        columns = self._letters.take(places), self._grammar.take(places), self._flags.take(places)
        # Of two new words of one place, the second has replaced the first.
        for i in self._strangers(seen, places) if found else ():
            columns[0][i], columns[1][i], columns[2][i] = self._weigh(seen, i)
        for each in columns:
            each[seen.closes] = 0
        return columns

    def _strangers(self, seen: Features, places: Indices) -> list[int]:
        """Words that are not in the table."""
        new = np.flatnonzero(self._tags.take(places) != seen.words)
        if len(new) <= len(seen.closes):
            return []
        strangers: list[int] = np.setdiff1d(new, seen.closes, assume_unique=True).tolist()
        return strangers

    def _learn(self, seen: Features, places: Indices, i: int) -> None:
        place = places[i]
        if self._tags[place] == seen.words[i]:
            return
        self._known += self._tags[place] == 0
        self._tags[place] = seen.words[i]
        self._letters[place], self._grammar[place], self._flags[place] = self._weigh(seen, i)

    def _weigh(self, seen: Features, i: int) -> tuple[int, int, int]:
        """(letters' evidence, grammar's evidence, flags) of a word that was not weighed yet."""
        first = int(seen.starts[i])
        units = seen.codes[first : first + _LONGEST].tobytes().decode("utf-16-le", "replace")
        match = _WORD.match(units)
        word = match.group().lower() if match else ""
        evidence = (self._lexicon.known.get(word) or self._lexicon.weigh(word)) if word else (0.0, 0.0)
        users = languages_of(word)
        own = OWN if users == (self._language,) else 0
        own |= LONE if len(word) == 1 else 0
        flags = own | (USED if self._language in users else STRANGE if users else 0)
        return math.ceil(evidence[0] * UNIT), math.ceil(evidence[1] * UNIT), flags


@lru_cache(maxsize=16)
def word_table(language: str | None) -> WordTable:
    """The table of a language, shared by all its answers."""
    return WordTable(language)
