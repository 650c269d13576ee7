"""The engine's part: a healthy request's time per token while a loop is alive, against without.

Moments are matched on how many requests run, on the tokens that the others hold, and on whether a request
waits for its first token (then steps read prompts as well), so what is left is what the loops' own growing
cache does to a step. Concurrency lost to loops is matched away on purpose here; it belongs to
`healthy_slowdown`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from stresstest.economics.timeline import Moment, batches, held, moments, written
from stresstest.model.cost import Ratio, Span

WIDTH = 1.15
"""A stratum's widest running count and resident tokens are so many times its narrowest."""
LEAST_TOKENS = 50.0
"""Healthy tokens that a stratum needs on both sides."""
DRAWS = 400
METHOD = "time per token inside and outside loops, matched strata, bootstrap over batches"

Stratum = tuple[int, int, bool]


@dataclass(slots=True)
class Side:
    """Healthy seconds and tokens of a stratum, on one side."""

    seconds: float = 0.0
    tokens: float = 0.0


Cells = dict[tuple[Stratum, bool], Side]


def step_ratio(spans: Iterable[Span], *, seed: int = 0) -> Ratio | None:
    """Time per token inside over outside, 95 % interval by a bootstrap over pairs of batches.

    Batches without loops serve as outside. None where no stratum has both sides. n: strata.
    """
    clusters: dict[object, list[Cells]] = {}
    for label, batch in batches(spans).items():
        pair = batch[0].pair
        clusters.setdefault(label if pair is None else pair, []).append(cells(batch))
    groups = list(clusters.values())
    whole = matched_ratio([c for group in groups for c in group])
    if whole is None:
        return None
    value, strata = whole
    if len(groups) < 3:
        return Ratio(value, None, None, strata, METHOD)
    random = Random(seed)
    draws = []
    for _ in range(DRAWS):
        drawn = matched_ratio([c for _ in groups for c in random.choice(groups)])
        if drawn is not None:
            draws.append(math.log(drawn[0]))
    if len(draws) < DRAWS // 2:
        return Ratio(value, None, None, strata, METHOD)
    draws.sort()
    lo, hi = draws[round(0.025 * (len(draws) - 1))], draws[round(0.975 * (len(draws) - 1))]
    return Ratio(value, math.exp(lo), math.exp(hi), strata, METHOD)


def cells(spans: Sequence[Span]) -> Cells:
    """One batch's healthy seconds and tokens by stratum and side."""
    found: Cells = {}
    for moment in moments(spans):
        side = found.setdefault((stratum(moment), bool(moment.looping)), Side())
        for span in moment.running:
            # Before its first token a request waits for its prompt: that is no time per token.
            if span.healthy and span.first_token is not None and span.first_token <= moment.start:
                side.seconds += moment.seconds
                side.tokens += written(span, moment.end) - written(span, moment.start)
    return found


def stratum(moment: Moment) -> Stratum:
    """Where a moment belongs: how many run, tokens that those outside loops hold, whether one is arriving."""
    looping = {id(s) for s in moment.looping}
    others = sum(held(s, moment.middle) for s in moment.running if id(s) not in looping)
    return _bin(len(moment.running)), _bin(others), moment.arriving


def _bin(value: float) -> int:
    return round(math.log(max(value, 1.0)) / math.log(WIDTH))


def matched_ratio(parts: Sequence[Cells]) -> tuple[float, int] | None:
    """The strata's log ratios, weighted by the harmonic mean of their tokens; and how many strata count."""
    total: Cells = {}
    for part in parts:
        for key, side in part.items():
            sum_ = total.setdefault(key, Side())
            sum_.seconds += side.seconds
            sum_.tokens += side.tokens
    weighted = weights = 0.0
    strata = 0
    for (where, inside), side in total.items():
        other = total.get((where, False))
        if not inside or other is None or min(side.tokens, other.tokens) < LEAST_TOKENS:
            continue
        weight = 1.0 / (1.0 / side.tokens + 1.0 / other.tokens)
        weighted += weight * math.log(side.seconds / side.tokens * other.tokens / other.seconds)
        weights += weight
        strata += 1
    return (math.exp(weighted / weights), strata) if strata else None
