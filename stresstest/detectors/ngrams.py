"""Which letters follow each other in the words of a language.

The tables are langdetect's own character profiles, an installed dependency: about 1,500 trigrams a
language, counted over its Wikipedia. A table takes a few milliseconds and is built when it is first
asked for. Scripts without spaces have bigrams too few to be worth the name; they are counted as such.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib import resources

FLOOR = -6.0
"""log10 of the probability that a trigram in no table counts with."""
_FILES = {"zh": ("zh-cn", "zh-tw"), "no": ("no", "da")}
_VIETNAMESE = dict.fromkeys(range(0x1EA0, 0x1F00), "ể")
"""langdetect's profiles hold all letters of that block as one."""


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
def expected(language: str) -> float:
    """Mean usualness of the language's own text; 0 for a language without a profile."""
    grams = trigrams(language)
    mass = sum(10**value for value in grams.values())
    if not mass:
        return 0.0
    # The trigrams below the profile's cut are at home in the language too, at about the cut.
    return sum(value * 10**value for value in grams.values()) + (1.0 - min(mass, 1.0)) * (FLOOR + 0.8)


@lru_cache(maxsize=8)
def characters(language: str) -> frozenset[str]:
    """Single characters and pairs that a profile lists: for scripts without spaces."""
    return frozenset(gram for frequencies, _ in _profiles(language) for gram in frequencies if len(gram) < 3)


def usualness(word: str, language: str) -> float:
    """Mean log10 probability of the trigrams of a lower-case word: about -3 for words, -5 for noise.

    0 for a language without a profile.
    """
    grams = trigrams(language)
    if not grams:
        return 0.0
    padded = f" {word if word.isascii() else word.translate(_VIETNAMESE)} "
    count = len(padded) - 2
    return sum([grams.get(padded[i : i + 3], FLOOR) for i in range(count)]) / count


def _profiles(language: str) -> list[tuple[dict[str, int], list[int]]]:
    folder = resources.files("langdetect").joinpath("profiles")
    found = []
    for name in _FILES.get(language, (language,)):
        path = folder.joinpath(name)
        if path.is_file():
            data = json.loads(path.read_text(encoding="utf-8"))
            found.append((data["freq"], data["n_words"]))
    return found
