"""Effect of loops on the engine's step: a healthy request's time per token with a loop running, over without.

Intervals are matched on the number of running requests, on the tokens held by requests other than loops, and
on whether a request waits for its first token (steps then also prefill). The remaining difference is the
effect of the loops' growing KV cache on a step. Concurrency lost to loops is deliberately matched away here;
it is part of `healthy_slowdown`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from stresstest.economics.timeline import (
    BatchInterval,
    batch_intervals,
    group_spans_by_batch,
    kv_tokens_at,
    output_tokens_at,
)
from stresstest.model.cost import CostRatio, RequestSpan

STRATUM_RATIO = 1.15
"""Ratio of the largest to the smallest number of running requests, and of held tokens, in a stratum."""
MIN_STRATUM_TOKENS = 50.0
"""Minimum healthy tokens of a stratum, with and without loops."""
BOOTSTRAP_DRAWS = 400
STEP_RATIO_METHOD = "time per token inside and outside loops, matched strata, bootstrap over batches"

Stratum = tuple[int, int, bool]


@dataclass(slots=True)
class StratumTotals:
    """Healthy seconds and tokens of a stratum, either with or without loops."""

    seconds: float = 0.0
    tokens: float = 0.0


StratumCells = dict[tuple[Stratum, bool], StratumTotals]


def step_ratio(spans: Iterable[RequestSpan], *, seed: int = 0) -> CostRatio | None:
    """Time per token with loops over without, with a 95 % interval from a bootstrap over pairs of batches.

    Batches without loops contribute to the second side. n: strata. None if no stratum has both sides.
    """
    clusters: dict[object, list[StratumCells]] = {}
    for label, batch in group_spans_by_batch(spans).items():
        pair = batch[0].pair
        clusters.setdefault(label if pair is None else pair, []).append(stratum_cells(batch))
    groups = list(clusters.values())
    whole = matched_ratio([c for group in groups for c in group])
    if whole is None:
        return None
    value, strata = whole
    if len(groups) < 3:
        return CostRatio(value, None, None, strata, STEP_RATIO_METHOD)
    random = Random(seed)
    draws = []
    for _ in range(BOOTSTRAP_DRAWS):
        drawn = matched_ratio([c for _ in groups for c in random.choice(groups)])
        if drawn is not None:
            draws.append(math.log(drawn[0]))
    if len(draws) < BOOTSTRAP_DRAWS // 2:
        return CostRatio(value, None, None, strata, STEP_RATIO_METHOD)
    draws.sort()
    lo, hi = draws[round(0.025 * (len(draws) - 1))], draws[round(0.975 * (len(draws) - 1))]
    return CostRatio(value, math.exp(lo), math.exp(hi), strata, STEP_RATIO_METHOD)


def stratum_cells(spans: Sequence[RequestSpan]) -> StratumCells:
    """One batch's healthy seconds and tokens by stratum and side (True: with a loop)."""
    found: StratumCells = {}
    for moment in batch_intervals(spans):
        side = found.setdefault((moment_stratum(moment), bool(moment.looping)), StratumTotals())
        for span in moment.running:
            # Before its first token a request waits for prefill, which is no time per token.
            if span.healthy and span.first_token is not None and span.first_token <= moment.start:
                side.seconds += moment.seconds
                side.tokens += output_tokens_at(span, moment.end) - output_tokens_at(span, moment.start)
    return found


def moment_stratum(moment: BatchInterval) -> Stratum:
    """The stratum of an interval: running requests, tokens held outside loops, whether one is arriving."""
    looping = {id(s) for s in moment.looping}
    others = sum(kv_tokens_at(s, moment.middle) for s in moment.running if id(s) not in looping)
    return _bin(len(moment.running)), _bin(others), moment.arriving


def _bin(value: float) -> int:
    return round(math.log(max(value, 1.0)) / math.log(STRATUM_RATIO))


def matched_ratio(parts: Sequence[StratumCells]) -> tuple[float, int] | None:
    """(ratio, number of strata), from log ratios weighted by the harmonic mean of both sides' tokens."""
    total: StratumCells = {}
    for part in parts:
        for key, side in part.items():
            sum_ = total.setdefault(key, StratumTotals())
            sum_.seconds += side.seconds
            sum_.tokens += side.tokens
    weighted = weights = 0.0
    strata = 0
    for (where, inside), side in total.items():
        other = total.get((where, False))
        if not inside or other is None or min(side.tokens, other.tokens) < MIN_STRATUM_TOKENS:
            continue
        weight = 1.0 / (1.0 / side.tokens + 1.0 / other.tokens)
        weighted += weight * math.log(side.seconds / side.tokens * other.tokens / other.seconds)
        weights += weight
        strata += 1
    return (math.exp(weighted / weights), strata) if strata else None
