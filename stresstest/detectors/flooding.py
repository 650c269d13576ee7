"""Flooding: one word or a handful own a whole window of the output.

It catches what an exact loop misses: "no no yes no yes yes no …" has no period and yet says nothing.
Natural prose never comes near the bound (four words making nine tenths of sixty-four), so the work
is in what must *not* count: rulers, tables, number lists, answer keys and formulas.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.template import UNCOUNTED, Requests
from stresstest.model import Symptom, SymptomKind, Token

WINDOW = 64
"""Words looked at together. About three sentences: shorter windows meet chants and interjections."""

FEW = 4
SHARE = 0.9
"""So many distinct words making at least this share of a window flood it."""

OWN_SHARE = 0.08

FIGURE_SHARE = 0.15
"""Digits and cell walls among the tokens of a window beyond which it is a table or a numbered list."""

WORD_SHARE = 0.4
"""Words among the tokens of a window below which it is formulas or markup: \\frac, \\left, begin, end."""

LISTED_SHARE = 0.9
"""Words of a window that stand in a line of their own, or between commas, from which on they are a list: of
labels, answers, moves. It floods from `UNCOUNTED` words on, as what is asked for without a count."""

OPEN_WORDS = 24
"""A flooded tail of so many words may yet become a flooded window."""

LEAVE_SHARE = 0.5
OWNED = ceil(WINDOW * SHARE)
MOST_DISTINCT = WINDOW - OWNED + FEW
WORD, FIGURE, _OTHER, BREAK = 1, 2, 0, 3
_BREAKS = frozenset("\n,;،、，")
_SIGNS = frozenset("\\{}<>$_^=")
_DRAWN = re.compile("[\u2190-\u23ff\u2500-\u25ff\u2800-\u28ff\u2b1b\u2b1c\U0001f7e5-\U0001f7eb]")
"""Arrows, technical signs, boxes, blocks, Braille dots, squares: rulers, diagrams, grids."""


@dataclass(slots=True)
class Flood:
    """due: how many of its words are as requested; it is a symptom beyond them, and open until then."""

    words: frozenset[str]
    onset: int
    alarm: int
    last: int
    count: int
    due: int = 0
    standing: bool = True


class _Word(NamedTuple):
    """A word of the window: its text, its token, and how many figures, tokens and breaks (of lines, commas)
    stood before it."""

    text: str
    position: int
    figures: int
    tokens: int
    breaks: int


class FloodingDetector:
    """Online counts over the last 64 words; O(1) a token, O(window) only when a flood is likely."""

    def __init__(self, spec: PanelSpec) -> None:
        self._position = 0
        self._figures = 0
        self._tokens = 0
        self._breaks = 0
        # The fields of `_Word`: plain tuples are quicker.
        self._window: deque[tuple[str, int, int, int, int]] = deque()
        self._counts: dict[str, int] = {}
        self._kinds: dict[str, tuple[int, str]] = {}
        self._floods: list[Flood] = []
        self._current: Flood | None = None
        self._requests = Requests(spec.prompt_text, None if spec.unit_pattern else spec.units)

    def update(self, token: Token) -> None:
        """Take the next output token."""
        self._position += 1
        text = token.text
        known = self._kinds.get(text)
        if known is None:
            known = self._kinds[text] = kind_of(text)
        kind, word = known
        if kind == _OTHER:
            if word:
                self._tokens += 1
            return
        if kind == BREAK:
            self._breaks += 1
            if word:
                self._tokens += 1
            return
        self._tokens += 1
        if kind == FIGURE:
            self._figures += 1
            return
        counts, window = self._counts, self._window
        window.append((word, self._position, self._figures, self._tokens, self._breaks))
        counts[word] = counts.get(word, 0) + 1
        if len(window) > WINDOW:
            old = window.popleft()[0]
            if counts[old] == 1:
                del counts[old]
            else:
                counts[old] -= 1
        if self._current is not None:
            self._follow(self._current, word)
        elif len(counts) <= MOST_DISTINCT and len(window) == WINDOW:
            self._judge()

    def finish(self, finish_reason: str | None) -> None:
        """Nothing is pending: every full window was judged."""

    @property
    def open_from(self) -> int | None:
        """First token of a requested flood, or of a flooded tail of 24 words that is not yet a window."""
        if self._current is not None:
            return self._current.onset if self._current.due else None
        if len(self._window) < OPEN_WORDS:
            return None
        words = list(map(_Word._make, self._window))
        few = _owners(words[-OPEN_WORDS:])
        if not few:
            return None
        first = _stretch(words, few)
        if len(words) - first < OPEN_WORDS or self._typographic(words[first:]):
            return None
        return words[first].position

    def symptoms(self) -> list[Symptom]:
        """Every flooded stretch, in order of onset."""
        return [_symptom(flood) for flood in self._floods] if self._floods else []

    def _judge(self) -> None:
        words = list(map(_Word._make, self._window))
        few = _owners(words)
        if not few or self._typographic(words):
            return
        first = _stretch(words, few)
        flood = Flood(few, words[first].position, self._position, self._position, WINDOW - first)
        self._current = flood
        asked = self._requests.words(few)
        if asked is not None:
            flood.due = asked or UNCOUNTED
        elif len(few) > 1 and self._listed(words[first:]):
            flood.due = UNCOUNTED
        self._report(flood)

    def _report(self, flood: Flood) -> None:
        """A flood is a symptom as soon as it is more than was requested."""
        if flood.count >= flood.due:
            flood.due, flood.alarm = 0, self._position
            self._floods.append(flood)

    def _typographic(self, words: list[_Word]) -> bool:
        """Whether figures, cell walls and signs rather than words make the stretch up to the last word."""
        tokens = self._tokens - words[0].tokens + 1
        figures = self._figures - words[0].figures
        return figures >= FIGURE_SHARE * tokens or len(words) < WORD_SHARE * tokens

    @staticmethod
    def _listed(words: list[_Word]) -> bool:
        """Whether nearly every word is followed by a line break or a comma."""
        breaks = (after.breaks > word.breaks for word, after in pairwise(words))
        return sum(breaks) >= LISTED_SHARE * (len(words) - 1)

    def _follow(self, flood: Flood, word: str) -> None:
        """A flood goes on until its words no longer make half of the window."""
        if word in flood.words:
            flood.last = self._position
            flood.count += 1
            if flood.due:
                self._report(flood)
        elif sum(self._counts.get(w, 0) for w in flood.words) < WINDOW * LEAVE_SHARE:
            flood.standing = False
            self._current = None


@lru_cache(1 << 15)
def kind_of(text: str) -> tuple[int, str]:
    """A token's part: a word (folded), a figure, or neither. A lone letter of an alphabet is no word:
    answer keys and sequences are made of them; one ideograph is, and so is an emoji."""
    word = text.strip()
    if len(word) <= 1 and not _BREAKS.isdisjoint(text):
        return BREAK, word
    if any(ch.isdigit() or ch == "|" for ch in word):
        return FIGURE, word
    if not _SIGNS.isdisjoint(word):
        return _OTHER, word
    letters = sum(ch.isalpha() for ch in word)
    if letters > 1 or (letters == 1 and not word.isascii() and word.upper() == word.lower()):
        return WORD, word.casefold()
    symbols = "" if word.isascii() or letters else _symbols(word)
    return (WORD, symbols) if symbols else (_OTHER, word)


@lru_cache(1 << 13)
def is_symbol(char: str) -> bool:
    """Whether it is an emoji or the like, which flood as words do."""
    return unicodedata.category(char) == "So" and not _DRAWN.match(char)


def _symbols(text: str) -> str:
    """Its emoji and the like, without their modifiers; a run of one of them is that one."""
    found = list(filter(is_symbol, text))
    return found[0] if len(set(found)) == 1 else "".join(found)


def _owners(words: list[_Word]) -> frozenset[str]:
    """The fewest words, at most four, that own their share of the given ones; empty if none do."""
    counts = Counter(word.text for word in words)
    owned = 0
    # An owner has a share of its own: a frequent word of the prose before must not complete the four.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:FEW]
    ranked = [(word, count) for word, count in ranked if count >= OWN_SHARE * len(words)]
    for size, (_, count) in enumerate(ranked, 1):
        owned += count
        if owned >= SHARE * len(words):
            return frozenset(word for word, _ in ranked[:size])
    return frozenset()


def _stretch(words: list[_Word], few: frozenset[str]) -> int:
    """Index at which the flooded tail begins: read backwards, each flooding word gains what nine of
    them lose with one stranger, and the tail begins where the sum is greatest."""
    best, total, first = 0, 0, len(words)
    for i in range(len(words) - 1, -1, -1):
        total += 1 if words[i].text in few else -9
        if total > best:
            best, first = total, i
    return first


def _symptom(flood: Flood) -> Symptom:
    shown = ", ".join(f"“{word}”" for word in sorted(flood.words))
    return Symptom(
        kind=SymptomKind.FLOODING,
        onset=flood.onset,
        alarm=flood.alarm,
        end=None if flood.standing else flood.last,
        score=1.0 - 0.5 * WINDOW / max(flood.count, WINDOW),
        detail={"words": sorted(flood.words), "count": flood.count},
        summary=f"{flood.count} words in a row are hardly more than {shown}",
    )
