"""Tokens drawn at random from a vocabulary: word after word that was not there before.

Prose says its function words again and again, and code its names and key words: of a hundred words, twenty
to fifty were there a moment ago. A vocabulary has fifty thousand words and pieces of words, each as likely as
"the". One sum runs over the units of the text (Page's CUSUM), with weights after the log-likelihood ratios of
random tokens of four vocabularies (GPT-4's two, Claude's and SmolLM2's) against files of code and answers of
two hundred models: 36 is reached after 40 to 160 units, and by none of 4,000 files of code and 12,000 answers
but for lists of key words, encoded data, and the run-on texts of a model that fails so.

A row of words without a sign is a list, and so is what has the same sign after every few.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from stresstest.detectors.gibberish.word_evidence import UNIT_PATTERN, WordScorer
from stresstest.detectors.languages.function_words import languages_of
from stresstest.detectors.text.scripts import DENSE_SCRIPTS, script_of

NOVELTY_LIMIT = 36.0
GENERATION = 400
"""Distinct words that are remembered at least, twice as many at most."""
NEW, NEW_AND_STRANGE, AGAIN, FUNCTION_WORD = 0.6, 1.5, -3.0, -2.5
SIGN, SEPARATOR, FIGURE, BREAK = -0.2, -1.0, -1.5, -3.0
MAX_WITHOUT_SIGN, MAX_OF_ONE_SIGN, MAX_OF_KEYS = 0.6, 0.2, 0.2
"""Of what is drawn at random: most words in a row without a sign or a line's end between them, most of one
sign (of one or more in a row) a word, and most characters of keys."""
_SEPARATORS = frozenset(",;|•·、，；:*")
_INNER_CAPITAL = re.compile(r"[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ]")
_KEY, _DIGIT = re.compile(r"[A-Za-z0-9+/=_-]{24,}"), re.compile("[0-9]")
"""Keys and encoded data, which are no words, where they hold a digit."""
_REMEMBERED = 20_000


class NoveltySum:
    """Adds to the sum, and remembers the words that were there."""

    __slots__ = ("_lexicon", "_new", "_old", "_weights")

    def __init__(self, lexicon: WordScorer) -> None:
        self._lexicon = lexicon
        self._weights = lexicon.novelty
        self._new: set[str] = set()
        self._old: set[str] = set()

    def add(self, value: float, units: Sequence[str]) -> tuple[float, int | None]:
        """The sum with some units more, and the unit at which it left zero last, None where it did not. The
        hot loop."""
        left = None
        weights, new, old = self._weights, self._new, self._old
        for number, unit in enumerate(units):
            weight = weights.get(unit)
            if weight is None:
                weight = self._weigh(unit)
            if weight > 0.0:
                word = unit.lower()
                if word in new or word in old:
                    weight = AGAIN
                else:
                    new.add(word)
            if value > 0.0:
                value += weight
            elif weight > 0.0:
                left, value = number, weight
        if len(new) >= GENERATION:
            self._old, self._new = new, set()
        return max(0.0, value), left

    def _weigh(self, unit: str) -> float:
        if len(self._weights) >= _REMEMBERED:
            self._weights.clear()
        found = self._weights[unit] = self._weight_of(unit)
        return found

    def _weight_of(self, unit: str) -> float:
        first = unit[0]
        if not first.isalpha():
            if unit == "\n":
                return BREAK
            return FIGURE if first.isdigit() else SEPARATOR if first in _SEPARATORS else SIGN
        if script_of(first) in DENSE_SCRIPTS:
            return 0.0
        if languages_of(unit.lower()):
            return FUNCTION_WORD
        strange = _INNER_CAPITAL.search(unit) is not None or self._lexicon.score(unit).forms > 0.0
        return NEW_AND_STRANGE if strange else NEW


def is_list(text: str) -> bool:
    """Whether what the sum was reached by is a list of words, or of keys."""
    keys = sum(len(key) for key in _KEY.findall(text) if _DIGIT.search(key))
    units = [unit for unit, _ in groupby(UNIT_PATTERN.findall(text))]
    signs = Counter(unit for unit in units if not unit[0].isalnum())
    runs = [sum(1 for _ in run) for is_word, run in groupby(units, lambda unit: unit[0].isalnum()) if is_word]
    words = sum(runs)
    return (
        keys > MAX_OF_KEYS * len(text)
        or max(runs, default=0) > MAX_WITHOUT_SIGN * words
        or max(signs.values(), default=0) > MAX_OF_ONE_SIGN * words
    )
