"""The inflected words of a language: what a word is, where letters alone cannot tell.

"Récunque" and "informacronavro" are spelled like French and Italian and are neither. A file `<code>.forms`
beside the language's own holds some 300,000 forms of four letters or more as a Bloom filter of eight bits a
form: a form that is listed is always found, one in 45 others is too. Where the lists come from stands in
`FORMS.md`; `python -m benchmarks.make_word_forms` makes the files.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

BITS_PER_FORM = 8
PROBES = 6
MIN_LETTERS = 4
"""Shorter forms are not listed: invented ones are words of some language too."""
_LIGATURES = str.maketrans({"œ": "oe", "æ": "ae", "ß": "ss"})


def fold(word: str) -> str:
    """The word as it is listed: in lower case, without accents, which models and people leave out."""
    word = word.lower()
    if word.isascii():
        return word
    bare = unicodedata.normalize("NFD", word.translate(_LIGATURES))
    return "".join(char for char in bare if not unicodedata.combining(char))


class WordForms:
    """A set of folded forms; `in` may be wrong for one in 45 that it does not hold."""

    def __init__(self, bits: bytes) -> None:
        self._bits = bits

    @classmethod
    def of(cls, forms: Iterable[str]) -> WordForms:
        """The forms of four letters or more, folded."""
        folded = {form for form in map(fold, forms) if len(form) >= MIN_LETTERS}
        bits = bytearray(-(-len(folded) * BITS_PER_FORM // 8) or 1)
        for form in folded:
            for place in _places(form, 8 * len(bits)):
                bits[place >> 3] |= 1 << (place & 7)
        return cls(bytes(bits))

    @property
    def data(self) -> bytes:
        """What the file holds."""
        return self._bits

    def __contains__(self, folded: str) -> bool:
        bits = self._bits
        size = 8 * len(bits)
        place, step = _first_and_step(folded)
        for _ in range(PROBES):
            at = place % size
            if not bits[at >> 3] >> (at & 7) & 1:
                return False
            place += step
        return True


def _places(form: str, size: int) -> list[int]:
    first, step = _first_and_step(form)
    return [(first + n * step) % size for n in range(PROBES)]


@lru_cache(maxsize=8)  # the languages are asked one after the other
def _first_and_step(form: str) -> tuple[int, int]:
    number = int.from_bytes(blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return number & 0xFFFFFFFF, number >> 32 | 1


@lru_cache
def word_forms(language: str) -> WordForms | None:
    """The forms of a language; None where they are not known."""
    if language not in languages_with_forms():  # a language may be any text: it makes no path of itself
        return None
    return WordForms(Path(__file__).with_name(f"{language}.forms").read_bytes())


@lru_cache
def languages_with_forms() -> tuple[str, ...]:
    """Codes of the languages whose forms are known."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.forms")))
