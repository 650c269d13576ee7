"""The evidence of one word for and against gibberish.

Three log-likelihood ratios a word: its letters against the trigrams of the language (`letters`), whether it
is one of the function words that make up a fifth to two fifths of any prose (`grammar`), and whether the
language has such a word at all (`forms`, where its word forms are known). They are positive where gibberish
is the likelier source. Signs, figures and line breaks belong to lists, tables, formulas and
code: they count against it. Evidence is remembered by word, since most words of a text recur.

The trigrams are those of langdetect's character profiles, about 1,500 a language, counted over its Wikipedia;
a table takes a few milliseconds and is built on first use. Scripts without spaces have too few bigrams for
that and are judged by the listed ones.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from stresstest.detectors.languages.catalog import Catalog, catalog, per_catalog, scripts_of
from stresstest.detectors.languages.function_words import covered_languages, languages_of
from stresstest.detectors.languages.language import LATIN, USUAL_SHARE
from stresstest.detectors.languages.word_forms import (
    MIN_LETTERS,
    fold,
    languages_with_forms,
    word_forms,
)
from stresstest.detectors.text.scripts import DENSE_SCRIPTS, is_latin, script_of

UNIT_PATTERN = re.compile(
    r"(?:[^\W_]|[\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff])+(?:[’'\-](?:[^\W_]|[\u0900-\u0dff])+)*|\n|[^\w\s]|_+"
)
"""A word (with its apostrophes and hyphens), a line break or a sign."""

_HARAKAT = re.compile("[\u064b-\u0652\u0640]")
"""Arabic's short vowels, which prose leaves out and poems write."""
_JOINT = re.compile("[’'-]")
_NOISE_SHARE = 0.09
"""Function words in gibberish, by chance."""
_SLACK = {"LATIN": 1.1, "ARABIC": 1.35, "CYRILLIC": 1.4}
_OTHER_SLACK = 1.8
"""How far below its language a word may stand, log10 a trigram: names, loan words, rare words. A language
whose spelling is regular has a slack of its own (`Language.spelling_slack`): its content words are 0.1 (vi)
to 0.5 below the mean of the language, pieces of words about 1."""
_PAIR = (-0.6, 0.35)
"""Evidence of a pair of Hangul syllables that Korean's profile lists, and of one that it does not:
76 % of the pairs in Korean prose are listed, 22 % after shuffling."""
_IDEOGRAPH = (-0.7, 0.7)
"""The same for single ideographs and Chinese: 80 % in prose, 5 % of all ideographs."""
_LEAST_RUN, _MOST_RUN = -4.0, 4.0
_SLOPE, _LEAST, _MOST = 1.3, -1.5, 2.0
_MAX_FORMULA_LETTERS = 3
"""Greek letters so few are a formula: "μm", "Δt"."""
_SHORT_WORD_LETTERS = 4
"""Shorter words prove proportionally less."""
_REMEMBERED = 20_000
_UNKNOWN, _KNOWN = 2.0, -0.25
"""Evidence of a word that the language does not have and of one that it has: 1 % of the distinct words of
four letters or more in healthy French and Italian are not listed, names apart, and 0.2 % in English; in what
a model writes that has hardly learnt the language, 20 to 70 % are not."""
MIN_SHOUTED_LETTERS = 6
_FORM = re.compile(r"[^\W\d_]+(?![’'])(?=\W|$)")
"""A part of a word that is listed as it is: not "dell" of "dell'arte", and not "wasn" of "wasn't"."""
_CAPITALIZED_WEIGHT = 0.3
"""What a capitalised word is worth: it may be a name, and names have letters and grammar of their own."""

UNSEEN_LOG10 = -6.0
"""log10 of the probability that a trigram in no table counts with."""
_FOLDED = dict.fromkeys(range(0x1EA0, 0x1F00), "ể") | {0x06CC: "ي", 0x0219: "ş", 0x021B: "ţ"}
"""Letters as langdetect's profiles hold them: all of the Vietnamese block as one, the Persian ye as the
Arabic one, Romanian commas as cedillas."""


class WordEvidence(NamedTuple):
    """letters, grammar, forms: log-likelihood ratios for gibberish. script: of a word's letters, "" for no
    word.

    mixed: letters of several scripts in one word.
    """

    letters: float
    grammar: float
    script: str
    mixed: bool = False
    forms: float = 0.0


NOTHING = WordEvidence(0.0, 0.0, "")
_FULL_STOP = WordEvidence(0.0, -0.1, "")
_SIGN = WordEvidence(-0.3, -0.6, "", forms=-0.3)
_BREAK = WordEvidence(-1.0, -2.0, "", forms=-1.0)
_FIGURE = WordEvidence(-0.5, -1.0, "", forms=-0.5)


@per_catalog
def _script_languages(known: Catalog) -> dict[str, tuple[str, ...]]:
    """Script → the languages by which a word of it is judged inside text of another script."""
    found: dict[str, tuple[str, ...]] = {}
    for code, language in known.languages.items():
        if language.judges_its_script:
            found[language.scripts[0]] = (*found.get(language.scripts[0], ()), code)
    return found


@per_catalog
def _rarer_latin(known: Catalog) -> tuple[str, ...]:
    """The languages in Latin script whose function words are not known."""
    others = known.languages.keys() - covered_languages()
    return tuple(sorted(code for code in others if LATIN in scripts_of(code)))


def _surplus(word: str, languages: Iterable[str]) -> float | None:
    """How far a word stands above the mean of the language that it fits best; None without a profile."""
    return max(
        (mean_log_probability(word, code) - expected_score(code) for code in languages if trigrams(code)),
        default=None,
    )


def script_slack(script: str) -> float:
    """How far below its language a word of this script may stand, log10 a trigram."""
    return _SLACK.get(script, _OTHER_SLACK)


def function_word_share(language: str | None) -> float:
    """Share of listed function words among the words of a language's prose."""
    known = catalog().languages.get(language or "")
    return USUAL_SHARE if known is None else known.function_word_share


def word_parts(word: str) -> list[str]:
    """A word at its apostrophes and hyphens: "dell'arte" → "dell", "arte"."""
    return _JOINT.split(word)


def is_shouted(word: str) -> bool:
    """Whether a word is in capitals and too long for an abbreviation."""
    return len(word) >= MIN_SHOUTED_LETTERS and word.isupper()


class WordScorer:
    """Evidence of words in answers wanted in one language (None: any that has function words here).

    known: what was weighed already. novelty: the same of `NoveltySum`.
    """

    def __init__(self, language: str | None) -> None:
        self._language = language
        writes_latin = language is not None and LATIN in scripts_of(language)
        judging = [language] if language is not None and writes_latin else sorted(covered_languages())
        latin = [code for code in dict.fromkeys([*judging, "en"]) if LATIN in scripts_of(code)]
        # Without a profile of its own, what is no English would be no word.
        self._latin = () if writes_latin and not trigrams(language or "") else tuple(latin)
        self.known: dict[str, WordEvidence] = {}
        self.novelty: dict[str, float] = {}
        self._only_latin = language is not None and is_latin(language)
        self._forms = word_forms(language) if language else None
        self._judges_grammar = language is None or language in covered_languages()
        self._scripts = (LATIN, *scripts_of(language))
        self._reads_english = language is not None and not writes_latin
        self._english, self._own = _grammar_ratios("en"), _grammar_ratios(language)
        self._latin_slack = self._slack(LATIN)

    @property
    def knows_forms(self) -> bool:
        """Whether the language's word forms are known."""
        return self._forms is not None

    def score(self, unit: str) -> WordEvidence:
        """The evidence of one unit of `UNIT_PATTERN`, remembered in `known`, where the caller looks first."""
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        found = self.known[unit] = self._score_unit(unit)
        return found

    def languages(self, script: str) -> tuple[str, ...]:
        """Languages whose trigrams judge a word of this script."""
        if script == "LATIN":
            return self._latin
        if self._language and script in scripts_of(self._language):
            return (self._language,)
        return _script_languages().get(script, ())

    def _score_unit(self, unit: str) -> WordEvidence:
        plain = unit.isascii() and unit.isalpha()
        if not plain and (any(char.isdigit() for char in unit) or unit.count("-") > 1):
            return _FIGURE
        if not unit[0].isalpha():
            return _FULL_STOP if unit in ".!?…।؟" else _BREAK if unit == "\n" else _SIGN
        scripts = {"LATIN"} if plain else {script_of(char) for char in unit if char.isalpha()}
        if "GREEK" in scripts and len(unit) <= _MAX_FORMULA_LETTERS and self._language != "el":
            return _FIGURE
        script = script_of(unit[0])
        # Latin words stand without blanks in Chinese, Chinese ones do not in Latin prose.
        mixed = len(scripts if self._only_latin else scripts - DENSE_SCRIPTS) > 1
        word = _HARAKAT.sub("", unit).lower() if script == "ARABIC" else unit.lower()
        cased = 1.0 if unit == word else 0.0 if unit[1:] != unit[1:].lower() else _CAPITALIZED_WEIGHT
        return WordEvidence(
            self._letter_evidence(word, script) * cased,
            self._grammar_evidence(word, script) * cased,
            script,
            mixed,
            self._form_evidence(unit) if script == LATIN and (cased == 1.0 or is_shouted(unit)) else 0.0,
        )

    def _form_evidence(self, word: str) -> float:
        """Whether the language has the word; 0 for a short one and for one that only another language has."""
        if self._forms is None:
            return 0.0
        parts = [part for part in map(fold, _FORM.findall(word)) if len(part) >= MIN_LETTERS]
        strange = [part for part in parts if part not in self._forms and not languages_of(part)]
        if not strange:
            return _KNOWN if parts else 0.0
        others = [word_forms(code) for code in languages_with_forms() if code != self._language]
        borrowed = all(any(other is not None and part in other for other in others) for part in strange)
        return 0.0 if borrowed else _UNKNOWN

    def _letter_evidence(self, word: str, script: str) -> float:
        if script in DENSE_SCRIPTS or script == "THAI":
            return self._dense_script_evidence(word, script)
        if len(word) < 2 or (self._language and script not in self._scripts):
            return 0.0
        surplus = _surplus(word, self.languages(script))
        if surplus is None:
            return 0.0
        slack = self._latin_slack if script == LATIN else self._slack(script)
        if surplus < -slack and script == LATIN and self._language is None:
            surplus = max(surplus, _surplus(word, _rarer_latin()) or surplus)
        value = max(_LEAST, min(_MOST, _SLOPE * (-surplus - slack)))
        return value * min(1.0, len(word) / _SHORT_WORD_LETTERS)

    def _slack(self, script: str) -> float:
        known = catalog().languages.get(self._language or "") if script == LATIN else None
        own = None if known is None else known.spelling_slack
        return script_slack(script) if own is None else own

    def _dense_script_evidence(self, run: str, script: str) -> float:
        """Letters without spaces or nearly so: by what the profiles of Korean and Chinese list."""
        if script == "HANGUL":
            listed = characters("ko")
            pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
            total = sum(_PAIR[pair not in listed] for pair in pairs)
        elif script == "HAN" and self._language == "zh":
            listed = characters("zh")
            total = sum(_IDEOGRAPH[char not in listed] for char in run)
        else:
            return 0.0
        return max(_LEAST_RUN, min(_MOST_RUN, total))

    def _grammar_evidence(self, word: str, script: str) -> float:
        if script in DENSE_SCRIPTS:
            return max(_LEAST_RUN, -0.5 * len(word))
        language: str | None = "en"
        if script == LATIN and self._reads_english:
            used, other = self._english
        elif not self._judges_grammar or script not in self._scripts:
            return 0.0
        else:
            language, (used, other) = self._language, self._own
        parts = [word] if word.isalpha() else word_parts(word)
        users = [user for part in parts for user in languages_of(part)]
        return used if (users if language is None else language in users) else other


def _grammar_ratios(language: str | None) -> tuple[float, float]:
    """Log-likelihood ratios for gibberish of a function word of the language, and of any other word."""
    share = function_word_share(language)
    return math.log(_NOISE_SHARE / share), math.log((1 - _NOISE_SHARE) / (1 - share))


def word_scorer(language: str | None) -> WordScorer:
    """The lexicon of a language, shared by all its answers."""
    return _word_scorer(language, catalog())


@lru_cache(maxsize=16)
def _word_scorer(language: str | None, _known: Catalog) -> WordScorer:
    return WordScorer(language)


@lru_cache(maxsize=64)
def trigrams(language: str) -> dict[str, float]:
    """Trigram of lower-case letters and word borders (blanks) → log10 of its probability.

    Empty for a language without a profile. The rarest listed trigrams stand at about -4.5.
    """
    counts: dict[str, int] = {}
    total = 0
    for frequencies, sizes in _profiles(language):
        total += sizes[2]
        for gram, value in frequencies.items():
            if len(gram) == 3:
                folded = gram.lower()
                counts[folded] = counts.get(folded, 0) + value
    return {gram: math.log10(value / total) for gram, value in counts.items()}


@lru_cache(maxsize=64)
def expected_score(language: str) -> float:
    """Mean usualness of the language's own text; 0 for a language without a profile."""
    grams = trigrams(language)
    mass = sum(10**value for value in grams.values())
    if not mass:
        return 0.0
    # The trigrams below the profile's cut are at home in the language too, at about the cut.
    return sum(value * 10**value for value in grams.values()) + (1.0 - min(mass, 1.0)) * (UNSEEN_LOG10 + 0.8)


@lru_cache(maxsize=8)
def characters(language: str) -> frozenset[str]:
    """Single characters and pairs that a profile lists: for scripts without spaces."""
    return frozenset(gram for frequencies, _ in _profiles(language) for gram in frequencies if len(gram) < 3)


def mean_log_probability(word: str, language: str) -> float:
    """Mean log10 probability of the trigrams of a lower-case word: about -3 for words, -5 for noise.

    0 for a language without a profile.
    """
    grams = trigrams(language)
    if not grams:
        return 0.0
    padded = f" {word if word.isascii() else word.translate(_FOLDED)} "
    count = len(padded) - 2
    return sum([grams.get(padded[i : i + 3], UNSEEN_LOG10) for i in range(count)]) / count


def _profiles(language: str) -> list[tuple[dict[str, int], list[int]]]:
    folder = resources.files("langdetect").joinpath("profiles")
    found = []
    known = catalog().languages.get(language)
    shipped = {path.name: path for path in folder.iterdir()}  # a language may be any text, and no path
    for name in (known and known.trigram_profiles) or (language,):
        if name in shipped and shipped[name].is_file():
            data = json.loads(shipped[name].read_text(encoding="utf-8"))
            found.append((data["freq"], data["n_words"]))
    return found
