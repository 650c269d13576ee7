"""Estimates from single batches or a log: a computed counterfactual, and a naive comparison for contrast.

The counterfactual uses the method of the source case: replace the duration of each looping request by the
average healthy duration and schedule the batch again. It keeps the healthy durations as measured, including
the slowdown by loops, so it underestimates the cost. It has no confidence interval.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean

from stresstest.economics.paired import loop_tax
from stresstest.economics.timeline import group_spans_by_batch, loop_interval
from stresstest.model.cost import ModelledCost, NaiveComparison, RequestSpan

SUBSTITUTION_METHOD = (
    "each looping request replaced by one of average healthy duration (as the authors of DharmaOCR did)"
)
IMMORTAL_TIME_BIAS = (
    "immortal-time bias: a long request meets a loop because it is long, and a loop lengthens the time in "
    "which it is met, so this does not show what loops cost"
)
_AT_ONCE = 0.25
"""A submission follows an end if they are within this share of the mean duration per client."""


def peak_in_flight(spans: Sequence[RequestSpan]) -> int:
    """Maximum number of concurrent requests.

    A request that is submitted just before another one is logged as ended has waited for it: clocks and
    loggers are late by milliseconds, and one such pair would count as a client more.
    """
    late = _AT_ONCE * _duration_per_client(spans, _overlap(spans, 0.0))
    return _overlap(spans, late)


def _duration_per_client(spans: Sequence[RequestSpan], clients: int) -> float:
    return fmean(s.duration for s in spans) / max(clients, 1) if spans else 0.0


def _overlap(spans: Sequence[RequestSpan], late: float) -> int:
    """The most requests at the same moment, if no end was logged more than `late` seconds late."""
    ends = [(max(s.submitted, s.end - late), -1) for s in spans]
    events = sorted([(s.submitted, 1) for s in spans] + ends)
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def is_closed_loop(spans: Sequence[RequestSpan]) -> bool:
    """Whether clients apparently waited for a response before sending the next request.

    True if nearly all submissions after the first wave immediately follow the end of a request. In an open
    loop, where arrivals are independent of responses, they do not.
    """
    places = peak_in_flight(spans)
    submitted = sorted(s.submitted for s in spans)
    later = submitted[places:]
    if not later:
        return True
    ends = sorted(s.end for s in spans)
    patience = _AT_ONCE * _duration_per_client(spans, places)
    # In a closed loop the k-th submission after the first wave is at the k-th end.
    answered = sum(abs(at - end) <= patience for at, end in zip(later, ends, strict=False))
    return answered >= 0.8 * len(later)


def makespan(durations: Sequence[float], places: int) -> float:
    """Seconds until the last request ends, if they are processed in order with `places` at a time."""
    free = [0.0] * max(1, places)
    last = 0.0
    for duration in durations:
        end = heapq.heappop(free) + duration
        heapq.heappush(free, end)
        last = max(last, end)
    return last


def substitute_loops(spans: Sequence[RequestSpan]) -> ModelledCost | None:
    """One batch with its loops replaced by requests of average healthy duration; None without a healthy one.

    A closed loop is scheduled at its peak concurrency; an open loop keeps its arrival times.
    """
    order = sorted((s for s in spans if s.failure is None or s.loops), key=lambda s: s.submitted)
    lengths = [s.duration for s in order if s.healthy]
    if not lengths:
        return None
    average = fmean(lengths)
    durations = [s.duration for s in order]
    replaced = [average if s.loops or s.planted else s.duration for s in order]
    if is_closed_loop(order):
        size = peak_in_flight(order)
        wall, counterfactual = makespan(durations, size), makespan(replaced, size)
    else:
        first = order[0].submitted
        wall = max(s.end for s in order) - first
        counterfactual = max(s.submitted - first + d for s, d in zip(order, replaced, strict=True))
    if wall <= 0 or counterfactual <= 0:
        return None
    share, inflation = loop_tax(wall, counterfactual)
    return ModelledCost(SUBSTITUTION_METHOD, wall, counterfactual, share, inflation)


def naive_comparison(spans: Sequence[RequestSpan]) -> NaiveComparison | None:
    """Healthy requests that overlapped a loop against those that did not; None if one side is empty."""
    inside: list[float] = []
    outside: list[float] = []
    for batch in group_spans_by_batch(spans).values():
        loops = sorted(found for s in batch if (found := loop_interval(s)) is not None)
        last_end = list(accumulate((end for _, end in loops), max, initial=-math.inf))
        for span in batch:
            if span.healthy:
                begun = bisect_left(loops, span.end, key=lambda loop: loop[0])
                met = last_end[begun] > span.submitted
                (inside if met else outside).append(span.duration)
    if not inside or not outside or fmean(outside) <= 0:
        return None
    a, b = fmean(inside), fmean(outside)
    return NaiveComparison(a, b, a / b, len(inside), len(outside), IMMORTAL_TIME_BIAS)
