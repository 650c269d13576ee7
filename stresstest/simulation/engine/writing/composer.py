"""Sentences from a grammar: every choice from a shuffled deck, lengths spread evenly over a range.

A deck deals each entry once before any comes again, as an author avoids the word just used; with some
hundred decks of coprime sizes the combinations do not come back within a book.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from stresstest.simulation.engine.writing.grammar import Grammar, Part, load

RANGES = {"narrative": (80, 134), "technical": (86, 146), "study": (84, 136), "question": (70, 106)}
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
STICKY = 0.6
VARIED_ABOVE = 1.15
"""Repetition penalty above which a text can no longer repeat its terms."""


_CONTRACTED = {
    "it": "di il=del;di lo=dello;di la=della;di i=dei;di gli=degli;di le=delle;a il=al;a lo=allo;a la=alla;"
    "a i=ai;a gli=agli;a le=alle;da il=dal;da lo=dallo;da la=dalla;da i=dai;da gli=dagli;da le=dalle;"
    "in il=nel;in lo=nello;in la=nella;in i=nei;in gli=negli;"
    "in le=nelle",
    "fr": "que un=qu'un;que une=qu'une;de le=du;de les=des;à le=au;à les=aux",
    "es": "de el=del;a el=al",
    "pt": "de o=do;de a=da;de os=dos;de as=das;em o=no;em a=na",
}
_FUSED = {
    language: {f" {pair.split('=')[0]} ": f" {pair.split('=')[1]} " for pair in pairs.split(";")}
    for language, pairs in _CONTRACTED.items()
}
_ELIDED = re.compile(r" (di|a|da|in) l'")
_ELISIONS = {"di": " dell'", "a": " all'", "da": " dall'", "in": " nell'"}


def _fusing(language: str) -> re.Pattern[str] | None:
    pairs = _FUSED.get(language)
    return re.compile("|".join(map(re.escape, pairs))) if pairs else None


class Composer:
    """Writes one language. rng: the voice's own. penalty: repetition penalty in force."""

    def __init__(self, language: str, rng: random.Random, penalty: float = 1.0) -> None:
        self.grammar: Grammar = load(language)
        self._random = rng.random
        self._shuffle = rng.shuffle
        self._decks: dict[str, list[int]] = {}
        self._start = rng.random()
        self._places: dict[str, float] = {}
        self._early: dict[str, list[int]] = {}
        self._habits: dict[str, tuple[int, int]] = {}
        self._sticky = 0.0 if penalty > VARIED_ABOVE else STICKY
        self._fusing = _fusing(self.grammar.language)
        self._fused = _FUSED.get(self.grammar.language, {})
        self._terms: dict[str, tuple[Part, ...]] = {}

    def sentence(self, register: str) -> str:
        """A new sentence of the register ("narrative", "technical", "study", "question")."""
        name = self.grammar.register(register)
        low, high = self._range(name)
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

    def _range(self, register: str) -> tuple[int, int]:
        """Shortest and longest sentence to write: the author's habit, once there is one."""
        early = self._early.setdefault(register, [])
        if len(early) < _EARLY:
            return RANGES[register]
        if register not in self._habits:
            lengths = sorted(early)
            self._habits[register] = lengths[1], lengths[-2]
        return self._habits[register]

    def _draft(self, register: str) -> str:
        frames = self.grammar.registers[register]
        out: list[str] = []
        self._expand(frames[self._deal("=" + register, len(frames))], out)
        text = "".join(out)
        if self._fusing is not None:
            text = self._fusing.sub(lambda match: self._fused[match[0]], " " + text)
            if self.grammar.language == "it":
                text = _ELIDED.sub(lambda match: _ELISIONS[match[1]], text)
            text = text[1:]
        return text[:1].upper() + text[1:]

    def _deal(self, key: str, size: int) -> int:
        deck = self._decks.get(key)
        if not deck:
            deck = self._decks[key] = list(range(size))
            self._shuffle(deck)
        return deck.pop()

    def _expand(self, parts: Sequence[Part], out: list[str]) -> None:
        for slot, text in parts:
            if text:
                out.append(text)
                continue
            entries = self.grammar.slots[slot]
            if slot.startswith(_TERM) and self._random() < self._sticky:
                known = self._terms.get(slot)
                if known is None:
                    known = self._terms[slot] = entries[self._deal(slot, len(entries))]
                self._expand(known, out)
            else:
                self._expand(entries[self._deal(slot, len(entries))], out)
