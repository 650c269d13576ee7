"""Next-token distributions: a ladder of shapes from certain to flat, and the top-k that a server shows.

A shape is p(rank) ~ rank^-s · exp(-rank/tau), a Zipf law with a cut-off: steep for a token the model is
sure of, flat for an open one. What a token's distribution was is a `level`: shape, rank of the emitted
token, and the language from which the alternatives come. Everything a server sends of a token hangs
on its level and its id, so that it can be rendered once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from math import exp, log

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.writing.grammar import LANGUAGES, common_words

TOP = 20
"""Alternatives that a server can be asked for."""
RANKS = TOP + 1
"""Ranks 0..19 of a level are within the top 20; 20 stands for all beyond."""
_STEEP = 120
_FLAT = 40
_FLATTEST = 0.05
_STEEP_SCALE = 6.0
SHAPES = _STEEP + _FLAT


@dataclass(frozen=True, slots=True)
class Written:
    """One token as the model emits it.

    logprob: of the emitted token, nats, raw (before temperature and penalties). entropy: nats, of the
    whole raw distribution. level: index for `alternatives`.
    """

    id: int
    logprob: float
    entropy: float
    level: int


@dataclass(frozen=True, slots=True)
class Shape:
    """logprobs: by rank, descending. entropy: nats."""

    logprobs: tuple[float, ...]
    entropy: float


def _shape(index: int) -> Shape:
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
    return Shape(logprobs, -sum(exp(lp) * lp for lp in logprobs))


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """All shapes, by rising entropy."""
    return tuple(_shape(index) for index in range(SHAPES))


@lru_cache(maxsize=1)
def _entropies() -> list[float]:
    return [shape.entropy for shape in shapes()]


def shape_of(entropy: float) -> int:
    """Index of the shape whose entropy is nearest above, at most the flattest."""
    return min(bisect_left(_entropies(), entropy), SHAPES - 1)


@lru_cache(maxsize=64)
def cumulative(temperature: float) -> tuple[list[float], ...]:
    """Of every shape, the cumulative probabilities by rank at a temperature: what a sampler draws from."""
    if temperature <= 0.0:
        return tuple([1.0] for _ in shapes())
    tables = []
    for shape in shapes():
        weights = [exp((lp - shape.logprobs[0]) / temperature) for lp in shape.logprobs]
        total = sum(weights)
        tables.append(list(accumulate(weight / total for weight in weights)))
    return tuple(tables)


def drawn_rank(table: list[float], chance: float) -> int:
    """Rank (from 0) that a uniform number draws from cumulative probabilities."""
    return min(bisect_right(table, chance), len(table) - 1)


@lru_cache(maxsize=len(LANGUAGES))
def _pool(language: int) -> tuple[int, ...]:
    """Ids of first pieces of common words: what stands beside the emitted token."""
    ids = [vocabulary.encode(" " + word)[0] for word in common_words(LANGUAGES[language])]
    return tuple(dict.fromkeys(ids))


@cache
def _others(language: int, shape: int) -> tuple[int, ...]:
    pool = _pool(language)
    start = shape * 37
    return tuple(pool[(start + 7 * i) % len(pool)] for i in range(min(TOP + 1, len(pool))))


def alternatives(written: Written, k: int) -> list[tuple[int, float]]:
    """The `k` (at most 20) likeliest tokens as (id, logprob), likeliest first.

    The emitted token stands at its rank when that is within `k`.
    """
    rest, rank = divmod(written.level, RANKS)
    language, shape = divmod(rest, SHAPES)
    logprobs = shapes()[shape].logprobs[: min(k, TOP)]
    ids = [other for other in _others(language, shape) if other != written.id]
    if rank < TOP:
        ids.insert(rank, written.id)
    return list(zip(ids, logprobs, strict=False))
