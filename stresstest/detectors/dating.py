"""Where a failure began that a detector has proven: the onset, looked back for.

A detector needs strong evidence and dates the failure to where that begins: at the words that are surely
none. Once it has fired, weaker evidence before that place says since when the text was no longer sound. It
never accuses: it is asked only of an answer that a detector has confirmed to be degenerate, and reads nothing
but the text before the onset that is known.

Method: Page's CUSUM over the words up to that onset (Biometrika 41, 1954). The failure began where the sum
last left zero, its maximum-likelihood estimate, if the sum is still above zero at the known onset.

*Sense*: a word counts for the failure when the model itself found it unlikely, or when the language does not
have it, and against it when the model was sure of it. Without log probabilities nothing is looked back for:
ordinary words say too little of sense. The sum has a head start (Lucas and Crosier, "Fast
initial response for CUSUM quality-control schemes", Technometrics 24, 1982): an answer that shows no sound
passage before it fails did not begin with one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from math import isnan, nan
from typing import TYPE_CHECKING

from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Token

if TYPE_CHECKING:
    from stresstest.detectors.gibberish.word_evidence import WordScorer

HEAD_START = 30.0
"""Of the sum: 15 words that the model was sure of use it up."""

MIN_SUM = 8.0
"""What must stand of the sum at the onset that is known: two invented words, or four that surprise."""

MIN_WORDS = 8
"""Words before the onset that say something: fewer are no passage."""

UNKNOWN_WORD = 4.0
"""Evidence of a word that the language does not have, in some 0.8 nats: one word in a hundred of healthy
French and Italian is unlisted, and one in six where a model fails at them."""

REFERENCE_NATS = 5.0
"""Surprisal of a word, the sum over its tokens, that counts neither way. Sound words of a small instruct
model have 2.0 nats in the mean, those of its incoherent text 7 to 12."""

MIN_EXCESS_NATS, MAX_EXCESS_NATS = -2.0, 6.0
"""Limits of one word's surprisal against the reference: a certain word is no proof of sense, and a name or a
glued chain of words is one odd word."""

_WORD = re.compile(r"\S+")


class OnsetDating:
    """Looks back in one answer. `add` with every token, whether or not the feed has it already."""

    def __init__(self, language: str | None, feed: TextSegmenter) -> None:
        self._feed = feed
        self._language = language
        self._logprobs = array("f")
        self._began: dict[int, int] = {}

    def add(self, tokens: Iterable[Token]) -> None:
        """Keep the log probabilities of the next tokens."""
        self._logprobs.extend([nan if token.logprob is None else token.logprob for token in tokens])

    def sense_lost(self, onset: int) -> int:
        """The token at which a loss of sense began that is known from `onset` on; never after that."""
        if onset not in self._began:
            self._began[onset] = self._look_back(onset)  # only text before the onset is read
        return self._began[onset]

    def _look_back(self, onset: int) -> int:
        from stresstest.detectors.gibberish.word_evidence import word_scorer
        from stresstest.detectors.languages.catalog import normalize_language, scripts_of
        from stresstest.detectors.text.scripts import DENSE_SCRIPTS

        language = normalize_language(self._language) if self._language else None
        if language is not None and not DENSE_SCRIPTS.isdisjoint(scripts_of(language)):
            return onset  # words are not set apart
        scorer = word_scorer(language)
        feed, total, begin = self._feed, HEAD_START, 1
        words = 0
        for word in _WORD.finditer(feed.text):
            first = feed.token_at(word.start())
            if first >= onset:
                break
            if total <= 0.0:
                total, begin = 0.0, first
            evidence = self._evidence(word.group(), scorer, first, feed.token_at(word.end() - 1))
            if evidence is not None:
                total += evidence
                words += 1
        return begin if words >= MIN_WORDS and total >= MIN_SUM else onset

    def _evidence(self, word: str, scorer: WordScorer, first: int, last: int) -> float | None:
        """For the failure, or against it; None where nothing is known of the word."""
        surprisal = -sum(self._logprobs[first - 1 : last])
        if isnan(surprisal):
            return None
        excess = min(max(surprisal - REFERENCE_NATS, MIN_EXCESS_NATS), MAX_EXCESS_NATS)
        if excess > 0.0 and any(map(str.isdigit, word)):
            excess = 0.0  # digits are a free choice
        return excess + UNKNOWN_WORD if scorer.knows_forms and _has_unknown(word, scorer) else excess


def _has_unknown(word: str, scorer: WordScorer) -> bool:
    """Whether a piece of text between two blanks has a word that the language does not have."""
    from stresstest.detectors.gibberish.word_evidence import UNIT_PATTERN

    units = [unit for unit in UNIT_PATTERN.findall(word) if unit[0].isalpha()]
    return any((scorer.known.get(unit) or scorer.score(unit)).forms > 0.0 for unit in units)
