"""Foreign words that say nothing about an answer's language: names, titles, terms, labels, glossaries."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.function_words import LISTED, Count, count, words_of
from stresstest.detectors.scripts import is_latin, size, weights
from stresstest.detectors.word_evidence import usual_share

TITLE = 0.6
"""Share of capitalised words that makes a title or a list of names."""
GRAMMAR, ITEM_GRAMMAR = 0.08, 0.2
"""Least share of function words in foreign prose, and in list items, where terms are at home; of a language
that has as many of them as English (`word_evidence.usual_share`), in proportion for the others."""
TERM_WORDS, ITEM_WORDS = 4, 6
"""List items of fewer words are terms; so are those of fewer than the second, if they have no grammar."""
SENTENCE_WORDS = 5
"""So many words and a full stop are a sentence, however little grammar it has."""
_STOPS = (".", "!", "?", "…", ":")
LABEL_WORDS, LABEL_SIZE = 2, 12
"""What is not longer is a label ("yes", "true", "not given") where many of them follow one another."""
LABELS = 3


def says_nothing(parts: Sequence[str], language: str | None, *, items: int) -> bool:
    """Whether a foreign passage is but names, titles, terms, labels or a glossary: words without one grammar.

    parts: its sentences. items: how many of them are list items.
    """
    text = " ".join(parts)
    counted = count(text)
    if are_labels(parts) or _is_title(text, language, counted):
        return True
    if language not in LISTED or not is_latin(language) or all(map(_is_sentence, parts)):
        return False
    own = counted.only.get(language, 0)
    grammar = counted.uses.get(language, 0) * usual_share("en") / usual_share(language)
    if not items:
        return grammar < GRAMMAR * counted.words
    if sum(counted.only.values()) - own > 0.5 * own or counted.words < TERM_WORDS * len(parts):
        return True
    return grammar < ITEM_GRAMMAR * counted.words and counted.words < ITEM_WORDS * len(parts)


def _is_sentence(part: str) -> bool:
    return part.endswith(_STOPS) and len(words_of(part)) >= SENTENCE_WORDS


def are_labels(parts: Sequence[str]) -> bool:
    """Whether these are several words or pairs of words that each stand alone."""
    return len(parts) >= LABELS and all(
        len(words_of(part)) <= LABEL_WORDS and size(part) <= LABEL_SIZE for part in parts
    )


def _is_title(text: str, language: str | None, counted: Count) -> bool:
    """Whether most words have a capital, in a text whose alphabet has capitals."""
    # German capitalises all its nouns.
    if language == "de" and counted.uses.get("de", 0) >= ITEM_GRAMMAR * counted.words:
        return False
    long = [word for word in words_of(text) if len(word) >= 4 and word.upper() != word.lower()]
    if not long or 3 * sum(map(len, long)) < sum(weights(text).values()):
        return False
    return sum(word[0] != word[0].lower() for word in long) >= TITLE * len(long)
