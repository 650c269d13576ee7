"""From text to emitted tokens: what each piece is in its sentence, and how sure the model was of it.

A model is sure of what ends a word and of most function words, and open where a content word or a
sentence begins. So each piece has a class, each class a spread of entropies, and each sentence a drift.
"""

from __future__ import annotations

import random
from functools import lru_cache
from math import exp, log

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing.grammar import LANGUAGES, load
from stresstest.simulation.engine.writing.shapes import (
    RANKS,
    SHAPES,
    Written,
    cumulative,
    drawn_rank,
    shape_of,
    shapes,
)

FRAME, SURE, FUNCTION, CONTENT, MARK, OPEN = range(6)
"""Labels and numbers · the rest of a word · function words · content words · punctuation · beginnings."""

Pieces = list[tuple[int, int]]
"""(token id, class)."""

_SPREAD = {
    FRAME: (0.004, 0.05),
    SURE: (0.02, 0.35),
    FUNCTION: (0.12, 1.2),
    CONTENT: (1.0, 2.75),
    MARK: (0.25, 1.3),
    OPEN: (1.7, 2.8),
}
"""Nats, between which a class's entropies lie, evenly in the logarithm."""
_STEPS = 64
_STRIDE = _STEPS * 0.6180339887498949
"""Golden-ratio steps through a class's spread: its level stays where it is, token by token it varies."""
_DRIFT_SD = 0.03
_DRIFT_KEPT = 0.6

_LEAST, _MOST = 1e-6, 7.0
_FINE = 32
"""Steps of the grid of entropies to a factor of e."""
_CELLS = round(log(_MOST / _LEAST) * _FINE)


def _cell(entropy: float) -> int:
    """The entropy's cell on the logarithmic grid."""
    return round(log(max(entropy, _LEAST) / _LEAST) * _FINE)


def _spread(low: float, high: float) -> tuple[int, ...]:
    return tuple(_cell(low * (high / low) ** ((i + 0.5) / _STEPS)) for i in range(_STEPS))


_OPEN_CELL = _cell(2.0)
_CELLS_OF = tuple(_spread(*_SPREAD[kind]) for kind in range(6))


@lru_cache(maxsize=1)
def _grid() -> tuple[int, ...]:
    """Shape of every cell."""
    return tuple(shape_of(_LEAST * exp(i / _FINE)) for i in range(_CELLS + 1))


@lru_cache(maxsize=1 << 15)
def _chunk(chunk: str, language: str) -> tuple[tuple[int, int], ...]:
    word = chunk.strip(" '’")
    if not word[:1].isalpha():
        kind = FRAME if word.isdigit() or not word else MARK
    elif len(word) <= 3 or word.lower() in load(language).function_words:
        kind = FUNCTION
    else:
        kind = CONTENT
    ids = vocabulary.chunk_ids(chunk)
    return tuple((piece, kind if i == 0 or kind in (FRAME, MARK) else SURE) for i, piece in enumerate(ids))


def pieces(text: str, language: str, first: int | None = None) -> Pieces:
    """The text's tokens with their classes; `first` overrules the class of the first one."""
    found: Pieces = []
    for chunk in vocabulary.chunks(text):
        found += _chunk(chunk, language)
    if first is not None and found:
        found[0] = (found[0][0], first)
    return found


def label(text: str) -> Pieces:
    """The tokens of a heading: all but certain."""
    return [(each, FRAME) for each in vocabulary.encode(text)]


class Ink:
    """Draws the distribution behind every piece. One per voice: it holds the drift of its sentences."""

    def __init__(self, language: str, temperature: float, rng: random.Random) -> None:
        self._rng = rng
        self._tables = cumulative(round(max(temperature, 0.0), 2))
        self._language = LANGUAGES.index(language) if language in LANGUAGES else 0
        self._drift = 0.0
        self._grid = _grid()
        self._places = [rng.random() * _STEPS for _ in _SPREAD]

    def write(self, found: Pieces, factor: float | list[float] = 1.0, loose: float = 1.0) -> list[Written]:
        """The pieces as emitted. factor: of every entropy, or one a piece. loose: further factor of what
        a coherent model is sure of (1: coherent)."""
        draw, tables, known, grid = self._rng.random, self._tables, shapes(), self._grid
        self._drift = _DRIFT_KEPT * self._drift + self._rng.gauss(0.0, _DRIFT_SD)
        several = factor if isinstance(factor, list) else None
        shift = round(self._drift * _FINE)
        if several is None:
            assert isinstance(factor, float)
            shift += round(log(factor) * _FINE)
        unsure = round(log(loose) * _FINE)
        first = self._language * SHAPES * RANKS
        written: list[Written] = []
        places = self._places
        for at, (piece, kind) in enumerate(found):
            places[kind] = place = (places[kind] + _STRIDE) % _STEPS
            cell = _CELLS_OF[kind][int(place)] + shift
            if several is not None:
                cell += round(log(several[at]) * _FINE)
            if unsure and kind <= FUNCTION:
                cell = min(cell + unsure, max(cell, _OPEN_CELL))
            shape = grid[cell if 0 <= cell <= _CELLS else 0 if cell < 0 else _CELLS]
            has = known[shape]
            chance = draw()
            table = tables[shape]
            if chance < table[0]:
                rank, level = 0, first + shape * RANKS
            else:
                rank = drawn_rank(table, chance)
                level = first + shape * RANKS + (rank if rank < RANKS else RANKS - 1)
            written.append(Written(piece, has.logprobs[rank], has.entropy, level))
        return written
