"""Grammars: sentence frames over slots, slots over phrases, one TOML file a language.

A frame is a sentence with `{slots}`; a slot's entries may name other slots or be empty. Agreement is
local: article, noun and adjective that agree stand in one entry or in slots of one gender. A register
is a list of frames: "narrative" for every language, "technical", "study" and "question" for those that
have shipped tasks. A file may have further keys under `simulator`:

- rank: its place among the languages that fit a prompt equally well; English precedes all of them;
- piece_letters: length up to which a word is one token; common_word_uses: number of uses in the grammar from
  which a longer word is one token too;
- drifts_to: languages into which an answer drifts, each as often as it is listed;
- flooding_words: the words that a flooding repeats; contractions and elisions of articles;
- prompts: words by which prompts in the language are recognised, and its names in other languages.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "writing" / "grammars"
_LAST = 1_000  # the rank of a language without one


@lru_cache(maxsize=1)
def grammar_files() -> Mapping[str, dict[str, Any]]:
    """Language code → the content of its file, in the order of rank."""
    found = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))}
    return dict(sorted(found.items(), key=lambda item: simulator_table(item[1]).get("rank", _LAST)))


def simulator_table(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a file states beside its grammar."""
    table: dict[str, Any] = content.get("simulator", {})
    return table


GRAMMAR_LANGUAGES = tuple(grammar_files())
_PIECE = re.compile(r"\{(\w+)\}|([^{}]+)")
_WORD = re.compile(r"[^\W\d_]+")

GrammarPart = tuple[str, str]
"""(slot name, "") or ("", literal text)."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language. labels: the words of numbered structure; registers: frames; slots: entries."""

    language: str
    labels: Mapping[str, str]
    registers: Mapping[str, tuple[tuple[GrammarPart, ...], ...]]
    slots: Mapping[str, tuple[tuple[GrammarPart, ...], ...]]
    function_words: frozenset[str]
    contractions: Mapping[str, str]
    elisions: Mapping[str, str]
    drifts_to: tuple[str, ...]
    flooding_words: tuple[str, ...]

    def register(self, name: str) -> str:
        """The register asked for, or the one every language has."""
        return name if name in self.registers else "narrative"


def _parts(text: str) -> tuple[GrammarPart, ...]:
    return tuple((match[1] or "", match[2] or "") for match in _PIECE.finditer(text))


@lru_cache(maxsize=len(GRAMMAR_LANGUAGES))
def load_grammar(language: str) -> Grammar:
    """One language's grammar; Italian's for a language that has none."""
    name = language if language in GRAMMAR_LANGUAGES else "it"
    raw = grammar_files()[name]
    simulated = simulator_table(raw)
    slots: dict[str, tuple[tuple[GrammarPart, ...], ...]] = {}
    for entry_name, entries in raw["slots"].items():
        listed = entries.split("|") if isinstance(entries, str) else entries
        slots[entry_name] = tuple(_parts(entry.strip("\n")) for entry in listed)
    return Grammar(
        language=name,
        labels=raw["labels"],
        registers={key: tuple(map(_parts, frames)) for key, frames in raw["registers"].items()},
        slots=slots,
        function_words=frozenset(raw["function_words"].split()),
        contractions=simulated.get("contractions", {}),
        elisions=simulated.get("elisions", {}),
        drifts_to=tuple(simulated["drifts_to"]),
        flooding_words=tuple(simulated["flooding_words"].split()),
    )


@lru_cache(maxsize=len(GRAMMAR_LANGUAGES))
def common_words(language: str) -> tuple[str, ...]:
    """The grammar's words, most frequent first, ties by the alphabet."""
    grammar = load_grammar(language)
    counts: Counter[str] = Counter()
    for entries in (*grammar.registers.values(), *grammar.slots.values()):
        for parts in entries:
            for _, text in parts:
                counts.update(_WORD.findall(text))
    return tuple(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@lru_cache(maxsize=len(GRAMMAR_LANGUAGES))
def slot_siblings(language: str) -> Mapping[str, tuple[str, ...]]:
    """Words that are a slot's entry of their own -> the other such entries of that slot."""
    found: dict[str, tuple[str, ...]] = {}
    for entries in load_grammar(language).slots.values():
        words = [parts[0][1] for parts in entries if len(parts) == 1 and _WORD.fullmatch(parts[0][1])]
        if len(words) > 3:
            found.update({word: tuple(other for other in words if other != word) for word in words})
    return found
