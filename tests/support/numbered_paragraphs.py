"""Italian stories in numbered paragraphs, cut into tokens, and the token at which a paragraph begins."""

from __future__ import annotations

import random
import re

PATTERN = r"^[#* ]*Paragrafo (\d+)"
_SUBJECTS = ["Il vecchio pescatore", "La maestra del paese", "Un ragazzo silenzioso", "Sua sorella maggiore"]
_VERBS = [
    "camminava piano",
    "guardava il mare",
    "pensava al viaggio",
    "contava le barche",
    "leggeva una lettera",
]
_PLACES = ["lungo la riva del fiume", "davanti alla chiesa", "nella piazza vuota", "dietro il mulino"]
_ENDS = [
    "mentre scendeva la sera",
    "senza dire una parola",
    "come faceva ogni giorno",
    "con il cuore leggero",
]


def sentence(rng: random.Random) -> str:
    """One healthy sentence of about 70 characters."""
    return " ".join(rng.choice(words) for words in (_SUBJECTS, _VERBS, _PLACES, _ENDS)) + "."


def unit(number: int, rng: random.Random, sentences: int = 3) -> str:
    """One healthy numbered paragraph."""
    return f"Paragrafo {number}. " + " ".join(sentence(rng) for _ in range(sentences))


def story(numbers: list[int], seed: int = 1) -> str:
    """Healthy paragraphs under the given numbers."""
    rng = random.Random(seed)
    return "\n\n".join(unit(n, rng, 2 + rng.randrange(3)) for n in numbers)


def tokens(text: str) -> list[str]:
    """Pieces of about the size of a model's tokens."""
    return re.findall(r"\s*\w{1,5}|\s*\W", text)


def token_of(text: str, at: int) -> int:
    """1-based token that holds the character at `at`."""
    seen = 0
    for number, piece in enumerate(tokens(text), 1):
        seen += len(piece)
        if seen > at:
            return number
    raise AssertionError(at)


def heading(text: str, number: int, occurrence: int = 0) -> int:
    """First token of a unit's heading."""
    places = [m.start() for m in re.finditer(rf"Paragrafo {number}\.", text)]
    return token_of(text, places[occurrence])
