"""What is known of words, by their hashes: the evidence of `word_evidence` for whole texts at once.

A direct-mapped cache: a word that is not in it is weighed once, by the detectors' own lexicon, and
replaces whatever word had its place. So a lookup costs a few nanoseconds and memory is bounded.
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

_BITS = 20
_SHIFT = np.uint64(64 - _BITS)
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
        size = 1 << _BITS
        self._tags = np.zeros(size, np.uint64)
        self._letters = np.zeros(size, np.int16)
        self._grammar = np.zeros(size, np.int16)
        self._flags = np.zeros(size, np.uint8)

    def __call__(self, seen: Features) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.uint8]]:
        """(letters' evidence, grammar's evidence, flags) of every word in lower case; a fence has none."""
        places = (seen.words >> _SHIFT).astype(np.int64)
        new = np.flatnonzero(self._tags.take(places) != seen.words)
        if len(new) > len(seen.closes):
            self._learn(seen, places, new)
            # Two new words of one place: the second has replaced the first, whose value is then its own.
        found = self._letters.take(places), self._grammar.take(places), self._flags.take(places)
        for each in found:
            each[seen.closes] = 0
        return found

    def _learn(self, seen: Features, places: Indices, new: Indices) -> None:
        tags, known = self._tags, self._lexicon.known
        fences = set(seen.closes.tolist())
        for i in new.tolist():
            place = places[i]
            if tags[place] == seen.words[i] or i in fences:
                continue
            first = int(seen.starts[i])
            units = seen.codes[first : first + _LONGEST].tobytes().decode("utf-16-le", "replace")
            match = _WORD.match(units)
            word = match.group().lower() if match else ""
            evidence = (known.get(word) or self._lexicon.weigh(word)) if word else (0.0, 0.0)
            letters, grammar = evidence[0], evidence[1]
            users = languages_of(word)
            tags[place] = seen.words[i]
            self._letters[place], self._grammar[place] = math.ceil(letters * UNIT), math.ceil(grammar * UNIT)
            own = OWN if users == (self._language,) else 0
            lone = LONE if len(word) == 1 else 0
            self._flags[place] = own | lone | (USED if self._language in users else STRANGE if users else 0)


@lru_cache(maxsize=16)
def word_table(language: str | None) -> WordTable:
    """The table of a language, shared by all its answers."""
    return WordTable(language)
