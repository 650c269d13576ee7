"""Computes the complete `Cost` from spans, with each number labelled as measured or modelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from stresstest.economics import modelled, paired
from stresstest.economics.load import load_curve
from stresstest.economics.steps import step_ratio
from stresstest.economics.timeline import group_spans_by_batch, wall_clock
from stresstest.model import GpuSample
from stresstest.model.cost import Cost, CostArm, CostRatio, ModelledCost, Provenance, RequestSpan
from stresstest.statistics.certify import clustered_interval, effective_size


@dataclass(frozen=True, slots=True)
class Attribution:
    """Use of one GPU by one batch.

    used: seconds with a request running. after_onset: the loops' part of them; each interval is divided
    evenly among the running requests, because a step of continuous batching serves all of them at once.
    kv_loops, kv_all: token-seconds held by loops after their onset, and by all requests. kv_peak: largest
    share of the resident tokens held by loops at any time.
    """

    used: float
    after_onset: float
    kv_loops: float
    kv_all: float
    kv_peak: float


def attribute(spans: Sequence[RequestSpan]) -> Attribution:
    """Divide one batch's time and resident tokens between loops and other requests."""
    load = load_curve(spans)
    held = load.kv > 0
    loop_share = load.kv_loops[held] / load.kv[held]
    return Attribution(
        used=float(load.seconds.sum()),
        after_onset=float((load.seconds * load.looping / load.running).sum()),
        kv_loops=float((load.kv_loops * load.seconds).sum()),
        kv_all=float((load.kv * load.seconds).sum()),
        kv_peak=float(loop_share.max(initial=0.0)),
    )


def wasted_tokens(spans: Iterable[RequestSpan]) -> int | None:
    """Output tokens from the onset on, over all degenerate requests; None if nothing was judged."""
    spans = list(spans)
    if all(span.degenerate is None and not span.planted for span in spans):
        return None
    return sum(max(0, s.output_tokens - s.onset + 1) for s in spans if s.onset is not None)


def energy(samples: Iterable[GpuSample], start: float, end: float) -> float | None:
    """Joules of all GPUs between two clock times (trapezoidal rule); None without a power reading between."""
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
        # The edges use the nearest reading: the sampler is late by a fraction of a second at most.
        points = [(start, inside[0][1]), *inside, (end, inside[-1][1])]
        joules = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
        total = joules if total is None else total + joules
    return total


def money(gpu_seconds: float | None, price: float | None) -> float | None:
    """The cost of GPU time at a price per GPU-hour, in the price's currency; None if either is None."""
    return None if gpu_seconds is None or price is None else gpu_seconds / 3600.0 * price


NO_LOOP_NOTE = (
    "no request looped in any pair, so what loops cost was not measured: there was nothing to compare"
)
NO_HEALTHY_NOTE = (
    "no request was healthy in both batches of a pair, so how much loops slow healthy ones is not known"
)
_ALWAYS_MEASURED = ("requests", "degenerate", "rate", "dharma_rate", "wall_clock_s", "wasted_tokens")


@dataclass(frozen=True, slots=True)
class Prices:
    """gpus: number of GPUs that serve the model; gpu_hour_price: of one GPU, in any currency."""

    gpus: int = 1
    gpu_hour_price: float | None = None


def measured_cost(
    spans: Sequence[RequestSpan], *, prices: Prices | None = None, joules: Mapping[str, float] | None = None
) -> Cost:
    """The cost from pairs of batches; without complete pairs, modelled from the single batches.

    joules: energy by batch label, where power was read.
    """
    prices = prices or Prices()
    seen = {s.pair for s in spans if s.arm == CostArm.LOOPS}
    spans = [s for s in spans if s.arm != CostArm.SCOUT or s.pair not in seen]
    natural = [s for s in spans if s.arm != CostArm.CAPPED]
    found = paired.complete_pairs(spans)
    cost = modelled_cost(natural, gpus=prices.gpus, gpu_hour_price=prices.gpu_hour_price)
    if not found:
        return cost
    if all(pair.is_loop_free for pair in found):
        return _without_loops(replace(cost, pairs=len(found), spans=tuple(spans)))
    cost = replace(
        cost,
        pairs=len(found),
        spans=tuple(spans),
        healthy_slowdown=paired.healthy_slowdown(found),
        wall_clock_ratio=paired.wall_clock_ratio(found),
        step_ratio=step_ratio(spans),
        energy_joules=_energy(found, joules or {}),
    )
    clocks = paired.wall_clocks(found)
    if clocks is not None:
        cost = _with_wall_clock(cost, *clocks, Provenance.MEASURED)
    own = {
        "healthy_slowdown": cost.healthy_slowdown,
        "step_ratio": cost.step_ratio,
        "energy_joules": cost.energy_joules,
    }
    labels = dict.fromkeys((key for key, value in own.items() if value is not None), Provenance.MEASURED)
    return replace(cost, labels={**cost.labels, **labels}, notes=(*cost.notes, *_notes(found)))


def _without_loops(cost: Cost) -> Cost:
    """The cost from pairs without any loop: no ratio and no counterfactual, measured or modelled."""
    gone = ("counterfactual_s", "share_of_time", "inflation", "gpu_seconds", "money")
    return replace(
        cost,
        counterfactual=None,
        share_of_time=None,
        inflation=None,
        gpu_seconds=None,
        money=None,
        modelled=(),
        labels={key: label for key, label in cost.labels.items() if key not in gone},
        notes=(*cost.notes, NO_LOOP_NOTE),
    )


def modelled_cost(
    spans: Sequence[RequestSpan], *, gpus: int = 1, gpu_hour_price: float | None = None
) -> Cost:
    """The cost from batches without a measured counterfactual: it is modelled, the rest is measured."""
    by_batch = list(group_spans_by_batch(spans).values())
    shares = [attribute(batch) for batch in by_batch]
    judged = [s for s in spans if s.degenerate is not None]
    cost = Cost(
        requests=len(spans),
        degenerate=sum(s.degenerate is True and not s.planted for s in judged) if judged else None,
        planted=sum(s.planted for s in spans),
        failed=sum(s.failure is not None for s in spans),
        batches=len(by_batch),
        rate=degeneration_rate(spans),
        dharma_rate=dharma_rate(spans),
        wall_clock=fmean(wall_clock(batch) for batch in by_batch) if by_batch else None,
        output_tokens=sum(s.output_tokens for s in spans),
        wasted_tokens=wasted_tokens(spans),
        gpus=gpus,
        gpu_hour_price=gpu_hour_price,
        gpu_seconds_used=sum(a.used for a in shares) * gpus,
        gpu_seconds_after_onset=sum(a.after_onset for a in shares) * gpus if judged else None,
        naive=modelled.naive_comparison(spans),
        labels=dict.fromkeys((*_ALWAYS_MEASURED, "gpu_seconds_used", "gpu_seconds_after_onset"), "measured"),
        spans=tuple(spans),
    )
    cost = _with_kv(cost, spans, shares)
    models = [m for batch in by_batch if (m := modelled.substitute_loops(batch)) is not None]
    if not judged or len(models) < len(by_batch) or not models:
        return cost
    wall, counterfactual = fmean(m.wall_clock for m in models), fmean(m.counterfactual for m in models)
    share, inflation = paired.loop_tax(wall, counterfactual)
    cost = replace(
        cost, modelled=(ModelledCost(modelled.SUBSTITUTION_METHOD, wall, counterfactual, share, inflation),)
    )
    return _with_wall_clock(cost, wall, counterfactual, Provenance.MODELLED)


def _with_wall_clock(cost: Cost, wall: float, counterfactual: float, known: Provenance) -> Cost:
    """The cost with these wall clocks (seconds) and all numbers derived from them."""
    share, inflation = paired.loop_tax(wall, counterfactual)
    seconds = (wall - counterfactual) * cost.batches * cost.gpus
    keys = ("counterfactual_s", "share_of_time", "inflation", "gpu_seconds", "money")
    return replace(
        cost,
        wall_clock=wall,
        counterfactual=counterfactual,
        share_of_time=share,
        inflation=inflation,
        gpu_seconds=seconds,
        money=money(seconds, cost.gpu_hour_price),
        labels={**cost.labels, **dict.fromkeys(keys, known)},
    )


def _with_kv(cost: Cost, spans: Sequence[RequestSpan], shares: Sequence[Attribution]) -> Cost:
    """Add the loops' share of the resident tokens; not measured if a prompt's length is unknown."""
    total = sum(a.kv_all for a in shares)
    known = all(s.prompt_tokens is not None or s.failure is not None for s in spans)
    if total <= 0 or not known or cost.degenerate is None:
        return cost
    labels = {**cost.labels, "kv_share": Provenance.MEASURED, "kv_peak": Provenance.MEASURED}
    share, peak = sum(a.kv_loops for a in shares) / total, max(a.kv_peak for a in shares)
    return replace(cost, kv_share=share, kv_peak=peak, labels=labels)


def _energy(found: Sequence[paired.BatchPair], joules: Mapping[str, float]) -> float | None:
    """Additional joules due to loops over all pairs; None unless every batch has a reading."""
    total = 0.0
    for pair in found:
        one, other = joules.get(pair.loops[0].batch), joules.get(pair.capped[0].batch)
        if one is None or other is None:
            return None
        total += one - other
    return total


def _notes(found: Sequence[paired.BatchPair]) -> list[str]:
    notes = []
    if not any(pair.healthy for pair in found):
        notes.append(NO_HEALTHY_NOTE)
    again = sum(_new_loops(pair) for pair in found)
    quiet = sum(p.loops is p.capped for p in found)
    if quiet:
        notes.append(
            f"{quiet} of {len(found)} pairs had no loop: their ratio is 1 without a second batch, "
            "since there was nothing to cap"
        )
    if again:
        notes.append(
            f"{again} requests looped only in the capped batches, where nobody had capped them: the ratios "
            "are a lower bound"
        )
    if len(found) < paired.MIN_PAIRS:
        notes.append(f"{len(found)} pairs are too few for an interval; eight are the default")
    return notes


def _new_loops(pair: paired.BatchPair) -> int:
    """Number of requests that loop only in the capped batch: outputs differ between batches."""
    if pair.loops is pair.capped:
        return 0
    known = {s.id for s in pair.loops if s.loops or s.planted}
    return sum(s.loops and s.id not in known for s in pair.capped)


def degeneration_rate(spans: Iterable[RequestSpan]) -> CostRatio | None:
    """Share of the judged requests with an onset, excluding stand-ins; None if fewer than half were judged.

    Of a text that its log has cut only a failure is known, so that all the judged ones may be failures.
    """
    spans = list(spans)
    answered = [s for s in spans if not s.planted and (s.failure is None or s.degenerate)]
    if 2 * sum(s.degenerate is not None for s in answered) < len(answered):
        return None
    return _share(spans, lambda span: span.degenerate)


def dharma_rate(spans: Iterable[RequestSpan]) -> CostRatio | None:
    """The same by the source's production definition: ended by the cap with repetition at the tail."""
    return _share(spans, lambda span: span.dharma)


def _share(spans: Iterable[RequestSpan], of: Callable[[RequestSpan], bool | None]) -> CostRatio | None:
    """Clopper-Pearson interval; at the effective sample size if some prompts were sent several times."""
    judged = [s for s in spans if not s.planted and s.judged and of(s) is not None]
    if not judged:
        return None
    hits = sum(of(s) is True for s in judged)
    clusters: dict[str, tuple[int, int]] = {}
    for number, span in enumerate(judged):
        name = span.cluster or f"#{number}"
        degenerate, outputs = clusters.get(name, (0, 0))
        clusters[name] = degenerate + (of(span) is True), outputs + 1
    size, n = effective_size(clusters.values())
    lo, hi = clustered_interval(hits, n, size / n)
    how = "Clopper-Pearson" if size == n else f"Clopper-Pearson at the effective size {size:.0f}"
    return CostRatio(hits / n, lo, hi, n, how)
