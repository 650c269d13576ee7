"""The cheapest language check: function words, the short words of grammar that a language uses constantly.

A statistical identifier costs about fifty microseconds a passage, and nearly every passage of a healthy
answer is clearly in the expected language. So passages with many of its function words and almost none of
another language are accepted without the identifier. Only words that a single language uses are evidence
for that language ("la", "de", "con", "que" are not); all of them are evidence of grammar, which lists of
names, word fragments and invented words lack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stresstest.detectors.languages.catalog import Catalog, per_catalog

_WORD = re.compile(r"[^\W\d_]+")
_WORD_WITH_SIGNS = re.compile(r"[^\W\d_][\w\u0900-\u097f]*")
"""Devanagari's vowel signs are no word characters for `re`."""
_MIN_WORDS = 8
_MIN_OWN_WORDS = 3
_MIN_EXCLUSIVE_WORDS = 2
_OWN_SHARE = 0.15
_RIVAL_SHARE = 0.75
_FOREIGN_SHARE = 0.15
"""Of the expected language's words: with more exclusive words of other languages the passage is not clear."""


@per_catalog
def _languages_by_word(known: Catalog) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language in known.languages.values():
        for word in language.function_words:
            found[word] = (*found.get(word, ()), language.code)
    return found


@per_catalog
def _word_sets(known: Catalog) -> dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]]:
    """Language → the words that it uses, that only it uses, and that only one other language uses."""
    users_of = _languages_by_word()
    return {
        code: (
            frozenset(word for word, users in users_of.items() if code in users),
            frozenset(word for word, users in users_of.items() if users == (code,)),
            frozenset(word for word, users in users_of.items() if len(users) == 1 and code not in users),
        )
        for code, language in known.languages.items()
        if language.function_words
    }


@per_catalog
def covered_languages(known: Catalog) -> frozenset[str]:
    """Codes of the languages whose function words are known."""
    return frozenset(code for code, language in known.languages.items() if language.function_words)


@dataclass(frozen=True, slots=True)
class FunctionWordCount:
    """Function words of a text, by language. words: all words. uses: used there; only: there alone."""

    words: int
    uses: dict[str, int]
    exclusive: dict[str, int]

    def clearly_in(self, wanted: str) -> bool:
        """Whether they leave no doubt about `wanted` (ISO 639-1)."""
        own = self.uses.get(wanted, 0)
        if own < _MIN_OWN_WORDS or own < _OWN_SHARE * self.words:
            return False
        rival = max((n for language, n in self.uses.items() if language != wanted), default=0)
        foreign = sum(self.exclusive.values()) - self.exclusive.get(wanted, 0)
        return rival <= _RIVAL_SHARE * own and foreign <= _FOREIGN_SHARE * own


def languages_of(word: str) -> tuple[str, ...]:
    """The listed languages that use this lower-case word all the time."""
    return _languages_by_word().get(word, ())


def extract_words(text: str) -> list[str]:
    """The words of a text as it writes them."""
    signs = not text.isascii() and "\u0900" <= max(text) <= "\u097f"
    return (_WORD_WITH_SIGNS if signs else _WORD).findall(text)


def count_function_words(text: str) -> FunctionWordCount:
    """Count the function words of `text`."""
    words = extract_words(text.lower())
    users_of = _languages_by_word()
    uses: dict[str, int] = {}
    only: dict[str, int] = {}
    for word in words:
        languages = users_of.get(word)
        if languages is None:
            continue
        for language in languages:
            uses[language] = uses.get(language, 0) + 1
        if len(languages) == 1:
            only[languages[0]] = only.get(languages[0], 0) + 1
    return FunctionWordCount(len(words), uses, only)


def quick_language_check(text: str, wanted: str) -> bool:
    """A faster, stricter :meth:`FunctionWordCount.clearly_in`, for a language of `covered_languages`."""
    words = _WORD.findall(text.lower())
    uses, exclusive, foreign = _word_sets()[wanted]
    own = [word for word in words if word in uses]
    if len(words) < _MIN_WORDS or len(own) < _MIN_OWN_WORDS or len(own) < _OWN_SHARE * len(words):
        return False
    if len([word for word in own if word in exclusive]) < _MIN_EXCLUSIVE_WORDS:
        return False
    return len([word for word in words if word in foreign]) <= _FOREIGN_SHARE * len(own)
