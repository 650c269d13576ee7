"""The causal number: pairs of batches with the same requests, loops uncapped and capped.

Each pair gives one mean log ratio; the interval is Student's t over pairs. Pairs, not requests, are the
independent units: requests of one batch share its engine, and so its loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from stresstest.economics.timeline import wall_clock
from stresstest.model.cost import CostArm, Ratio, Span

CONFIDENCE = 0.95
FEWEST_PAIRS = 3
"""Below it no interval is given: Student's t on one degree of freedom says nothing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The same requests twice: loops uncapped, loops capped at a matched healthy length."""

    loops: tuple[Span, ...]
    capped: tuple[Span, ...]

    @property
    def healthy(self) -> tuple[tuple[Span, Span], ...]:
        """Requests that were healthy in both arms, matched by id."""
        other = {s.id: s for s in self.capped}
        both = ((s, other[s.id]) for s in self.loops if s.id in other)
        return tuple((a, b) for a, b in both if a.healthy and b.healthy)

    @property
    def quiet(self) -> bool:
        """Whether neither arm has a loop or a stand-in for one: it tells nothing of what loops cost."""
        return not any(s.loops or s.planted for s in (*self.loops, *self.capped))


def pairs(spans: Iterable[Span]) -> list[Pair]:
    """The complete pairs of batches, in order of their numbers. Scouts belong to none.

    A batch without any loop is its own counterfactual: nothing would be capped, so nothing is sent again.
    """
    found: dict[int, dict[str, list[Span]]] = {}
    for span in spans:
        if span.pair is not None and span.arm in (CostArm.LOOPS, CostArm.CAPPED):
            found.setdefault(span.pair, {}).setdefault(span.arm, []).append(span)
    result = []
    for _, arms in sorted(found.items()):
        loops = tuple(arms.get(CostArm.LOOPS, ()))
        capped = tuple(arms.get(CostArm.CAPPED, ()))
        if loops and not capped and not any(s.loops or s.planted for s in loops):
            capped = loops
        if loops and capped:
            result.append(Pair(loops, capped))
    return result


def healthy_slowdown(found: Sequence[Pair]) -> Ratio | None:
    """What loops cost healthy requests: geometric mean of their durations, over the same ones without loops.

    Nothing is matched but the requests themselves: waiting for a place that a loop holds is part of the
    effect. None without a pair that has a healthy request.
    """
    logs = []
    for pair in found:
        ratios = [_log_ratio(a.duration, b.duration) for a, b in pair.healthy]
        known = [r for r in ratios if r is not None]
        if known:
            logs.append(fmean(known))
    return log_interval(logs, "mean log ratio of healthy durations, paired batches, Student's t")


def wall_clock_ratio(found: Sequence[Pair]) -> Ratio | None:
    """What loops cost the batch: its wall clock over the same batch's with loops capped."""
    logs = [_log_ratio(wall_clock(p.loops), wall_clock(p.capped)) for p in found]
    return log_interval([r for r in logs if r is not None], "log ratio of wall clock, paired, Student's t")


def wall_clocks(found: Sequence[Pair]) -> tuple[float, float] | None:
    """Geometric means of the wall clock, seconds: with loops, and with loops capped. None without pairs."""
    times = [(wall_clock(p.loops), wall_clock(p.capped)) for p in found]
    if not times or any(min(pair) <= 0 for pair in times):
        return None
    with_loops = math.exp(fmean(math.log(a) for a, _ in times))
    return with_loops, math.exp(fmean(math.log(b) for _, b in times))


def log_interval(logs: Sequence[float], method: str) -> Ratio | None:
    """exp of the mean of logs with its 95 % t interval; no interval below three."""
    if not logs:
        return None
    middle, n = fmean(logs), len(logs)
    if n < FEWEST_PAIRS:
        return Ratio(math.exp(middle), None, None, n, method)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * stdev(logs) / math.sqrt(n)
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), n, method)


def tax(wall: float, counterfactual: float) -> tuple[float, float]:
    """(share of the observed time that is lost, how much longer than without loops): two numbers, never one.

    The source's 7.3 minutes against 4.2 are a share of 42.5 % and an inflation of 73.8 %.
    """
    if wall <= 0 or counterfactual <= 0:
        raise ValueError("times are above zero")
    return 1.0 - counterfactual / wall, wall / counterfactual - 1.0


def matched_lengths(
    loopers: Sequence[str], healthy: Mapping[str, int], *, seed: int, fallback: int
) -> dict[str, int]:
    """A healthy length for each looper, drawn from the healthy requests of the same batch.

    A draw, not the mean, so that the capped batch has the spread of a healthy one. healthy: id → output
    tokens. fallback: where nothing was healthy.
    """
    from random import Random

    random = Random(f"matched {seed}")
    lengths = [length for _, length in sorted(healthy.items()) if length > 0]
    return {looper: random.choice(lengths) if lengths else fallback for looper in sorted(loopers)}


def _log_ratio(one: float, other: float) -> float | None:
    return math.log(one / other) if one > 0 and other > 0 else None
