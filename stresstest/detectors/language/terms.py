"""Foreign words that are no evidence of an answer's language: names, titles, terms, labels, glossaries."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.gibberish.word_evidence import function_word_share
from stresstest.detectors.languages.function_words import (
    FunctionWordCount,
    count_function_words,
    covered_languages,
    extract_words,
)
from stresstest.detectors.text.scripts import is_latin, script_weights, weighted_length

TITLE_SHARE = 0.6
"""Share of capitalised words that makes a title or a list of names."""
GRAMMAR, ITEM_GRAMMAR = 0.08, 0.2
"""Least share of function words in foreign prose, and in list items, where terms are common; for languages
with another share than English (`function_word_share`), in proportion."""
TERM_WORDS, ITEM_WORDS = 4, 6
"""List items of fewer words are terms; below the second limit also if they have no function words."""
MIN_SENTENCE_WORDS = 5
"""So many words and a full stop are a sentence, however few function words it has."""
_STOPS = (".", "!", "?", "…", ":")
LABEL_WORDS, LABEL_SIZE = 2, 12
"""Nothing longer is a label ("yes", "true", "not given") where several follow one another."""
MIN_LABELS = 3


def is_uninformative(parts: Sequence[str], language: str | None, *, items: int) -> bool:
    """Whether a foreign passage is only names, titles, terms, labels or a glossary.

    parts: its sentences. items: how many of them are list items.
    """
    text = " ".join(parts)
    counted = count_function_words(text)
    if are_labels(parts) or _is_title(text, language, counted):
        return True
    if language not in covered_languages() or not is_latin(language) or all(map(_is_sentence, parts)):
        return False
    own = counted.exclusive.get(language, 0)
    grammar = counted.uses.get(language, 0) * function_word_share("en") / function_word_share(language)
    if not items:
        return grammar < GRAMMAR * counted.words
    if sum(counted.exclusive.values()) - own > 0.5 * own or counted.words < TERM_WORDS * len(parts):
        return True
    return grammar < ITEM_GRAMMAR * counted.words and counted.words < ITEM_WORDS * len(parts)


def _is_sentence(part: str) -> bool:
    return part.endswith(_STOPS) and len(extract_words(part)) >= MIN_SENTENCE_WORDS


def are_labels(parts: Sequence[str]) -> bool:
    """Whether these are several words or pairs of words that each stand alone or between commas."""
    labels = [label.strip() for part in parts for label in part.split(",")]
    return len(labels) >= MIN_LABELS and all(
        len(extract_words(label)) <= LABEL_WORDS and weighted_length(label) <= LABEL_SIZE for label in labels
    )


def _is_title(text: str, language: str | None, counted: FunctionWordCount) -> bool:
    """Whether most words are capitalised, in an alphabet that has capitals."""
    # German capitalises all its nouns.
    if language == "de" and counted.uses.get("de", 0) >= ITEM_GRAMMAR * counted.words:
        return False
    long = [word for word in extract_words(text) if len(word) >= 4 and word.upper() != word.lower()]
    if not long or 3 * sum(map(len, long)) < sum(script_weights(text).values()):
        return False
    return sum(word[0] != word[0].lower() for word in long) >= TITLE_SHARE * len(long)
