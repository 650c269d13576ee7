"""Writing systems: which one the letters of a text belong to, and which ones a language is written in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from stresstest.detectors.languages.catalog import scripts_of

DENSE_SCRIPTS: Final = frozenset({"HAN", "KANA", "HANGUL"})
"""A character of these carries about three times as much as a letter."""
DENSE_FACTOR: Final = 3

_LATIN_ALONE = ("LATIN",)
_SAME = {
    "CJK": "HAN",
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
}
_LAST_LATIN = "\u024f"
_RANGES = {
    "CYRILLIC": "\u0400-\u052f",
    "GREEK": "\u0370-\u03ff\u1f00-\u1fff",
    "ARABIC": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "HEBREW": "\u0590-\u05ff",
    "DEVANAGARI": "\u0900-\u097f",
    "THAI": "\u0e00-\u0e7f",
    "HAN": "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "KANA": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "HANGUL": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "BENGALI": "\u0980-\u09ff",
    "TAMIL": "\u0b80-\u0bff",
    "TELUGU": "\u0c00-\u0c7f",
    "GEORGIAN": "\u10a0-\u10ff",
    "ARMENIAN": "\u0530-\u058f",
}
_RUN = {script: re.compile(f"[{chars}]+") for script, chars in _RANGES.items()}
_DENSE = re.compile(f"[{''.join(_RANGES[script] for script in sorted(DENSE_SCRIPTS))}]+")
_NO_LETTER = re.compile(r"[^\w\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff]+|[\d_]+")
"""Vowel signs of Arabic, the Indic scripts and Thai are no word characters for `re`."""
_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u3005-\ud7ff\uf900-\ufaff]")
_LATIN_RUN = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:[ '’,\-]+[A-Za-z\u00c0-\u024f]+){4,}")
_LATIN_WORDS = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+(?:['’-][A-Za-z\u00c0-\u024f\u1e00-\u1eff]+)*")
_BRACKETS = re.compile(r"\([^()]{0,200}\)|（[^（）]{0,200}）|\[[^\[\]]{0,200}\]")


class _ScriptTable(dict[int, str]):
    """Code point → one letter for its script, filled as characters are met; blank for what is no letter."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        self._letters: dict[str, str] = {}

    def __missing__(self, code: int) -> str:
        char = chr(code)
        letter = " "
        if char.isalpha():
            script = script_of(char)
            letter = self._letters.setdefault(script, chr(ord("A") + len(self._letters)))
            self.names[letter] = script
        self[code] = letter
        return letter


_TABLE = _ScriptTable()


@lru_cache(maxsize=1 << 14)
def script_of(char: str) -> str:
    """The script of one letter, by its Unicode name: "LATIN", "HAN", "KANA", "CYRILLIC", …"""
    name = unicodedata.name(char, "UNKNOWN").split(" ")[0].split("-")[0]
    return _SAME.get(name, name)


def script_weights(text: str) -> dict[str, int]:
    """Letters of each script in `text`; those of dense scripts count `DENSE_FACTOR` times."""
    if text.isascii():
        number = count_letters(text)
        return {"LATIN": number} if number else {}
    mapped = text.translate(_TABLE)
    found: dict[str, int] = {}
    for letter in set(mapped):
        if letter != " ":
            script = _TABLE.names[letter]
            found[script] = mapped.count(letter) * (DENSE_FACTOR if script in DENSE_SCRIPTS else 1)
    return found


def main_script(weights: Mapping[str, int]) -> str:
    """The script with the most weight in `script_weights`, by name among equals; "" without letters."""
    return max(weights, key=lambda script: (weights[script], script), default="")


def own_letters(text: str, language: str) -> tuple[int, int]:
    """Letters of the language's scripts, and all letters; weighed as in `script_weights`."""
    found = script_weights(text)
    return sum(found.get(script, 0) for script in scripts_of(language)), sum(found.values())


def count_letters(text: str) -> int:
    """How many letters, vowel signs included, there are in `text`."""
    return len(_NO_LETTER.sub("", text))


def weighted_length(text: str) -> int:
    """Length of a text in characters of an alphabet: dense characters count three times."""
    if text.isascii() or max(text) < "\u1100":
        return len(text)
    return len(text) + (DENSE_FACTOR - 1) * sum(map(len, _DENSE.findall(text)))


def is_latin(language: str) -> bool:
    """Whether the language is written in Latin letters alone."""
    return scripts_of(language) == _LATIN_ALONE


def clearly_in_script(text: str, language: str) -> bool:
    """Whether three quarters of the letters are the language's own script (not for Latin letters)."""
    scripts = scripts_of(language)
    rest = text
    for script in scripts:
        rest = _RUN[script].sub("", rest) if script in _RUN else rest
    own = len(text) - len(rest)
    dense = DENSE_FACTOR if scripts[0] in DENSE_SCRIPTS else 1
    return own * dense >= 3 * count_letters(rest) and own > 0


def in_script(text: str, language: str) -> bool:
    """Whether most letters are of a script of the language."""
    if is_latin(language):
        return is_mostly_latin(text)
    own, every = own_letters(text, language)
    return 2 * own >= every


def has_non_latin(text: str) -> bool:
    """Whether there is any letter or sign beyond Latin Extended-B (general punctuation counts as one)."""
    return not text.isascii() and max(text) > _LAST_LATIN


def is_mostly_latin(text: str) -> bool:
    """Whether hardly a letter is of another script."""
    if text.isascii() or _OTHER_SCRIPT.search(text) is None:
        return True
    found = script_weights(text)
    return 4 * found.get("LATIN", 0) >= 3 * sum(found.values())


def is_all_latin(text: str) -> bool:
    """Whether no letter is of another script."""
    return text.isascii() or script_weights(text).keys() <= {"LATIN"}


def without_brackets(text: str) -> str:
    """A text without its parts in brackets."""
    return str(_BRACKETS.sub(" ", text))


def latin_part(text: str) -> str:
    """What of a text is in Latin letters, without brackets and other scripts."""
    return " ".join(_LATIN_WORDS.findall(without_brackets(text)))


def latin_runs(text: str) -> list[str]:
    """Stretches of five or more words in Latin letters, those in brackets left out."""
    return _LATIN_RUN.findall(_BRACKETS.sub(" ", text))
