"""The cap that makes a useful answer cheapest: too low cuts healthy answers, too high lets loops burn.

Every attempt writes min(its length, cap) tokens and is useful when it ends by itself, healthy, by then; what
is not useful is asked again, each attempt like any other. A useful answer then costs, by renewal,

    E[min(length, cap)] / P(healthy end by cap)

tokens. Both come from the survival of attempts: Kaplan-Meier for all ends together and Aalen-Johansen for the
healthy ones, where an answer that a cap cut while healthy is censored there, and one that loops to its end
never ends (a subdistribution: it stays at risk). The interval is of bootstrapped attempts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stresstest.model import Subject
from stresstest.model.cost import Span

FLOOR = 20
"""Healthy answers below which no optimum is told."""
FLAT = 0.01
"""The smallest cap within so much of the least cost is recommended: the curve is flat around its lowest."""
RESAMPLES = 200
_POINTS = 60
"""Points of the curve that are kept to be shown."""


class Ending(StrEnum):
    """How an attempt ended: healthy by itself; degenerate, by itself; healthy, cut by a cap (its end is not
    known); degenerate to the cap, so that only a cap ends it."""

    USEFUL = "useful"
    USELESS = "useless"
    CUT = "cut"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Attempt:
    """tokens: written, >= 1."""

    tokens: int
    ending: Ending


@dataclass(frozen=True, slots=True)
class Point:
    """At this cap: tokens per useful answer, and the share of attempts that are useful."""

    cap: int
    tokens: float
    useful: float


@dataclass(frozen=True, slots=True)
class Optimum:
    """cap: the recommended one; lo, hi: 95 % of bootstrapped samples recommend one in between. best: the
    curve there; uncapped: at the largest length seen. n, useful, endless: attempts that it stands on."""

    cap: int
    lo: int
    hi: int
    best: Point
    uncapped: Point
    curve: tuple[Point, ...]
    n: int
    useful: int
    endless: int

    @property
    def saved(self) -> float:
        """Share of the tokens per useful answer that the recommended cap saves against the largest."""
        return 1.0 - self.best.tokens / self.uncapped.tokens

    @property
    def lacking(self) -> str | None:
        """Why no cap is recommended, in a sentence; None where one is."""
        if not self.endless:
            return (
                "No cheapest max_tokens: no answer went wrong and ran on to its cap, so a lower one saves "
                "nothing."
            )
        if self.saved <= FLAT:
            return (
                f"No cheapest max_tokens: none saves more than {100 * FLAT:.0f} % of the tokens for a useful "
                f"answer at the largest one seen, {self.uncapped.cap:,}."
            )
        return None


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest cap of a subject. document: id of the stored `cost` that it stands on. simulated: whether
    that was a simulator's. safe: the subject's smallest certified safe max_tokens, None without any."""

    subject: Subject
    optimum: Optimum
    document: str
    simulated: bool
    safe: int | None = None

    @property
    def above_safe(self) -> bool:
        """Whether the cheapest cap is above what is certified."""
        return self.optimum.lacking is None and self.safe is not None and self.optimum.cap > self.safe


def attempts_of(spans: Sequence[Span]) -> list[Attempt]:
    """Judged requests as attempts; failures and requests that nobody could judge are left out."""
    return [
        Attempt(span.output_tokens, ending_of(degenerate=not span.healthy, capped=span.capped))
        for span in spans
        if span.failure is None and span.degenerate is not None and span.output_tokens
    ]


def ending_of(*, degenerate: bool, capped: bool) -> Ending:
    """An attempt's ending, from what was wrong with it and whether its cap ended it."""
    if degenerate:
        return Ending.ENDLESS if capped else Ending.USELESS
    return Ending.CUT if capped else Ending.USEFUL


def optimum(attempts: Sequence[Attempt], *, seed: int = 0) -> Optimum | None:
    """The cheapest cap, up to the largest length seen; None with fewer than `FLOOR` healthy answers."""
    useful = sum(each.ending is Ending.USEFUL for each in attempts)
    if useful < FLOOR:
        return None
    curve = cost_curve(attempts)
    best = _lowest(curve)
    rng = random.Random(seed)
    caps = []
    for _ in range(RESAMPLES):
        sample = rng.choices(attempts, k=len(attempts))
        if any(each.ending is Ending.USEFUL for each in sample):
            caps.append(_lowest(cost_curve(sample)).cap)
    caps.sort()
    return Optimum(
        cap=best.cap,
        lo=caps[int(0.025 * len(caps))],
        hi=caps[int(0.975 * (len(caps) - 1) + 0.5)],
        best=best,
        uncapped=curve[-1],
        curve=_thinned(curve),
        n=len(attempts),
        useful=useful,
        endless=sum(each.ending is Ending.ENDLESS for each in attempts),
    )


def cost_curve(attempts: Sequence[Attempt]) -> list[Point]:
    """Tokens per useful answer at every cap at which an answer ended; the last point is the largest length.

    Between two such caps the cost only rises. ValueError without a useful attempt.
    """
    lengths = sorted({each.tokens for each in attempts})
    by_length: dict[int, list[Ending]] = {length: [] for length in lengths}
    for each in attempts:
        by_length[each.tokens].append(each.ending)
    at_risk = len(attempts)
    alive, useful, spent, before = 1.0, 0.0, 0.0, 0
    points: list[Point] = []
    for length in lengths:
        endings = by_length[length]
        goods = endings.count(Ending.USEFUL)
        ends = goods + endings.count(Ending.USELESS)
        spent += alive * (length - before)
        if ends:
            useful += alive * goods / at_risk
            alive *= 1.0 - ends / at_risk
        at_risk -= len(endings) - endings.count(Ending.ENDLESS)
        before = length
        if useful > 0.0 and (goods or length == lengths[-1]):
            points.append(Point(length, spent / useful, useful))
    if not points:
        raise ValueError("no attempt was useful")
    return points


def _lowest(curve: Sequence[Point]) -> Point:
    """The smallest cap that is as cheap as any, but for `FLAT`."""
    least = min(point.tokens for point in curve)
    return next(point for point in curve if point.tokens <= least * (1.0 + FLAT))


def _thinned(curve: Sequence[Point]) -> tuple[Point, ...]:
    every = max(1, len(curve) // _POINTS)
    return (*curve[:-1:every], curve[-1])
