"""The two language identifiers, loaded at the first passage judged: py3langid, about 40 µs a passage, and
langdetect (seeded), about 1 ms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stresstest.detectors.languages.catalog import Catalog, normalize_language, per_catalog


@per_catalog
def identified_languages(known: Catalog) -> frozenset[str]:
    """Languages that a model may drift into. Rarer ones win only by chance, on lists of names."""
    return frozenset(code for code, language in known.languages.items() if not language.rare)


indistinguishable = per_catalog(lambda known: known.pairs(lambda language: language.twins))
"""Pairs of languages between which the identifiers' votes are coin tosses."""
relatives = per_catalog(lambda known: known.pairs(lambda language: language.relatives))
"""Pairs of close relatives: both votes must name the same one, with near certainty."""


@lru_cache(maxsize=2)
def _identifier_cache(languages: frozenset[str]) -> Any:
    from stresstest.detectors.identification.identifiers import IdentifierCache

    return IdentifierCache(languages)


def screening_identifier(wanted: str) -> Any:
    """py3langid over `identified_languages` and the expected language."""
    return _identifier(wanted, identified_languages())


@lru_cache(maxsize=1)
def widest_identifier() -> Any:
    """py3langid over all languages of its model."""
    cache = _identifier_cache(identified_languages())
    return cache.for_languages(cache.all_languages)


@lru_cache(maxsize=16)
def _identifier(wanted: str, languages: frozenset[str]) -> Any:
    return _identifier_cache(languages).for_languages(languages | {wanted})


def langdetect_scores(text: str) -> dict[str, float]:
    """Language → probability; empty when langdetect finds nothing to go by."""
    from langdetect import LangDetectException

    from stresstest.detectors.identification import identifiers

    try:
        found = identifiers.langdetect_probabilities(text)
    except LangDetectException:
        return {}
    votes: dict[str, float] = {}
    for each in found:
        code = normalize_language(each.lang)
        votes[code] = votes.get(code, 0.0) + float(each.prob)
    return votes


def langdetect_languages() -> frozenset[str]:
    """The languages that langdetect can name."""
    from stresstest.detectors.identification import identifiers

    return frozenset(map(normalize_language, identifiers.langdetect_profiles().langlist))


def warm_up(wanted: str) -> None:
    """Load both models now (about a second), so that no first sentence pays for it mid-measurement."""
    screening_identifier(normalize_language(wanted))
    langdetect_scores("This sentence is only here to load the profiles of every language once.")
