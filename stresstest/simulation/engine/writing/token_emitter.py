"""From text to emitted tokens: what each piece is in its sentence, and how sure the model was of it.

A model is sure of what ends a word and of most function words, and open where a content word or a
sentence begins. So each piece has a class, each class a spread of entropies, and each sentence a drift.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from math import exp, log

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import GRAMMAR_LANGUAGES, common_words, load_grammar

MAX_ALTERNATIVES = 20
"""The most alternatives that a request may ask of a server."""
RANK_COUNT = MAX_ALTERNATIVES + 1
"""Ranks 0..19 of a level are within the top 20; 20 means all beyond."""
_STEEP = 120
_FLAT = 40
_FLATTEST = 0.05
_STEEP_SCALE = 6.0
SHAPE_COUNT = _STEEP + _FLAT


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """One token as the model emits it.

    logprob: of the emitted token, nats, raw (before temperature and penalties). entropy: nats, of the
    whole raw distribution. level: index for `alternatives`. reasoning: the server tells it from the answer.
    """

    id: int
    logprob: float
    entropy: float
    level: int
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class DistributionShape:
    """logprobs: by rank, descending. entropy: nats."""

    logprobs: tuple[float, ...]
    entropy: float


def _shape(index: int) -> DistributionShape:
    """Shape `index`: entropy rises from under 1e-5 nats to about 7."""
    if index < _STEEP:
        # Even steps of log-entropy: entropy is about s·2^-s where s is large.
        power = 18.0 * (1.0 - index / (_STEEP - 1)) ** 1.35 + _FLATTEST
        scale, size = _STEEP_SCALE, 96
    else:
        power = _FLATTEST
        scale = _STEEP_SCALE * 400.0 ** ((index - _STEEP + 1) / _FLAT)
        size = int(min(8.0 * scale, 6000.0))
    weights = [rank**-power * exp(-rank / scale) for rank in range(1, size + 1)]
    total = sum(weights)
    logprobs = tuple(log(weight / total) for weight in weights)
    return DistributionShape(logprobs, -sum(exp(lp) * lp for lp in logprobs))


@lru_cache(maxsize=1)
def distribution_shapes() -> tuple[DistributionShape, ...]:
    """All shapes, by rising entropy."""
    return tuple(_shape(index) for index in range(SHAPE_COUNT))


@lru_cache(maxsize=1)
def _entropies() -> list[float]:
    return [shape.entropy for shape in distribution_shapes()]


def nearest_shape(entropy: float) -> int:
    """Index of the shape whose entropy is nearest above, at most the flattest."""
    return min(bisect_left(_entropies(), entropy), SHAPE_COUNT - 1)


@lru_cache(maxsize=64)
def cumulative_by_shape(temperature: float) -> tuple[list[float], ...]:
    """Of every shape, the cumulative probabilities by rank at a temperature: what a sampler draws from."""
    if temperature <= 0.0:
        return tuple([1.0] for _ in distribution_shapes())
    tables = []
    for shape in distribution_shapes():
        weights = [exp((lp - shape.logprobs[0]) / temperature) for lp in shape.logprobs]
        total = sum(weights)
        tables.append(list(accumulate(weight / total for weight in weights)))
    return tuple(tables)


def sample_rank(table: list[float], chance: float) -> int:
    """Rank (from 0) that a uniform number draws from cumulative probabilities."""
    return min(bisect_right(table, chance), len(table) - 1)


@lru_cache(maxsize=len(GRAMMAR_LANGUAGES))
def _alternative_pool(language: int) -> tuple[int, ...]:
    """Ids of first pieces of common words: what stands beside the emitted token."""
    ids = [vocabulary.encode(" " + word)[0] for word in common_words(GRAMMAR_LANGUAGES[language])]
    return tuple(dict.fromkeys(ids))


@cache
def _others(language: int, shape: int) -> tuple[int, ...]:
    pool = _alternative_pool(language)
    start = shape * 37
    return tuple(pool[(start + 7 * i) % len(pool)] for i in range(min(MAX_ALTERNATIVES + 1, len(pool))))


def alternatives(written: EmittedToken, k: int) -> list[tuple[int, float]]:
    """The `k` (at most 20) likeliest tokens as (id, logprob), likeliest first.

    The emitted token stands at its rank when that is within `k`.
    """
    rest, rank = divmod(written.level, RANK_COUNT)
    language, shape = divmod(rest, SHAPE_COUNT)
    logprobs = distribution_shapes()[shape].logprobs[: min(k, MAX_ALTERNATIVES)]
    ids = [other for other in _others(language, shape) if other != written.id]
    if rank < MAX_ALTERNATIVES:
        ids.insert(rank, written.id)
    return list(zip(ids, logprobs, strict=False))


FRAME, SURE, FUNCTION, CONTENT, MARK, OPEN = range(6)
"""Labels and numbers · the rest of a word · function words · content words · punctuation · beginnings."""

ClassifiedPieces = list[tuple[int, int]]
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
_GRID_STEPS_PER_E = 32
"""Steps of the grid of entropies to a factor of e."""
_CELLS = round(log(_MOST / _LEAST) * _GRID_STEPS_PER_E)


def _entropy_cell(entropy: float) -> int:
    """The entropy's cell on the logarithmic grid."""
    return round(log(max(entropy, _LEAST) / _LEAST) * _GRID_STEPS_PER_E)


def _log_spread(low: float, high: float) -> tuple[int, ...]:
    return tuple(_entropy_cell(low * (high / low) ** ((i + 0.5) / _STEPS)) for i in range(_STEPS))


_OPEN_CELL = _entropy_cell(2.0)
_CELLS_OF = tuple(_log_spread(*_SPREAD[kind]) for kind in range(6))


@lru_cache(maxsize=1)
def _shape_grid() -> tuple[int, ...]:
    """Shape of every cell."""
    return tuple(nearest_shape(_LEAST * exp(i / _GRID_STEPS_PER_E)) for i in range(_CELLS + 1))


@lru_cache(maxsize=1 << 15)
def _chunk(chunk: str, language: str) -> tuple[tuple[int, int], ...]:
    word = chunk.strip(" '’")
    if not word[:1].isalpha():
        kind = FRAME if word.isdigit() or not word else MARK
    elif len(word) <= 3 or word.lower() in load_grammar(language).function_words:
        kind = FUNCTION
    else:
        kind = CONTENT
    ids = vocabulary.chunk_ids(chunk)
    return tuple((piece, kind if i == 0 or kind in (FRAME, MARK) else SURE) for i, piece in enumerate(ids))


def classify_pieces(text: str, language: str, first: int | None = None) -> ClassifiedPieces:
    """The text's tokens with their classes; `first` overrules the class of the first one."""
    found: ClassifiedPieces = []
    for chunk in vocabulary.chunks(text):
        found += _chunk(chunk, language)
    if first is not None and found:
        found[0] = (found[0][0], first)
    return found


def heading_pieces(text: str) -> ClassifiedPieces:
    """The tokens of a heading: all but certain."""
    return [(each, FRAME) for each in vocabulary.encode(text)]


class TokenEmitter:
    """Draws the distribution behind every piece. One per answer: it holds the drift of its sentences."""

    def __init__(self, language: str, temperature: float, rng: random.Random) -> None:
        self._rng = rng
        self._tables = cumulative_by_shape(round(max(temperature, 0.0), 2))
        self._language = GRAMMAR_LANGUAGES.index(language) if language in GRAMMAR_LANGUAGES else 0
        self._drift = 0.0
        self._grid = _shape_grid()
        self._places = [rng.random() * _STEPS for _ in _SPREAD]

    def emit(
        self, found: ClassifiedPieces, factor: float | list[float] = 1.0, entropy_jitter: float = 1.0
    ) -> list[EmittedToken]:
        """The pieces as emitted. factor: of every entropy, or one per piece. entropy_jitter: a further factor
        of the pieces of which a coherent model is sure (1: coherent)."""
        draw, tables, known, grid = self._rng.random, self._tables, distribution_shapes(), self._grid
        self._drift = _DRIFT_KEPT * self._drift + self._rng.gauss(0.0, _DRIFT_SD)
        several = factor if isinstance(factor, list) else None
        shift = round(self._drift * _GRID_STEPS_PER_E)
        if several is None:
            assert isinstance(factor, float)
            shift += round(log(factor) * _GRID_STEPS_PER_E)
        unsure = round(log(entropy_jitter) * _GRID_STEPS_PER_E)
        first = self._language * SHAPE_COUNT * RANK_COUNT
        written: list[EmittedToken] = []
        places = self._places
        for at, (piece, kind) in enumerate(found):
            places[kind] = place = (places[kind] + _STRIDE) % _STEPS
            cell = _CELLS_OF[kind][int(place)] + shift
            if several is not None:
                cell += round(log(several[at]) * _GRID_STEPS_PER_E)
            if unsure and kind <= FUNCTION:
                cell = min(cell + unsure, max(cell, _OPEN_CELL))
            shape = grid[cell if 0 <= cell <= _CELLS else 0 if cell < 0 else _CELLS]
            has = known[shape]
            chance = draw()
            table = tables[shape]
            if chance < table[0]:
                rank, level = 0, first + shape * RANK_COUNT
            else:
                rank = sample_rank(table, chance)
                level = first + shape * RANK_COUNT + (rank if rank < RANK_COUNT else RANK_COUNT - 1)
            written.append(EmittedToken(piece, has.logprobs[rank], has.entropy, level))
        return written
