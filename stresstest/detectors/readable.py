"""A second reading of a suspect stretch: is it prose in any language at all?"""

from __future__ import annotations

from stresstest.detectors.function_words import LISTED, languages_of
from stresstest.detectors.langid import SCREENED, langdetect_votes, screen
from stresstest.detectors.ngrams import expected, trigrams, usualness
from stresstest.detectors.scripts import DENSE, SCRIPTS_OF, is_latin, latin_part
from stresstest.detectors.word_evidence import parts, slack, usual_share

CANDIDATES = 3
SLACK_SHARE = 0.7
"""Of the slack of a single word (`word_evidence.slack`), what the mean of many may use."""
GRAMMAR = 0.5
"""Least share of a language's function words in prose, of their usual share."""
SURE = 0.9
"""Probability at which a language without a list of function words is believed."""
PLAIN = 0.999
"""Probability, by both identifiers, at which another language than the wanted one is believed with few of its
function words and unusual letters: Turkish and Vietnamese are like that. It may be drift, not gibberish."""


def readable(words: list[str], language: str | None) -> bool:
    """Whether the words could be prose of the wanted language or of one that the identifiers see in them."""
    if len(words) < 4:
        return True
    lower = [word.lower() for word in words]
    if language and _in(lower, language):
        return True
    text = " ".join(words)
    ranked = screen(language or "en").rank(text)[:CANDIDATES]
    if any(code in LISTED and code in SCREENED and _in(lower, code) for code, _ in ranked):
        return True
    first, probability = ranked[0]
    if first == language or not _spelled(lower, first, 1.0):
        return False
    vote = langdetect_votes(text).get(first, 0.0)
    if min(probability, vote) >= PLAIN:
        return True
    return first not in LISTED and vote >= SURE and _spelled(lower, first)


def spelled(text: str, language: str | None) -> bool:
    """Whether the Latin words of a text are spelled like those of `language`; True where not known."""
    if not language or not is_latin(language) or not trigrams(language):
        return True
    words = latin_part(text).lower().split()
    if not words:
        return True
    return mean_usualness(words, language) >= expected(language) - slack("LATIN")


def mean_usualness(words: list[str], language: str) -> float:
    """Mean of `usualness` over lower-case words."""
    return sum(usualness(word, language) for word in words) / len(words)


def _in(words: list[str], language: str) -> bool:
    """Whether the letters fit `language` and, where its function words are known, so does the grammar."""
    if not _spelled(words, language):
        return False
    if language not in LISTED:
        return True
    grammar = sum(any(language in languages_of(part) for part in parts(word)) for word in words)
    return grammar >= GRAMMAR * usual_share(language) * len(words)


def _spelled(words: list[str], language: str, share: float = SLACK_SHARE) -> bool:
    """Whether the letters fit `language`; False where that cannot be told. share: of a word's slack."""
    dense = SCRIPTS_OF.get(language, ("LATIN",))[0] in DENSE
    if not trigrams(language) or dense:
        return False
    script = SCRIPTS_OF.get(language, ("LATIN",))[0]
    return mean_usualness(words, language) >= expected(language) - share * slack(script)
