"""Pairs of models with a known truth for `check`: a candidate made from a baseline world, and its q(T).

Two kinds of change: every onset earlier or later by a factor, or so many more failures at once that the
candidate's risk at the realised T is exactly what is wanted, T being different in every campaign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.calibrate_worlds import JITTER, NODES, WORLDS, Draws, Floats, Law, Part, World
from benchmarks.campaigns import Flags

EARLY = 12.0
"""Tokens within which the failures that are added begin: before any answer has ended."""
SHARED = 0.5
"""Share of the prompts on which candidate and baseline draw the same scores: hard for both, or for none."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What the candidate does to the baseline's onsets.

    factor: onsets times this. points: added to the baseline's risk at T; at: the risk at T in units of alpha,
    instead (1: alpha itself; 2: alpha + alpha).
    """

    name: str
    factor: float = 1.0
    points: float | None = None
    at: float | None = None


EFFECTS = (
    Effect("the same"),
    Effect("better: 25 % later", factor=1.25),
    Effect("worse by 1 point", points=0.01),
    Effect("worse by 3 points", points=0.03),
    Effect("worse by 10 points", points=0.10),
    Effect("onset 10 % earlier", factor=0.9),
    Effect("onset 20 % earlier", factor=0.8),
    Effect("onset 30 % earlier", factor=0.7),
    Effect("onset 50 % earlier", factor=0.5),
    Effect("risk exactly α", at=1.0),
    Effect("risk exactly α + Δ", at=2.0),
)
PAIR_EFFECTS = (*EFFECTS[:-2], Effect("worse by exactly Δ", at=-1.0))
"""at -1: the baseline's own risk at T plus alpha."""


def scaled(world: World, factor: float) -> World:
    """The world with every onset times `factor`."""
    if factor == 1.0:
        return world
    parts = tuple(replace(part, onset=_scaled(part.onset, factor)) for part in world.parts)
    return replace(world, name=f"{world.name} x {factor}", parts=parts)


def _scaled(law: Law, factor: float) -> Law:
    return Law(lambda z: factor * law.at(z), lambda t: law.score(t / factor))


class Truth:
    """P(degenerate by T) and P(healthy and not ended at T) of a world, for answers asked for `units`."""

    def __init__(self, world: World, units: int) -> None:
        self._world, self._asked = world, units * world.per_unit
        self._grid = ndtri((np.arange(NODES) + 0.5) / NODES)
        self._parts = []
        for part in world.parts:
            onset = np.ceil(part.onset.at(self._grid))
            chance = part.weight * self._unended(part, onset) / NODES
            self._parts.append((part, onset, np.concatenate([[0.0], np.cumsum(chance)])))
        self._known: dict[int, tuple[float, float]] = {}

    def _unended(self, part: Part, at: Floats) -> Floats:
        """P(natural end >= at | score of the onset), elementwise over the grid."""
        scores = part.end.score(at - 1.0)
        early = ndtr(-(scores - part.rho * self._grid) / np.sqrt(1.0 - part.rho**2))
        low, high = 1.0 - JITTER, 1.0 + JITTER
        found: Floats = early * np.clip((high - (at - 1.0) / self._asked) / (high - low), 0.0, 1.0)
        return found

    def at(self, tokens: int) -> tuple[float, float]:
        if tokens not in self._known:
            bad = good = 0.0
            for part, onset, failing in self._parts:
                first = int(np.searchsorted(onset, tokens, side="right"))
                bad += float(failing[first])
                alive = self._unended(part, np.full(NODES, float(tokens)))
                good += part.weight * float(np.sum(alive[first:])) / NODES
            self._known[tokens] = bad, good
        return self._known[tokens]


@cache
def _truth(world: World, units: int) -> Truth:
    return Truth(world, units)


def risks(world: World, tokens: Floats, units: Floats) -> tuple[Floats, Floats]:
    """(q(T), P(not healthily ended by T)) for each campaign's T and requested units."""
    pairs = np.stack([tokens, units], axis=1).astype(np.int64)
    unique, place = np.unique(pairs, axis=0, return_inverse=True)
    found = np.array([_truth(world, int(u)).at(int(t)) for t, u in unique])
    total = found.sum(axis=1)
    q = np.divide(found[:, 0], total, out=np.zeros(len(total)), where=total > 0)
    return q[place.ravel()], total[place.ravel()]


def added_share(q: Floats, not_ended: Floats, wanted: Floats) -> Floats:
    """Share of answers that must fail at once so that the risk q(T) becomes `wanted` (>= q)."""
    odds = not_ended * (wanted - q) / np.maximum(1.0 - wanted, 1e-12)
    found: Floats = odds / (1.0 + odds)
    return found


def changed(draws: Draws, effect: Effect, share: Floats, rng: np.random.Generator) -> Draws:
    """The candidate's answers from a baseline's. share: one a campaign, of answers that fail at once."""
    onset = np.ceil(draws.onset * effect.factor)
    early = rng.random(onset.shape) < share[:, None]
    at_once = np.ceil(rng.uniform(0.0, EARLY, size=onset.shape))
    return replace(draws, onset=np.where(early, at_once, onset))


def alike(first: Draws, second: Draws, same: Flags) -> Draws:
    """`second`, with the answers of `first` where `same`; what the service does stays its own."""
    names = ("onset", "end", "stretch", "delay", "tail")
    mixed = {name: np.where(same, getattr(first, name), getattr(second, name)) for name in names}
    return Draws(**mixed, lost=second.lost, shy=second.shy, unseen=second.unseen)


def world_named(name: str) -> World:
    (found,) = (world for world in WORLDS if world.name == name)
    return found
