"""Grammars: sentence frames over slots, slots over phrases, one TOML file a language.

A frame is a sentence with `{slots}`; a slot's entries may name other slots or be empty. Agreement is
local: article, noun and adjective that agree stand in one entry or in slots of one gender. A register
is a list of frames: "narrative" for every language, "technical", "study" and "question" for those that
have shipped tasks.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("it", "en", "fr", "de", "es", "pt")
_FOLDER = Path(__file__).parent / "grammars"
_PIECE = re.compile(r"\{(\w+)\}|([^{}]+)")
_WORD = re.compile(r"[^\W\d_]+")

Part = tuple[str, str]
"""(slot name, "") or ("", literal text)."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language. labels: the words of numbered structure; registers: frames; slots: entries."""

    language: str
    labels: Mapping[str, str]
    registers: Mapping[str, tuple[tuple[Part, ...], ...]]
    slots: Mapping[str, tuple[tuple[Part, ...], ...]]
    function_words: frozenset[str]

    def register(self, name: str) -> str:
        """The register asked for, or the one every language has."""
        return name if name in self.registers else "narrative"


def _parts(text: str) -> tuple[Part, ...]:
    return tuple((match[1] or "", match[2] or "") for match in _PIECE.finditer(text))


@lru_cache(maxsize=len(LANGUAGES))
def load(language: str) -> Grammar:
    """One language's grammar; Italian's for a language that has none."""
    name = language if language in LANGUAGES else "it"
    raw = tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))
    slots: dict[str, tuple[tuple[Part, ...], ...]] = {}
    for entry_name, entries in raw["slots"].items():
        listed = entries.split("|") if isinstance(entries, str) else entries
        slots[entry_name] = tuple(_parts(entry.strip("\n")) for entry in listed)
    return Grammar(
        language=name,
        labels=raw["labels"],
        registers={key: tuple(map(_parts, frames)) for key, frames in raw["registers"].items()},
        slots=slots,
        function_words=frozenset(raw["function_words"].split()),
    )


@lru_cache(maxsize=len(LANGUAGES))
def common_words(language: str) -> tuple[str, ...]:
    """The grammar's words, most frequent first, ties by the alphabet."""
    grammar = load(language)
    counts: Counter[str] = Counter()
    for entries in (*grammar.registers.values(), *grammar.slots.values()):
        for parts in entries:
            for _, text in parts:
                counts.update(_WORD.findall(text))
    return tuple(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@lru_cache(maxsize=len(LANGUAGES))
def siblings(language: str) -> Mapping[str, tuple[str, ...]]:
    """Words that are a slot's entry of their own -> the other such entries of that slot."""
    found: dict[str, tuple[str, ...]] = {}
    for entries in load(language).slots.values():
        words = [parts[0][1] for parts in entries if len(parts) == 1 and _WORD.fullmatch(parts[0][1])]
        if len(words) > 3:
            found.update({word: tuple(other for other in words if other != word) for word in words})
    return found
