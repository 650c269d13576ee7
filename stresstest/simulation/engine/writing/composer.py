"""Sentences from a grammar: every choice from a shuffled deck, lengths spread evenly over a range.

A deck deals each entry once before any comes again, as an author avoids the word just used; with some
hundred decks of coprime sizes the combinations do not come back within a book.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from stresstest.simulation.engine.grammar import Grammar, GrammarPart, load_grammar

SENTENCE_LENGTHS = {"narrative": (80, 134), "technical": (86, 146), "study": (84, 136), "question": (70, 106)}
"""Characters of a sentence, by register."""
_CANDIDATES = 9
_NEAR = 4
"""Characters from the wanted length at which no better sentence is looked for."""
_EARLY = 24
"""Sentences after which an author keeps to the lengths of the first ones."""
_GOLDEN = 0.6180339887498949
"""Lengths follow the golden-ratio sequence, which fills its range evenly from the first few on: a text
whose early sentences show its whole range has no odd sentence later."""
_TERM = "term_"
"""Slots that name the document's own terms: a technical text repeats them, as it should."""
TERM_REPEAT_SHARE = 0.6
MAX_STICKY_PENALTY = 1.15
"""Repetition penalty above which a text can no longer repeat its terms."""


class SentenceComposer:
    """Writes one language. rng: that of the answer. penalty: the repetition penalty in force."""

    def __init__(self, language: str, rng: random.Random, penalty: float = 1.0) -> None:
        self.grammar: Grammar = load_grammar(language)
        self._random = rng.random
        self._shuffle = rng.shuffle
        self._decks: dict[str, list[int]] = {}
        self._start = rng.random()
        self._places: dict[str, float] = {}
        self._early: dict[str, list[int]] = {}
        self._habits: dict[str, tuple[int, int]] = {}
        self._sticky = 0.0 if penalty > MAX_STICKY_PENALTY else TERM_REPEAT_SHARE
        self._fused = {f" {apart} ": f" {fused} " for apart, fused in self.grammar.contractions.items()}
        self._fusing = re.compile("|".join(map(re.escape, self._fused))) if self._fused else None
        self._elided = {f" {word} l'": f" {elided}" for word, elided in self.grammar.elisions.items()}
        self._eliding = re.compile("|".join(map(re.escape, self._elided))) if self._elided else None
        self._terms: dict[str, tuple[GrammarPart, ...]] = {}

    def sentence(self, register: str) -> str:
        """A new sentence of the register ("narrative", "technical", "study", "question")."""
        name = self.grammar.register(register)
        low, high = self._length_range(name)
        place = self._places[name] = (self._places.get(name, self._start) + _GOLDEN) % 1.0
        wanted = low + place * (high - low)
        best, distance = "", 1e9
        for _ in range(_CANDIDATES):
            text = self._draft(name)
            off = abs(len(text) - wanted) + (0.0 if low <= len(text) <= high else 100.0)
            if off < distance:
                best, distance = text, off
                if off <= _NEAR:
                    break
        early = self._early[name]
        if len(early) < _EARLY:
            early.append(len(best))
        return best

    def _length_range(self, register: str) -> tuple[int, int]:
        """Shortest and longest sentence to write: the author's habit, once there is one."""
        early = self._early.setdefault(register, [])
        if len(early) < _EARLY:
            return SENTENCE_LENGTHS[register]
        if register not in self._habits:
            lengths = sorted(early)
            self._habits[register] = lengths[1], lengths[-2]
        return self._habits[register]

    def _draft(self, register: str) -> str:
        frames = self.grammar.registers[register]
        out: list[str] = []
        self._expand(frames[self._next_choice("=" + register, len(frames))], out)
        text = "".join(out)
        if self._fusing is not None:
            text = self._fusing.sub(lambda match: self._fused[match[0]], " " + text)
            if self._eliding is not None:
                text = self._eliding.sub(lambda match: self._elided[match[0]], text)
            text = text[1:]
        return text[:1].upper() + text[1:]

    def _next_choice(self, key: str, size: int) -> int:
        deck = self._decks.get(key)
        if not deck:
            deck = self._decks[key] = list(range(size))
            self._shuffle(deck)
        return deck.pop()

    def _expand(self, parts: Sequence[GrammarPart], out: list[str]) -> None:
        for slot, text in parts:
            if text:
                out.append(text)
                continue
            entries = self.grammar.slots[slot]
            if slot.startswith(_TERM) and self._random() < self._sticky:
                known = self._terms.get(slot)
                if known is None:
                    known = self._terms[slot] = entries[self._next_choice(slot, len(entries))]
                self._expand(known, out)
            else:
                self._expand(entries[self._next_choice(slot, len(entries))], out)
