"""What is known of words, by their hashes: the evidence of `word_evidence` for whole texts at once.

A direct-mapped cache: a word that is not in it is weighed once, by the detectors' own lexicon, and
replaces whatever word had its place. So a lookup costs a few nanoseconds and memory is bounded.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.features import Features
from stresstest.detectors.function_words import languages_of
from stresstest.detectors.marks import ALONE
from stresstest.detectors.word_evidence import lexicon

_BITS = 20
_SHIFT = np.uint64(64 - _BITS)
_WORD = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+")
OWN, STRANGE, USED = 1, 2, 4
"""Flags: a function word of the wanted language alone; of others, and not of this one; of this one too."""


class WordTable:
    """The words of answers wanted in one language."""

    def __init__(self, language: str | None) -> None:
        self._language = language
        self._weigh = lexicon(language).weigh
        size = 1 << _BITS
        self._tags = np.zeros(size, np.uint64)
        self._values = np.zeros((size, 2), np.float32)
        self._flags = np.zeros(size, np.uint8)

    def __call__(self, text: str, seen: Features) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """((letters, grammar) evidence of every word, in lower case; its flags).

        seen: the text's features, not `wide`.
        """
        places = (seen.words >> _SHIFT).astype(np.int64)
        new = np.flatnonzero(self._tags.take(places) != seen.words)
        if len(new):
            self._learn(text, seen, places, new)
            # Two new words of one place: the second has replaced the first, whose value is then its own.
        return self._values.take(places, axis=0), self._flags.take(places)

    def _learn(self, text: str, seen: Features, places: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        tags, values, flags = self._tags, self._values, self._flags
        for i in new.tolist():
            place = places[i]
            if tags[place] == seen.words[i]:
                continue
            match = _WORD.match(text, int(seen.starts[i]))
            word = match.group().lower() if match else ""
            letters, grammar = self._weigh(word)[:2] if word else (0.0, 0.0)
            users = languages_of(word)
            tags[place] = seen.words[i]
            values[place] = letters, grammar
            own = OWN if users == (self._language,) else 0
            flags[place] = own | (USED if self._language in users else STRANGE if users else 0)


@lru_cache(maxsize=16)
def word_table(language: str | None) -> WordTable:
    """The table of a language, shared by all its answers."""
    return WordTable(language)
