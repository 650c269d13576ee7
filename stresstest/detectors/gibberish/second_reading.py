"""A suspect stretch read again, as each language that it might be in: what is in none is gibberish."""

from __future__ import annotations

import re
from collections import Counter

from stresstest.detectors.gibberish.word_evidence import (
    expected_score,
    function_word_share,
    mean_log_probability,
    script_slack,
    trigrams,
    word_parts,
)
from stresstest.detectors.identification.votes import (
    identified_languages,
    langdetect_scores,
    screening_identifier,
    widest_identifier,
)
from stresstest.detectors.languages.catalog import scripts_of
from stresstest.detectors.languages.function_words import covered_languages, languages_of
from stresstest.detectors.text.scripts import DENSE_SCRIPTS, is_latin, latin_part

_LIST = re.compile(r"(?:[\w+-]+,\s+){3,}")
"""Three single words or more, one after another, each with a comma behind it."""
MAX_CANDIDATES = 3
SLACK_SHARE = 0.7
"""Of the slack of a single word (`word_evidence.script_slack`), what the mean of many may use."""
MIN_FUNCTION_WORD_SHARE = 0.5
"""Least share of a language's function words in prose, of their usual share."""
CONFIDENT_PROBABILITY = 0.9
"""Probability at which a language without a list of function words is believed."""
CERTAIN_PROBABILITY = 0.999
"""Probability, by both identifiers, at which another language than the wanted one is believed with few of its
function words and unusual letters: Turkish and Vietnamese are like that. It may be drift, not gibberish."""

MIN_PART_WORDS, MAJORITY_PROBABILITY = 3, 0.5
"""Of each third of a stretch in a rare language: words at least, and the probability of that language."""
MIN_RECURRING_SHARE = 0.13
"""Of the words of prose, those that are there more than once."""
NO_LANGUAGE = "zxx"
"""py3langid's code for content without a language."""


def is_enumeration(text: str, words: list[str]) -> bool:
    """Whether half of the words are items of lists: names of programs, of plants, of people."""
    items = {word.strip() for match in _LIST.finditer(text) for word in match[0].split(",")}
    return 2 * sum(word in items for word in words) >= len(words)


def is_readable(words: list[str], language: str | None) -> bool:
    """Whether the words could be prose of the expected language or of one that identifiers see in them."""
    if len(words) < 4:
        return True
    lower = [word.lower() for word in words]
    if language and _fits_language(lower, language):
        return True
    text = " ".join(words)
    ranked = screening_identifier(language or "en").rank(text)[:MAX_CANDIDATES]
    if any(
        code in covered_languages() and code in identified_languages() and _fits_language(lower, code)
        for code, _ in ranked
    ):
        return True
    if _is_rare_language(lower):
        return True
    first, probability = ranked[0]
    if first == language or not _spelling_fits(lower, first, 1.0):
        return False
    vote = langdetect_scores(text).get(first, 0.0)
    if min(probability, vote) >= CERTAIN_PROBABILITY:
        return True
    return first not in covered_languages() and vote >= CONFIDENT_PROBABILITY and _spelling_fits(lower, first)


def recurs(words: list[str]) -> bool:
    """Whether so many of the words come again as in prose of any language, which has words of grammar.

    Of 40 to 120 words, 15 to 40 in a hundred do in prose (romanised Hindi, Tamil, Bengali, Telugu, Punjabi
    and five languages more), of invented words and fragments 0 to 8, in one case of a hundred 17.
    """
    counts = Counter(word.lower() for word in words)
    return sum(n for n in counts.values() if n > 1) >= MIN_RECURRING_SHARE * len(words)


def _is_rare_language(words: list[str]) -> bool:
    """Whether the words are in a language of which nothing here knows the words or the spelling, such as
    Kazakh or Icelandic: their thirds are all taken for the same one, which those of gibberish never are."""
    size = len(words) // 3
    if size < MIN_PART_WORDS:
        return False
    parts = (" ".join(words[at : at + size]) for at in (0, size, 2 * size))
    votes = [widest_identifier().classify(part) for part in parts]
    language = votes[0][0]
    known = language in identified_languages() and trigrams(language)
    agree = all(code == language and probability >= MAJORITY_PROBABILITY for code, probability in votes)
    return agree and not known and language != NO_LANGUAGE


def is_spelled_like(text: str, language: str | None) -> bool:
    """Whether the Latin words of a text are spelled like those of `language`; True where not known."""
    if not language or not is_latin(language) or not trigrams(language):
        return True
    words = latin_part(text).lower().split()
    if not words:
        return True
    return mean_word_score(words, language) >= expected_score(language) - script_slack("LATIN")


def mean_word_score(words: list[str], language: str) -> float:
    """Mean of `mean_log_probability` over lower-case words."""
    return sum(mean_log_probability(word, language) for word in words) / len(words)


def _fits_language(words: list[str], language: str) -> bool:
    """Whether the letters fit `language` and, where its function words are known, so does the grammar."""
    if not _spelling_fits(words, language):
        return False
    if language not in covered_languages():
        return True
    grammar = sum(any(language in languages_of(part) for part in word_parts(word)) for word in words)
    return grammar >= MIN_FUNCTION_WORD_SHARE * function_word_share(language) * len(words)


def _spelling_fits(words: list[str], language: str, share: float = SLACK_SHARE) -> bool:
    """Whether the letters fit `language`; False where that cannot be told. share: of a word's slack."""
    dense = scripts_of(language)[0] in DENSE_SCRIPTS
    if not trigrams(language) or dense:
        return False
    script = scripts_of(language)[0]
    return mean_word_score(words, language) >= expected_score(language) - share * script_slack(script)
