"""The languages that are known: one TOML file a language, ``<code>.toml`` in this folder.

To add a language, copy ``en.toml`` to a file named by the language's ISO 639-1 code and fill in what is
known; `Language` documents the keys. No other file lists languages: what depends on a script or on Unicode
alone is code, in `stresstest.detectors.text`.

The files are read once, when the first text is examined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

from stresstest.detectors.languages.language import LATIN, Language, read_language
from stresstest.errors import UsageError

SHIPPED = Path(__file__).parent
"""The folder of the languages that come with the program."""

_T = TypeVar("_T")

_UNBOUNDED = "\u0600"
"""From Arabic on, `re` finds no dependable word boundaries: signs of vowels are no word characters for it,
and words may follow each other without a blank."""


@dataclass(frozen=True, eq=False, slots=True)
class Catalog:
    """Languages by code, and the codes that their aliases mean."""

    languages: Mapping[str, Language]
    aliases: Mapping[str, str]

    def words(self, of: Callable[[Language], Iterable[str]]) -> frozenset[str]:
        """The words that any language has in one of its lists."""
        return frozenset(word for language in self.languages.values() for word in of(language))

    def pairs(self, of: Callable[[Language], Iterable[str]]) -> frozenset[frozenset[str]]:
        """Codes that one of two languages lists for the other, as pairs."""
        return frozenset(
            frozenset((language.code, other))
            for language in self.languages.values()
            for other in of(language)
        )


@lru_cache(maxsize=8)
def load_catalog(folders: tuple[Path, ...] = (SHIPPED,)) -> Catalog:
    """The languages of all files ``*.toml`` in some folders.

    UsageError for a file that is not valid and for a code that two files claim.
    """
    languages: dict[str, Language] = {}
    aliases: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        language = read_language(path)
        for code in (language.code, *language.aliases):
            taken = aliases.setdefault(code, language.code)
            if taken != language.code or language.code in languages:
                raise UsageError(f"{path}: the language code {code!r} is already taken by {taken}.toml")
        languages[language.code] = language
    return Catalog(languages, aliases)


_LATIN_ALONE = (LATIN,)


def catalog() -> Catalog:
    """The languages known to this process."""
    return load_catalog()


def scripts_of(code: str | None) -> tuple[str, ...]:
    """The scripts of a language, its own first; Latin letters for one that is not known."""
    found = catalog().languages.get(code or "")
    return _LATIN_ALONE if found is None else found.scripts


def per_catalog(make: Callable[[Catalog], _T]) -> Callable[[], _T]:
    """What `make` derives from the languages known at the time, made once."""
    made = lru_cache(maxsize=4)(make)

    @wraps(make)
    def present() -> _T:
        return made(load_catalog())

    return present


def alternatives(words: Iterable[str], start: str = r"\b") -> str:
    r"""A pattern for any of the words: ``day`` is that word, ``day*`` a longer word that begins so.

    Words in Arabic, Indic and East Asian scripts match wherever they occur. start: the pattern before each
    of the others. Matches nothing where there are no words.
    """
    found = []
    for word in sorted(words):
        stem = word.removesuffix("*")
        if word >= _UNBOUNDED:
            found.append(re.escape(stem))
        else:
            found.append(start + re.escape(stem) + (r"\w+" if stem != word else r"\b"))
    return f"(?:{'|'.join(found)})" if found else r"(?!)"


def normalize_language(language: str) -> str:
    """ISO 639-1 code of a language tag: "it-IT" → "it", "zh-cn" → "zh", "nb" → "no"."""
    code = language.replace("_", "-").split("-")[0].lower()
    return catalog().aliases.get(code, code)
