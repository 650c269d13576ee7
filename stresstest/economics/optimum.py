"""Finds the cap that minimises the tokens per useful answer.

A low cap cuts healthy answers; a high cap wastes tokens on loops. Each attempt generates min(its length, cap)
tokens and is useful if it ends by itself, healthy, by then; otherwise it is repeated independently. A useful
answer then costs, by renewal,

    E[min(length, cap)] / P(healthy end by cap)

tokens. Both terms are estimated from the survival of attempts: Kaplan-Meier for all ends together and
Aalen-Johansen for the healthy ones. An answer that a cap cut while healthy is censored there; one that loops
to its cap never ends and stays at risk (a subdistribution). The interval is a bootstrap over prompts, each
with all its attempts: the answers to one prompt are alike, and at temperature 0 they are copies (Davison &
Hinkley 1997, section 3.8).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from stresstest.model import Subject
from stresstest.model.cost import RequestSpan
from stresstest.model.percent import percent

MIN_HEALTHY_ANSWERS = 20
"""Minimum number of healthy answers to report an optimum."""
COST_TOLERANCE = 0.01
"""The smallest cap within this share of the minimum cost is recommended: the curve is flat near it."""
BOOTSTRAP_RESAMPLES = 200
_POINTS = 60
"""Approximate number of points of the curve that are kept for display."""


class AttemptOutcome(StrEnum):
    """How an attempt ended.

    USEFUL: by itself, healthy. USELESS: by itself, degenerate. CUT: by a cap, healthy (its length is
    unknown). ENDLESS: by a cap, degenerate.
    """

    USEFUL = "useful"
    USELESS = "useless"
    CUT = "cut"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class CostAttempt:
    """One attempt. tokens: generated, >= 1. cluster: identifies its prompt, "" if that is not known."""

    tokens: int
    ending: AttemptOutcome
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """Tokens per useful answer, and the share of useful attempts, at one cap."""

    cap: int
    tokens: float
    useful: float


@dataclass(frozen=True, slots=True)
class CapOptimum:
    """The recommended cap; lo, hi: its 95 % bootstrap interval.

    best: the curve at `cap`; uncapped: at the largest observed length. n, useful, endless: number of
    attempts, in total and by outcome. prompts: number of prompts, where an unknown one counts as its own.
    """

    cap: int
    lo: int
    hi: int
    best: CostPoint
    uncapped: CostPoint
    curve: tuple[CostPoint, ...]
    n: int
    useful: int
    endless: int
    prompts: int

    @property
    def saved(self) -> float:
        """Share of the tokens per useful answer that the recommended cap saves against the largest one."""
        return 1.0 - self.best.tokens / self.uncapped.tokens

    @property
    def lacking(self) -> str | None:
        """Why no cap is recommended, as a sentence; None if one is."""
        if not self.endless:
            return (
                "No cheapest max_tokens: no answer went wrong and ran on to its cap, so a lower one saves "
                "nothing."
            )
        if self.saved <= COST_TOLERANCE:
            return (
                f"No cheapest max_tokens: none saves more than {percent(COST_TOLERANCE)} of the tokens "
                "for a useful "
                f"answer at the largest one seen, {self.uncapped.cap:,}."
            )
        return None


@dataclass(frozen=True, slots=True)
class CheapestCap:
    """The cheapest cap of a subject. document: id of the stored `cost` it was computed from. simulated: that
    cost was measured on a simulator. safe: the subject's smallest certified safe max_tokens, if any."""

    subject: Subject
    optimum: CapOptimum
    document: str
    simulated: bool
    safe: int | None = None

    @property
    def above_safe(self) -> bool:
        """Whether the cheapest cap is above the certified safe max_tokens."""
        return self.optimum.lacking is None and self.safe is not None and self.optimum.cap > self.safe


def attempts_from_spans(spans: Iterable[RequestSpan]) -> list[CostAttempt]:
    """The judged requests as attempts; a degenerate one that was given up had no end of its own."""
    return [
        CostAttempt(
            span.output_tokens,
            _attempt_outcome(degenerate=not span.healthy, endless=span.endless),
            span.cluster,
        )
        for span in spans
        if span.judged and span.output_tokens
    ]


def _attempt_outcome(*, degenerate: bool, endless: bool) -> AttemptOutcome:
    """The outcome of an attempt that was degenerate or not, and ended by a cap or a client, or not."""
    if degenerate:
        return AttemptOutcome.ENDLESS if endless else AttemptOutcome.USELESS
    return AttemptOutcome.CUT if endless else AttemptOutcome.USEFUL


def find_cheapest_cap(attempts: Sequence[CostAttempt], *, seed: int = 0) -> CapOptimum | None:
    """The cheapest cap up to the largest observed length; None below `MIN_HEALTHY_ANSWERS` useful answers."""
    useful = sum(each.ending is AttemptOutcome.USEFUL for each in attempts)
    if useful < MIN_HEALTHY_ANSWERS:
        return None
    curve = cost_curve(attempts)
    best = _smallest_cheapest(curve)
    prompts = _by_prompt(attempts)
    rng = random.Random(seed)
    caps = []
    for _ in range(BOOTSTRAP_RESAMPLES):
        sample = list(chain.from_iterable(rng.choices(prompts, k=len(prompts))))
        if any(each.ending is AttemptOutcome.USEFUL for each in sample):
            caps.append(_smallest_cheapest(cost_curve(sample)).cap)
    caps.sort()
    every = max(1, len(curve) // _POINTS)
    return CapOptimum(
        cap=best.cap,
        lo=caps[int(0.025 * len(caps))],
        hi=caps[int(0.975 * (len(caps) - 1) + 0.5)],
        best=best,
        uncapped=curve[-1],
        curve=(*curve[:-1:every], curve[-1]),
        n=len(attempts),
        useful=useful,
        endless=sum(each.ending is AttemptOutcome.ENDLESS for each in attempts),
        prompts=len(prompts),
    )


def _by_prompt(attempts: Sequence[CostAttempt]) -> list[list[CostAttempt]]:
    found: dict[object, list[CostAttempt]] = {}
    for number, each in enumerate(attempts):
        found.setdefault(each.cluster or number, []).append(each)
    return list(found.values())


def cost_curve(attempts: Sequence[CostAttempt]) -> list[CostPoint]:
    """Tokens per useful answer at each length at which a useful answer ended, and at the largest length.

    Between two such caps the cost only increases. Raises ValueError without a useful attempt.
    """
    lengths = sorted({each.tokens for each in attempts})
    by_length: dict[int, list[AttemptOutcome]] = {length: [] for length in lengths}
    for each in attempts:
        by_length[each.tokens].append(each.ending)
    at_risk = len(attempts)
    alive, useful, spent, before = 1.0, 0.0, 0.0, 0
    points: list[CostPoint] = []
    for length in lengths:
        endings = by_length[length]
        goods = endings.count(AttemptOutcome.USEFUL)
        ends = goods + endings.count(AttemptOutcome.USELESS)
        spent += alive * (length - before)
        if ends:
            useful += alive * goods / at_risk
            alive *= 1.0 - ends / at_risk
        at_risk -= len(endings) - endings.count(AttemptOutcome.ENDLESS)
        before = length
        if useful > 0.0 and (goods or length == lengths[-1]):
            points.append(CostPoint(length, spent / useful, useful))
    if not points:
        raise ValueError("no attempt was useful")
    return points


def _smallest_cheapest(curve: Sequence[CostPoint]) -> CostPoint:
    """The smallest cap whose cost is within `COST_TOLERANCE` of the minimum."""
    least = min(point.tokens for point in curve)
    return next(point for point in curve if point.tokens <= least * (1.0 + COST_TOLERANCE))
