"""What a flood is while it is followed, and a word of the windows that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class FloodRun:
    """requested_count: how many of its words were requested; beyond them it is a symptom, until then open."""

    words: frozenset[str]
    onset: int
    alarm: int
    last: int
    count: int
    requested_count: int = 0
    active: bool = True

    def overlaps(self, other: FloodRun) -> bool:
        return self.onset <= other.last and other.onset <= self.last


class WindowWord(NamedTuple):
    """A word of the window: its text, its token, and the figures, tokens and breaks (lines, commas) before
    it."""

    text: str
    position: int
    figures: int
    tokens: int
    breaks: int


def flood_start(words: Sequence[WindowWord], few: frozenset[str]) -> int:
    """Index at which the flooded tail begins: read backwards, each flooding word gains what nine of them lose
    with one other word, and the tail begins where the sum is greatest."""
    best, total, first = 0, 0, len(words)
    for i in range(len(words) - 1, -1, -1):
        total += 1 if words[i].text in few else -9
        if total > best:
            best, first = total, i
    return first
