"""The lab model's language: small sentence grammars for Italian, English and French.

A grammar is a TOML file in `grammars/`: sentence templates over slots, slots over phrases. It is
used twice: `StoryWriter` samples the training texts from it, and `parser.py` turns the same file
into regular expressions that judge what a model wrote. Nothing here imports `stresstest`.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("it", "en", "fr")
TASKS = ("narrative", "technical")
SECTIONS_AT_MOST = 8
"""A technical text ends by itself after this many sections, whatever was asked for."""
MIN_SENTENCE_CHARS = 60

_HERE = Path(__file__).parent
_PIECE = re.compile(r"\{(\w+)\}|([^{}]+)")

Part = tuple[bool, str]
"""(is a slot, slot name or literal text)."""


@dataclass(frozen=True)
class Grammar:
    """Templates and slots of one language, cut into parts once."""

    language: str
    labels: Mapping[str, str]
    """Task -> the word before a unit's number, e.g. "Paragrafo"."""
    templates: Mapping[str, tuple[tuple[Part, ...], ...]]
    slots: Mapping[str, tuple[tuple[Part, ...], ...]]

    def leaves(self, slot: str) -> list[str]:
        """Every text a slot can become, nested slots multiplied out."""
        texts: list[str] = []
        for entry in self.slots[slot]:
            partial = [""]
            for is_slot, value in entry:
                tails = self.leaves(value) if is_slot else [value]
                partial = [head + tail for head in partial for tail in tails]
            texts += partial
        return texts


def _parts(text: str) -> tuple[Part, ...]:
    return tuple((bool(m[1]), m[1] or m[2]) for m in _PIECE.finditer(text))


@lru_cache
def load(language: str) -> Grammar:
    """Read one language's grammar. Raises FileNotFoundError for a language without one."""
    raw = tomllib.loads((_HERE / "grammars" / f"{language}.toml").read_text("utf-8"))
    return Grammar(
        language=language,
        labels={"narrative": raw["paragraph"], "technical": raw["section"]},
        templates={task: tuple(_parts(t) for t in raw[task]) for task in TASKS},
        slots={name: tuple(_parts(e) for e in entries) for name, entries in raw["slots"].items()},
    )


def capitalised(text: str) -> str:
    """The text with its first letter in upper case and the rest untouched."""
    return text[:1].upper() + text[1:]


class StoryWriter:
    """Samples one text. A phrase used lately is not used again: real prose does not, and a model
    that learns it has no reason to repeat itself, not even at temperature 0."""

    def __init__(self, language: str, task: str, rng: random.Random, *, fresh: bool = True) -> None:
        """fresh: avoid what was used lately; without it a model has nothing to keep it from looping."""
        self.fresh = fresh
        self.grammar = load(language)
        self.task = task
        self.rng = rng
        self._recent: dict[str, deque[int]] = {}
        self._written: set[str] = set()

    def _draw(self, key: str, size: int) -> int:
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = deque(maxlen=size // 2 if self.fresh else 0)
        while True:
            index = int(self.rng.random() * size)
            if index not in recent:
                recent.append(index)
                return index

    def _expand(self, parts: tuple[Part, ...], forced: Mapping[str, str]) -> str:
        out = []
        for is_slot, value in parts:
            if not is_slot:
                out.append(value)
            elif value in forced:
                out.append(forced[value])
            else:
                entries = self.grammar.slots[value]
                out.append(self._expand(entries[self._draw(value, len(entries))], forced))
        return "".join(out)

    def sentence(self, forced: Mapping[str, str] | None = None) -> str:
        """One new sentence of at least 60 characters; `forced` makes it the first template with
        those slots given."""
        templates = self.grammar.templates[self.task]
        while True:
            index = 0 if forced else self._draw("", len(templates))
            text = capitalised(self._expand(templates[index], forced or {}))
            if len(text) >= MIN_SENTENCE_CHARS and not (self.fresh and text in self._written):
                self._written.add(text)
                return text

    def unit(self, forced: Mapping[str, str] | None = None) -> str:
        """Two to four sentences (two to three in a technical text)."""
        count = self.rng.randint(2, 4 if self.task == "narrative" else 3)
        return " ".join(self.sentence(forced if i == 0 else None) for i in range(count))

    def units(self, count: int, opening: Mapping[str, str] | None = None) -> list[str]:
        """The bodies of `count` units, the first of which opens with the given phrases."""
        return [self.unit(opening if i == 0 else None) for i in range(count)]


def numbered(language: str, task: str, bodies: list[str], first: int = 1) -> str:
    """Unit bodies behind their labels, numbered from `first`, one blank line between units."""
    label = load(language).labels[task]
    return "\n\n".join(f"{label} {n}. {body}" for n, body in enumerate(bodies, first))
