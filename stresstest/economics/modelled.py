"""What one batch, or a log, can say: a computed counterfactual, and the naive comparison for contrast.

The first is the method of the source case: give each looping request an average healthy duration and lay the
batch out anew. It takes the healthy durations as they were, so what loops did to them stays in: it
understates the cost. No interval belongs to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from statistics import fmean

from stresstest.economics.paired import tax
from stresstest.economics.timeline import batches, loop_interval
from stresstest.model.cost import Modelled, Naive, Span

METHOD = "each looping request replaced by one of average healthy duration (the source's method)"
BIAS = (
    "immortal-time bias: a long request meets a loop because it is long, and a loop lengthens the time in "
    "which it is met; what it costs cannot be read from this"
)
_AT_ONCE = 0.25
"""A submission counts as an answer to an end this share of the mean duration before it."""


def in_flight(spans: Sequence[Span]) -> int:
    """The most requests that were under way at once."""
    events = sorted([(s.submitted, 1) for s in spans] + [(s.end, -1) for s in spans])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def closed_loop(spans: Sequence[Span]) -> bool:
    """Whether clients seem to have waited for an answer before they sent the next request.

    True when nearly every submission after the first wave follows an end at once. An open loop (arrivals of
    their own) is told by its submissions that follow nothing.
    """
    places = in_flight(spans)
    submitted = sorted(s.submitted for s in spans)
    later = submitted[places:]
    if not later:
        return True
    ends = sorted(s.end for s in spans)
    patience = _AT_ONCE * fmean(s.duration for s in spans) / max(places, 1)
    # The k-th submission after the first wave answers the k-th end.
    answered = sum(0 <= at - end <= patience for at, end in zip(later, ends, strict=False))
    return answered >= 0.8 * len(later)


def laid_out(durations: Sequence[float], places: int) -> float:
    """Seconds until the last of the requests is over, taken in order by so many places."""
    free = [0.0] * max(1, places)
    last = 0.0
    for duration in durations:
        end = heapq.heappop(free) + duration
        heapq.heappush(free, end)
        last = max(last, end)
    return last


def source_method(spans: Sequence[Span], *, places: int | None = None) -> Modelled | None:
    """One batch with its loopers replaced by average healthy requests; None without any healthy one.

    places: requests in flight at once; None: the most that were seen. An open loop keeps its arrivals.
    """
    order = sorted((s for s in spans if s.failure is None), key=lambda s: s.submitted)
    lengths = [s.duration for s in order if s.healthy]
    if not lengths:
        return None
    average = fmean(lengths)
    durations = [s.duration for s in order]
    replaced = [average if s.loops or s.planted else s.duration for s in order]
    if closed_loop(order):
        size = places or in_flight(order)
        wall, counterfactual = laid_out(durations, size), laid_out(replaced, size)
    else:
        first = order[0].submitted
        wall = max(s.end for s in order) - first
        counterfactual = max(s.submitted - first + d for s, d in zip(order, replaced, strict=True))
    if wall <= 0 or counterfactual <= 0:
        return None
    share, inflation = tax(wall, counterfactual)
    return Modelled(METHOD, wall, counterfactual, share, inflation)


def naive(spans: Sequence[Span]) -> Naive | None:
    """Healthy requests that met a live loop against those that met none; None where one side is empty."""
    inside: list[float] = []
    outside: list[float] = []
    for batch in batches(spans).values():
        loops = [found for s in batch if (found := loop_interval(s)) is not None]
        for span in batch:
            if span.healthy:
                met = any(start < span.end and span.submitted < end for start, end in loops)
                (inside if met else outside).append(span.duration)
    if not inside or not outside or fmean(outside) <= 0:
        return None
    a, b = fmean(inside), fmean(outside)
    return Naive(a, b, a / b, len(inside), len(outside), BIAS)
