"""What one word says for and against gibberish.

Two log-likelihood ratios a word: its letters against the trigrams of the language (`letters`), and
whether it is one of the function words that make up a fifth to two fifths of any prose (`grammar`).
Both are positive where gibberish is the likelier source. Signs, figures and line breaks belong to
lists, tables, formulas and code: they speak against. Evidence is remembered by word, since most words
of a text are not new.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from stresstest.detectors.function_words import LISTED, languages_of
from stresstest.detectors.ngrams import characters, expected, trigrams, usualness
from stresstest.detectors.scripts import DENSE, SCRIPTS_OF, is_latin, script_of

UNIT = re.compile(
    r"(?:[^\W_]|[\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff])+(?:[’'\-](?:[^\W_]|[\u0900-\u0dff])+)*|\n|[^\w\s]|_+"
)
"""A word (with its apostrophes and hyphens), a line break or a sign."""

_HARAKAT = re.compile("[\u064b-\u0652\u0640]")
"""Arabic's short vowels, which prose leaves out and poems write."""
_JOINT = re.compile("[’'-]")
_HOME = {
    "CYRILLIC": ("ru", "uk", "bg"),
    "ARABIC": ("ar", "fa", "ur"),
    "DEVANAGARI": ("hi", "mr", "ne"),
    "GREEK": ("el",),
    "HEBREW": ("he",),
    "BENGALI": ("bn",),
    "TAMIL": ("ta",),
    "TELUGU": ("te",),
}
"""Languages by which a word of a foreign script is judged."""
_GRAMMAR_SHARE = {"id": 0.3, "vi": 0.3, "tr": 0.2, "ru": 0.26, "ar": 0.2, "hi": 0.33, "pl": 0.25}
_USUAL_SHARE = 0.4
_NOISE_SHARE = 0.09
"""Function words in gibberish, by chance."""
_SLACK = {"LATIN": 1.1, "ARABIC": 1.35, "CYRILLIC": 1.4}
_OTHER_SLACK = 1.8
"""How far below its language a word may stand, log10 a trigram: names, loan words, rare words."""
_OWN_SLACK = {"tr": 0.75, "id": 0.75, "vi": 0.55, "de": 0.95, "it": 0.95}
"""The same for the words of languages whose spelling is regular: their content words stand 0.1 (vi) to 0.5
below the mean of the language, pieces of words about 1."""
_PAIR = (-0.6, 0.35)
"""Evidence of a pair of Hangul syllables that Korean's profile lists, and of one that it does not:
76 % of the pairs in Korean prose are listed, 22 % after shuffling."""
_IDEOGRAPH = (-0.7, 0.7)
"""The same for single ideographs and Chinese: 80 % in prose, 5 % of all ideographs."""
_LEAST_RUN, _MOST_RUN = -4.0, 4.0
_SLOPE, _LEAST, _MOST = 1.3, -1.5, 2.0
_SYMBOL = 3
"""Greek letters so few are a formula: "μm", "Δt"."""
_SHORT = 4
"""Shorter words prove proportionally less."""
_REMEMBERED = 20_000
_CAPITAL = 0.3
"""What a capitalised word is worth: it may be a name, and names have letters and grammar of their own."""


class Evidence(NamedTuple):
    """letters, grammar: log-likelihood ratios for gibberish. script: of a word's letters, "" for no word.

    mixed: letters of several scripts in one word.
    """

    letters: float
    grammar: float
    script: str
    mixed: bool = False


_FULL_STOP = Evidence(0.0, -0.1, "")
_SIGN = Evidence(-0.3, -0.6, "")
_BREAK = Evidence(-1.0, -2.0, "")
_FIGURE = Evidence(-0.5, -1.0, "")


def slack(script: str) -> float:
    """How far below its language a word of this script may stand, log10 a trigram."""
    return _SLACK.get(script, _OTHER_SLACK)


def usual_share(language: str | None) -> float:
    """Share of listed function words among the words of a language's prose."""
    return _GRAMMAR_SHARE.get(language or "", _USUAL_SHARE)


def parts(word: str) -> list[str]:
    """A word at its apostrophes and hyphens: "dell'arte" → "dell", "arte"."""
    return _JOINT.split(word)


class Lexicon:
    """Evidence of words in answers wanted in one language (None: any that has function words here).

    known: what was weighed already.
    """

    def __init__(self, language: str | None) -> None:
        self._language = language
        latin = [language] if language and is_latin(language) else ["en"] if language else sorted(LISTED)
        self._latin = tuple(code for code in dict.fromkeys([*latin, "en"]) if is_latin(code))
        self.known: dict[str, Evidence] = {}
        self._only_latin = language is not None and is_latin(language)
        self._judges_grammar = language is None or language in LISTED

    def weigh(self, unit: str) -> Evidence:
        """The evidence of one unit of `UNIT`, remembered in `known`, where the caller looks first."""
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        found = self.known[unit] = self._weigh(unit)
        return found

    def languages(self, script: str) -> tuple[str, ...]:
        """Languages whose trigrams judge a word of this script."""
        if script == "LATIN":
            return self._latin
        if self._language and script in SCRIPTS_OF.get(self._language, ()):
            return (self._language,)
        return _HOME.get(script, ())

    def _weigh(self, unit: str) -> Evidence:
        plain = unit.isascii() and unit.isalpha()
        if not plain and (any(char.isdigit() for char in unit) or unit.count("-") > 1):
            return _FIGURE
        if not unit[0].isalpha():
            return _FULL_STOP if unit in ".!?…।؟" else _BREAK if unit == "\n" else _SIGN
        scripts = {"LATIN"} if plain else {script_of(char) for char in unit if char.isalpha()}
        if "GREEK" in scripts and len(unit) <= _SYMBOL and self._language != "el":
            return _FIGURE
        script = script_of(unit[0])
        # Latin words stand without blanks in Chinese, Chinese ones do not in Latin prose.
        mixed = len(scripts if self._only_latin else scripts - DENSE) > 1
        word = _HARAKAT.sub("", unit).lower() if script == "ARABIC" else unit.lower()
        cased = 1.0 if unit == word else 0.0 if unit[1:] != unit[1:].lower() else _CAPITAL
        return Evidence(
            self._letters(word, script) * cased, self._grammar(word, script) * cased, script, mixed
        )

    def _letters(self, word: str, script: str) -> float:
        if script in DENSE or script == "THAI":
            return self._dense(word, script)
        if len(word) < 2 or (self._language and script not in ("LATIN", *SCRIPTS_OF.get(self._language, ()))):
            return 0.0
        surplus = [
            usualness(word, language) - expected(language)
            for language in self.languages(script)
            if trigrams(language)
        ]
        if not surplus:
            return 0.0
        value = max(_LEAST, min(_MOST, _SLOPE * (-max(surplus) - self._slack(script))))
        return value * min(1.0, len(word) / _SHORT)

    def _slack(self, script: str) -> float:
        return _OWN_SLACK.get(self._language or "", slack(script)) if script == "LATIN" else slack(script)

    def _dense(self, run: str, script: str) -> float:
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

    def _grammar(self, word: str, script: str) -> float:
        if script in DENSE:
            return max(_LEAST_RUN, -0.5 * len(word))
        language = self._language
        if script == "LATIN" and language is not None and not is_latin(language):
            language = "en"
        elif not self._judges_grammar or script not in ("LATIN", *SCRIPTS_OF.get(language or "", ())):
            return 0.0
        users = [user for part in parts(word) for user in languages_of(part)]
        share = usual_share(language)
        if users if language is None else language in users:
            return math.log(_NOISE_SHARE / share)
        return math.log((1 - _NOISE_SHARE) / (1 - share))


@lru_cache(maxsize=16)
def lexicon(language: str | None) -> Lexicon:
    """The lexicon of a language, shared by all its answers."""
    return Lexicon(language)
