"""Worlds of known truth for calibration: joint laws of onset, natural end and alarm delay, and their q(T).

An onset or an early end is a quantile function of a standard normal score; the two scores of one answer
may be correlated. What an answer was asked for ends it too: `units` x tokens a unit takes x a jitter.
The truth is computed, not simulated: onsets are laid on a fine grid of equally likely scores, and the
chance that the answer has not ended by then is known for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
NEVER = 1e9
NODES = 20_000
# The length asked for is met within this share, evenly.
JITTER = 0.1


@dataclass(frozen=True, slots=True)
class Law:
    """A position in tokens. at: from standard normal scores to positions, ascending; score: its inverse."""

    at: Callable[[Floats], Floats]
    score: Callable[[Floats], Floats]


def lognormal(median: float, sigma: float) -> Law:
    """Lognormal positions; the coefficient of variation is close to `sigma` where that is small."""
    return Law(
        lambda z: median * np.exp(sigma * z),
        lambda t: np.log(np.maximum(t, 1e-9) / median) / sigma,
    )


def weibull(scale: float, shape: float) -> Law:
    """Weibull positions."""
    return Law(
        lambda z: scale * (-np.log(ndtr(-z))) ** (1.0 / shape),
        lambda t: -ndtri(np.exp(-((np.maximum(t, 1e-9) / scale) ** shape))),
    )


def uniform(low: float, high: float) -> Law:
    """Evenly spread positions."""
    return Law(
        lambda z: low + (high - low) * ndtr(z),
        lambda t: ndtri(np.clip((t - low) / (high - low), 0.0, 1.0)),
    )


def never() -> Law:
    """It does not happen."""
    return Law(lambda z: np.full_like(z, NEVER), lambda t: np.full_like(t, -np.inf))


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the answers. rho: correlation of the scores of onset and early end."""

    weight: float
    onset: Law
    end: Law = field(default_factory=never)
    rho: float = 0.0


@dataclass(frozen=True, slots=True)
class Losses:
    """Service failures: a share of requests cut or stalled at a place that knows nothing of the text."""

    share: float
    latest: float = 1500.0


@dataclass(frozen=True, slots=True)
class World:
    """A model of known truth.

    delay: median tokens from onset to alarm. ends_anyway: a failing answer ends when it would have ended
    in health (drift), instead of never (loops). narrow: coefficient of variation of onsets <= 0.2, all
    within the horizon. per_unit: tokens that a unit takes. shy: an answer asked for more units than the first
    number ends by the law, in health, if nothing has ended it before. unseen: share of the failing answers
    that end before their alarm and are counted healthy to their end.
    """

    name: str
    parts: tuple[Part, ...]
    horizon: int = 16_384
    per_unit: float = 64.0
    delay: float = 60.0
    ends_anyway: bool = False
    narrow: bool = False
    losses: Losses | None = None
    shy: tuple[int, Law] | None = None
    unseen: float = 0.0


def _world(name: str, onset: Law, end: Law | None = None, rho: float = 0.0, **more: object) -> World:
    return World(name, (Part(1.0, onset, end or never(), rho),), **more)  # type: ignore[arg-type]


WORLDS: tuple[World, ...] = (
    _world("lognormal, cv 0.1", lognormal(900, 0.1), narrow=True),
    _world("lognormal, cv 0.2", lognormal(900, 0.2), narrow=True),
    _world("lognormal, cv 0.2, late", lognormal(5200, 0.2), narrow=True),
    _world("lognormal, cv 0.2, short horizon", lognormal(900, 0.2), narrow=True, horizon=2048),
    _world("lognormal, wide", lognormal(900, 0.8)),
    _world("weibull, shape 1.3", weibull(1200, 1.3)),
    World("mixture, 70 % never", (Part(0.3, lognormal(900, 0.3)), Part(0.7, never())), horizon=4096),
    World("mixture, 40 % never", (Part(0.6, lognormal(900, 0.3)), Part(0.4, never())), horizon=4096),
    World(
        "rare early onsets",
        (Part(0.008, uniform(20, 400)), Part(0.992, lognormal(1500, 0.3))),
        horizon=4096,
    ),
    World(
        "early onsets near alpha",
        (Part(0.045, uniform(20, 400)), Part(0.955, lognormal(1500, 0.3))),
        horizon=4096,
    ),
    _world("beyond the cap", lognormal(9000, 0.2), horizon=4096),
    _world("never fails", never(), horizon=4096),
    _world("heavy natural ends", lognormal(900, 0.35), lognormal(700, 0.6), horizon=4096),
    _world("ends with failure", lognormal(900, 0.35), lognormal(900, 0.5), 0.64, horizon=4096),
    _world("ends against failure", lognormal(900, 0.35), lognormal(900, 0.5), -0.64, horizon=4096),
    _world(
        "heavy ends, failing answers end too",
        lognormal(900, 0.35),
        lognormal(700, 0.6),
        horizon=4096,
        ends_anyway=True,
    ),
    _world(
        "the same, slow alarm",
        lognormal(900, 0.35),
        lognormal(700, 0.6),
        horizon=4096,
        ends_anyway=True,
        delay=200.0,
    ),
    _world(
        "the same, a fifth unseen",
        lognormal(900, 0.35),
        lognormal(700, 0.6),
        horizon=4096,
        ends_anyway=True,
        delay=200.0,
        unseen=0.2,
    ),
    _world("slow alarm", lognormal(900, 0.2), narrow=True, delay=250.0),
    _world(
        "asked for more, writes less",
        lognormal(950, 0.2),
        shy=(19, lognormal(230, 0.15)),
        narrow=True,
        horizon=4096,
    ),
    _world("the same, ends at the onset", lognormal(900, 0.5), shy=(19, lognormal(650, 0.3)), horizon=4096),
    _world(
        "the same, failing answers end too",
        lognormal(900, 0.5),
        shy=(19, lognormal(650, 0.3)),
        horizon=4096,
        ends_anyway=True,
        delay=200.0,
    ),
)


def _lossy(name: str) -> World:
    """A fifth of the requests fail: a third of those before the first token (tried again), the rest later."""
    (world,) = (w for w in WORLDS if w.name == name)
    losses = Losses(0.2 * 2 / 3)
    return replace(world, name=f"20 % fail: {name}", losses=losses, horizon=min(world.horizon, 4096))


LOSSY: tuple[World, ...] = tuple(
    map(
        _lossy,
        (
            "lognormal, cv 0.2",
            "lognormal, wide",
            "mixture, 40 % never",
            "heavy natural ends",
            "heavy ends, failing answers end too",
            "never fails",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Draws:
    """Answers not yet asked for. onset, end: tokens (ends in health there by itself); stretch: of the
    length asked for; delay: alarm - onset; tail: tokens of a sentence or candidate that is open when the
    answer is stopped; lost: token at which the service loses it; shy: where it ends if asked for too much;
    unseen: 1 where a failure that ends before its alarm leaves nothing open."""

    onset: Floats
    end: Floats
    stretch: Floats
    delay: Floats
    tail: Floats
    lost: Floats
    shy: Floats
    unseen: Floats

    def __getitem__(self, key: object) -> Draws:
        return Draws(*(getattr(self, name)[key] for name in self.__dataclass_fields__))


def draw(world: World, rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Independent answers of a world."""
    first = rng.normal(size=shape)
    second = rng.normal(size=shape)
    onset = np.full(shape, NEVER)
    end = np.full(shape, NEVER)
    which = rng.random(shape) if len(world.parts) > 1 else np.zeros(shape)
    edge = 0.0
    for part in world.parts:
        mine = (which >= edge) & (which < edge + part.weight)
        edge += part.weight
        scores = part.rho * first[mine] + np.sqrt(1.0 - part.rho**2) * second[mine]
        onset[mine] = part.onset.at(first[mine])
        end[mine] = part.end.at(scores)
    lost = np.full(shape, NEVER)
    if world.losses is not None:
        cut = rng.random(shape) < world.losses.share
        lost[cut] = np.ceil(rng.uniform(1.0, world.losses.latest, size=int(cut.sum())))
    shy = np.full(shape, NEVER) if world.shy is None else np.ceil(world.shy[1].at(rng.normal(size=shape)))
    return Draws(
        onset=np.ceil(onset),
        end=np.ceil(end),
        stretch=rng.uniform(1.0 - JITTER, 1.0 + JITTER, size=shape),
        delay=np.ceil(world.delay * np.exp(0.5 * rng.normal(size=shape))),
        tail=np.floor(rng.uniform(0.0, np.where(rng.random(shape) < 0.07, 120.0, 40.0))),
        lost=lost,
        shy=shy,
        unseen=(rng.random(shape) < world.unseen).astype(float) if world.unseen else np.zeros(shape),
    )


@cache
def true_tokens(world: World, alpha: float, units: int) -> int:
    """Largest T with q(T) <= alpha for answers asked for `units`; the horizon where q never exceeds alpha.

    Exact up to the grid of scores (20,000 equally likely onsets a part): its error in q is below 5e-5.
    """
    grid = ndtri((np.arange(NODES) + 0.5) / NODES)
    asked = units * world.per_unit
    parts = [(p, np.ceil(p.onset.at(grid))) for p in world.parts]

    def unended(part: Part, at: Floats) -> Floats:
        """P(natural end >= at | score of the onset), elementwise over the grid."""
        scores = part.end.score(at - 1.0)
        early = ndtr(-(scores - part.rho * grid) / np.sqrt(1.0 - part.rho**2))
        # ceil(asked x stretch) >= at  <=>  stretch > (at - 1) / asked
        low, high = 1.0 - JITTER, 1.0 + JITTER
        length = np.clip((high - (at - 1.0) / asked) / (high - low), 0.0, 1.0)
        found: Floats = early * length
        if world.shy is not None and units > world.shy[0]:
            found = found * ndtr(-world.shy[1].score(at - 1.0))
        return found

    ahead = [(p, o, unended(p, o)) for p, o in parts]

    def risk(tokens: int) -> float:
        bad = sum(p.weight * float(np.mean(np.where(o <= tokens, s, 0.0))) for p, o, s in ahead)
        good = sum(
            p.weight * float(np.mean(np.where(o > tokens, unended(p, np.full(NODES, float(tokens))), 0.0)))
            for p, o in parts
        )
        return bad / (bad + good) if bad > 0.0 else 0.0

    if risk(world.horizon) <= alpha:
        return world.horizon
    low, high = 0, world.horizon  # risk(low) <= alpha < risk(high): q never falls
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if risk(middle) <= alpha else (low, middle)
    return low
