"""The screen for gibberish: the words' evidence is summed over whole texts, as the detector does."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stresstest.detectors.entry import ScreenBatch, Suspicion
from stresstest.detectors.gibberish.novelty import (
    AGAIN,
    BREAK,
    FIGURE,
    FUNCTION_WORD,
    GENERATION,
    NEW,
    NEW_AND_STRANGE,
    NOVELTY_LIMIT,
    SIGN,
)
from stresstest.detectors.gibberish.online import CUSUM_LIMITS, MOJIBAKE, REPEAT_WINDOW, UNUSED
from stresstest.detectors.gibberish.word_evidence import NOTHING, word_scorer
from stresstest.detectors.identification.names import can_detect_drift
from stresstest.detectors.languages.catalog import Catalog, catalog, normalize_language
from stresstest.detectors.languages.function_words import covered_languages, languages_of
from stresstest.detectors.text.features import JOINT, TextFeatures
from stresstest.detectors.text.scripts import is_latin
from stresstest.detectors.text.tokens import UNSPACED_SCRIPTS
from stresstest.detectors.text.windows import Flags, Indices, cusum, max_per_text

EVIDENCE_SCALE = 1000
"""The evidence is counted in thousandths, rounded up."""
MAX_OWN_WORDS = 3
"""Function words of the expected language: with fewer, a text may be foreign as a whole."""
BEYOND, SENTENCE_BEYOND = 6, 16
"""Letters of other scripts: fewer are names and formulas; so many may be a sentence."""
MIN_FOREIGN_SCRIPT_SHARE = 0.4
"""Letters of other scripts a token, from which on the whole suite is run at once."""
_BROKEN = ("\ufffd", "Ã", "â€", "Ð")
"""Marks of a text that was decoded wrongly. Control characters from 0x80 on are the others."""
SUSPICION_SHARE = 0.8
"""Share of a detector's bound from which on the detector is run."""
_FIGURE = -1 * EVIDENCE_SCALE
_OF_KIND = (np.array([0.0, 0.0, 0.0, -0.6, -2.0, 0.0, -0.1, 0.0]) * EVIDENCE_SCALE).astype(np.int16)
"""The evidence of signs, line breaks, full stops and joints, by kind."""
_NEW_OF_KIND = (np.array([0.0, 0.0, 0.0, SIGN, BREAK, 0.0, SIGN, 0.0]) * EVIDENCE_SCALE).astype(np.int16)
"""The same for new words."""

_LEAST_BITS, _MOST_BITS = 15, 20
_SLOTS_PER_WORD = 16
"""Places for each word that is known: with fewer, words that share one are weighed again and again."""
_ROW = np.dtype([("letters", np.int16), ("grammar", np.int16), ("forms", np.int16), ("flags", np.uint16)])
"""What is known of a word, in eight bytes that are looked up together."""
_WORD = re.compile(rf"[{UNSPACED_SCRIPTS}]|[^\W{UNSPACED_SCRIPTS}]+")
_MAX_WORD_UNITS = 128
"""UTF-16 units of a word that are looked at."""
OWN, STRANGE, USED, LONE = 1, 2, 4, 8
"""Flags: a function word of the expected language alone; of others, and not of this one; of this one too; one
letter, which formulas are full of."""


@dataclass(frozen=True, slots=True, eq=False)
class WordsOfBatch:
    """Every word of a batch weighed against its language (see `word_table`), for the screens of gibberish and
    of language drift. own: function words of the expected language alone.

    Of each text: whole: it has to be read as a whole; plain: much of it is in another script.
    """

    letters: NDArray[np.int16]
    grammar: NDArray[np.int16]
    forms: NDArray[np.int16]
    flags: NDArray[np.uint16]
    own: Flags
    whole: Flags
    plain: Flags


def weigh_words(batch: ScreenBatch) -> WordsOfBatch | None:
    """The weighed words; None where the expected language has no function words in a Latin script."""
    language, seen = normalize_language(batch.language or ""), batch.features
    if not (is_latin(language) and language in covered_languages()):
        return None
    letters, grammar, forms, flags = word_evidence_table(language)(seen)
    own = (flags & OWN) != 0
    broken = np.fromiter(map(_is_broken, seen.texts, _has_control(seen).tolist()), np.bool_)
    whole = (
        seen.may_have_astral
        | (_count_per_text(own, seen.word_fences) < MAX_OWN_WORDS)
        | (seen.non_latin_letters >= SENTENCE_BEYOND)
    )
    plain = seen.non_latin_letters >= MIN_FOREIGN_SCRIPT_SHARE * seen.counts
    return WordsOfBatch(letters, grammar, forms, flags, own, whole | broken, plain)


def _is_broken(text: str, has_control: bool) -> bool:
    """Whether the detector finds a broken character, or a token of no text. has_control: one from 0x80 on."""
    if ("<" in text or "[" in text) and UNUSED.search(text):
        return True
    if text.isascii() or not (has_control or any(mark in text for mark in _BROKEN)):
        return False
    return MOJIBAKE.search(text) is not None


def _has_control(seen: TextFeatures) -> Flags:
    """Which texts hold a control character from 0x80 on."""
    controls = np.flatnonzero(seen.codes - np.uint16(0x80) < 0x20)  # smaller codes wrap round
    return np.diff(np.searchsorted(controls, [*seen.text_starts.tolist(), len(seen.codes)])) > 0


def suspect_gibberish(batch: ScreenBatch) -> list[Suspicion | None]:
    """The texts in which one of the detector's sums may come near its bound."""
    known = batch.language is not None and can_detect_drift(batch.language)
    words = batch.once(weigh_words) if known else None
    if words is None:
        return [Suspicion(text) for text in batch.texts]
    seen = batch.features
    found = (
        _near_bounds(seen, words, _said_before(batch, REPEAT_WINDOW))
        | _near_novelty(seen, words, _said_before(batch, GENERATION))
        | (seen.non_latin_letters >= BEYOND)
        | words.whole
        | words.plain
    )
    return [
        Suspicion(text, plain) if suspected else None
        for text, suspected, plain in zip(seen.texts, found.tolist(), words.plain.tolist(), strict=True)
    ]


def _count_per_text(flags: Flags, fences: Indices) -> Indices:
    return np.diff(np.searchsorted(np.flatnonzero(flags), fences), prepend=0)


def _said_before(batch: ScreenBatch, window: int) -> Flags:
    """Which words were there so many words ago or less: the detector remembers them, and they say no more.

    A part of a compound is not: the detector remembers the whole.
    """
    seen = batch.features
    found = np.zeros(len(seen.words), np.bool_)
    plain, lags, _ = batch.word_lags
    found[plain] = lags < window
    joint = np.append(seen.kinds == JOINT, False)
    found &= ~(joint[seen.at + 1] | joint[seen.at - 1])
    return found


def _near_bounds(seen: TextFeatures, words: WordsOfBatch, said_before: Flags) -> Flags:
    """Where one of the detector's sums may come near its bound. What the detector leaves out counts here,
    but for what was said a moment ago."""
    capital = np.flatnonzero(seen.capital)
    letters, grammar, forms = words.letters.copy(), words.grammar.copy(), words.forms.copy()
    again = np.flatnonzero(said_before & ((letters > 0) | (grammar > 0)))
    letters[again] = grammar[again] = 0
    forms[again] = np.minimum(forms[again], 0)
    for evidence in (letters, grammar):
        evidence[capital] = evidence[capital] // 2
    grammar[seen.starts_with_digit] = _FIGURE
    every = _OF_KIND.take(seen.kinds)
    every[seen.at] = grammar
    by_letters = max_per_text(cusum(letters, seen.word_fences), seen.word_fences)
    by_grammar = max_per_text(cusum(every, seen.fences), seen.fences)
    forms[capital[~_shouted(seen, capital)]] = 0
    by_forms = max_per_text(cusum(forms, seen.word_fences), seen.word_fences)
    sums = {"letters": by_letters, "grammar": by_grammar, "forms": by_forms}
    found = np.zeros(len(seen.word_fences), np.bool_)
    for name, most in sums.items():
        found |= most >= SUSPICION_SHARE * EVIDENCE_SCALE * CUSUM_LIMITS[name]
    return found


def _near_novelty(seen: TextFeatures, words: WordsOfBatch, said_before: Flags) -> Flags:
    """Where the sum of new words may come near its bound. Any word with a capital may be a strange one."""
    new = np.where((words.forms > 0) | seen.capital, NEW_AND_STRANGE, NEW)
    new[(words.flags & (USED | STRANGE)) != 0] = FUNCTION_WORD
    new[said_before & (new > 0)] = AGAIN
    new[seen.starts_with_digit] = FIGURE
    every = _NEW_OF_KIND.take(seen.kinds)
    every[seen.at] = (new * EVIDENCE_SCALE).astype(np.int16)
    found: Flags = max_per_text(cusum(every, seen.fences), seen.fences) >= (
        SUSPICION_SHARE * EVIDENCE_SCALE * NOVELTY_LIMIT
    )
    return found


def _shouted(seen: TextFeatures, capital: Indices) -> Flags:
    """Which of some words with a capital have a second one."""
    second = seen.codes.take(seen.starts[capital].astype(np.int64) + 1, mode="clip")
    found: Flags = ((second >= ord("A")) & (second <= ord("Z"))) | ((second >= 0xC0) & (second <= 0xDE))
    return found


class WordEvidenceTable:
    """The evidence of the words of answers in one language, by their hashes, for whole texts at once.

    A direct-mapped cache: a word that is not in it is scored once, by the detectors' own scorer, and replaces
    the word in its place. A lookup costs a few nanoseconds, and memory is bounded by 13 MB.
    """

    def __init__(self, language: str | None) -> None:
        self._language = language
        self._lexicon = word_scorer(language)
        self._known = 0
        self._allocate(_LEAST_BITS)

    def _allocate(self, bits: int) -> None:
        self._bits, self._shift = bits, np.uint64(64 - bits)
        self._tags = np.zeros(1 << bits, np.uint64)
        self._rows = np.zeros(1 << bits, np.uint64)
        self._columns = self._rows.view(_ROW)

    def _grow(self) -> None:
        """Twice the places, as long as there are few for the words; all that is known moves with them."""
        known = np.flatnonzero(self._tags)
        tags, rows = self._tags[known], self._rows[known]
        self._allocate(self._bits + 1)
        places = (tags >> self._shift).astype(np.int64)
        self._tags[places], self._rows[places] = tags, rows

    def __call__(
        self, seen: TextFeatures
    ) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16], NDArray[np.uint16]]:
        """(letters', grammar's and forms' evidence, flags) of every word in lower case; a fence has none."""
        while self._known * _SLOTS_PER_WORD > 1 << self._bits and self._bits < _MOST_BITS:
            self._grow()
        places = (seen.words >> self._shift).astype(np.int64)
        found = self._unknown_words(seen, places)
        for i in found:
            self._add_words(seen, places, i)
        rows = self._rows.take(places)
        columns = rows.view(_ROW)
        # Of two new words of one place, the second has replaced the first.
        for i in self._unknown_words(seen, places) if found else ():
            columns[i] = self._score_word(seen, i)
        rows[seen.word_fences] = 0
        return columns["letters"], columns["grammar"], columns["forms"], columns["flags"]

    def _unknown_words(self, seen: TextFeatures, places: Indices) -> list[int]:
        new = np.flatnonzero(self._tags.take(places) != seen.words)
        if len(new) <= len(seen.word_fences):
            return []
        strangers: list[int] = np.setdiff1d(new, seen.word_fences, assume_unique=True).tolist()
        return strangers

    def _add_words(self, seen: TextFeatures, places: Indices, i: int) -> None:
        place = places[i]
        if self._tags[place] == seen.words[i]:
            return
        self._known += self._tags[place] == 0
        self._tags[place] = seen.words[i]
        self._columns[place] = self._score_word(seen, i)

    def _score_word(self, seen: TextFeatures, i: int) -> tuple[int, int, int, int]:
        """(letters', grammar's and forms' evidence, flags) of a word that was not weighed yet."""
        first = int(seen.starts[i])
        units = seen.codes[first : first + _MAX_WORD_UNITS].tobytes().decode("utf-16-le", "replace")
        match = _WORD.match(units)
        word = match.group().lower() if match else ""
        evidence = (self._lexicon.known.get(word) or self._lexicon.score(word)) if word else NOTHING
        users = languages_of(word)
        own = OWN if users == (self._language,) else 0
        own |= LONE if len(word) == 1 else 0
        flags = own | (USED if self._language in users else STRANGE if users else 0)
        letters, grammar, forms = (
            math.ceil(each * EVIDENCE_SCALE) for each in (evidence.letters, evidence.grammar, evidence.forms)
        )
        return letters, grammar, forms, flags


def word_evidence_table(language: str | None) -> WordEvidenceTable:
    """The table of a language, shared by all its answers."""
    return _word_evidence_table(language, catalog())


@lru_cache(maxsize=16)
def _word_evidence_table(language: str | None, _known: Catalog) -> WordEvidenceTable:
    return WordEvidenceTable(language)
