"""Whose the GPU's time, memory and energy were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stresstest.economics.timeline import held, moments
from stresstest.model import GpuSample
from stresstest.model.cost import Span


@dataclass(frozen=True, slots=True)
class Attribution:
    """One batch on one GPU's clock.

    used: seconds with a request running. after_onset: the loops' part of them: each moment is split evenly
    among the requests that run, since a step of continuous batching serves all of them at once.
    kv_loops, kv_all: token-seconds that loops held after their onset, and that all requests held.
    kv_peak: largest share of the resident tokens that loops held at one moment.
    """

    used: float
    after_onset: float
    kv_loops: float
    kv_all: float
    kv_peak: float


def attribute(spans: Sequence[Span]) -> Attribution:
    """Split one batch's time and resident tokens between loops and the rest."""
    used = after = kv_loops = kv_all = peak = 0.0
    for moment in moments(spans):
        used += moment.seconds
        after += moment.seconds * len(moment.looping) / len(moment.running)
        everyone = sum(held(span, moment.middle) for span in moment.running)
        loops = sum(held(span, moment.middle) for span in moment.looping)
        kv_all += everyone * moment.seconds
        kv_loops += loops * moment.seconds
        peak = max(peak, loops / everyone if everyone else 0.0)
    return Attribution(used, after, kv_loops, kv_all, peak)


def wasted_tokens(spans: Iterable[Span]) -> int | None:
    """Output tokens from the onset on, of everything that degenerated; None where nothing was judged."""
    spans = list(spans)
    if all(span.degenerate is None and not span.planted for span in spans):
        return None
    return sum(max(0, s.output_tokens - s.onset + 1) for s in spans if s.onset is not None)


def energy(samples: Iterable[GpuSample], start: float, end: float) -> float | None:
    """Joules of all GPUs between two clock times, by trapezoids; None where no power was read in between."""
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.power is not None:
            by_gpu.setdefault(sample.gpu, []).append((sample.at, sample.power))
    total: float | None = None
    for readings in by_gpu.values():
        readings.sort()
        inside = [(at, watts) for at, watts in readings if start <= at <= end]
        if not inside:
            continue
        # The edges take the nearest reading: a sampler is a fraction of a second late at most.
        points = [(start, inside[0][1]), *inside, (end, inside[-1][1])]
        steps = pairwise(points)
        joules = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in steps)
        total = joules if total is None else total + joules
    return total


def money(gpu_seconds: float | None, price: float | None) -> float | None:
    """What GPU time costs at a price per GPU-hour, in the price's currency."""
    return None if gpu_seconds is None or price is None else gpu_seconds / 3600.0 * price
