"""What if: the fitted engine with other degeneration rates, caps, sequences, KV sizes and loads. Modelled.

A workload is drawn again from the requests that were seen: healthy ones by their lengths, loops without end
(or with the end that they came to by themselves), both cut by the cap in question. Several draws show how
much is chance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from stresstest.economics.attribution import money
from stresstest.economics.fit import Fitted
from stresstest.economics.replay import Work, replay
from stresstest.model.cost import Span

DRAWS = 20
"""Workloads that are drawn for one prediction, where they are no larger than a twentieth of `_MOST`."""
_MOST, _LEAST_DRAWS = 40_000, 3
"""Requests of all draws together; draws of a large workload, of which each is like the other."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is to be different; None: as measured.

    rate: share of requests that loop, 0-1. max_tokens: the cap. requests: how many. concurrency: clients of a
    closed loop. arrivals: requests a second of an open loop (Poisson); at most one of the two.
    """

    rate: float | None = None
    max_tokens: int | None = None
    requests: int | None = None
    max_num_seqs: int | None = None
    kv_cache_tokens: int | None = None
    concurrency: int | None = None
    arrivals: float | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """A predicted number: its mean over the draws, and the lowest and highest of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """wall_clock: seconds of the whole; p50, p95: of a healthy request's duration; peak_kv: 0-1, None where
    the KV cache's size is unknown. loops: requests that loop; cut: healthy answers that the cap cuts; tokens:
    written in all. money: at the price given, of the whole wall clock; None without one."""

    what_if: WhatIf
    requests: int
    loops: int
    cap: int | None
    wall_clock: Draws
    p50: Draws | None
    p95: Draws | None
    cut: Draws
    tokens: Draws
    peak_kv: Draws | None
    money: Draws | None


@dataclass(frozen=True, slots=True)
class _Drawn:
    work: tuple[Work, ...]
    healthy: tuple[bool, ...]
    cut: int


def predict(
    fitted: Fitted,
    spans: Sequence[Span],
    what_if: WhatIf,
    *,
    requests: int | None = None,
    gpus: int = 1,
    gpu_hour_price: float | None = None,
    seed: int = 0,
) -> Prediction:
    """What the fitted server would do with a workload of `requests` (all that were seen, unless the what-if
    says otherwise). ValueError when the requests seen cannot tell it: no healthy one, a
    rate above zero but no loop, no cap where loops have no end, or both concurrency and arrivals."""
    healthy, loops = _seen(spans)
    requests = what_if.requests or requests or len(healthy) + len(loops)
    looping = round(requests * _rate(what_if, healthy, loops))
    cap = _cap(what_if, spans)
    _check(what_if, healthy, loops, looping, cap)
    spec = replace(
        fitted.spec,
        max_num_seqs=what_if.max_num_seqs or fitted.spec.max_num_seqs,
        kv_cache_tokens=what_if.kv_cache_tokens or fitted.spec.kv_cache_tokens,
    )
    clients = None if what_if.arrivals is not None else what_if.concurrency or fitted.concurrency
    pace = what_if.arrivals or _pace(spans)
    walls, medians, tails, cuts, tokens, peaks = [], [], [], [], [], []
    for n in range(max(_LEAST_DRAWS, min(DRAWS, _MOST // requests))):
        drawn = _draw(random.Random(f"{seed} {n}"), healthy, loops, requests, looping, cap, pace)
        done = replay(spec, drawn.work, clients)
        times = sorted(s for s, ok in zip(done.durations, drawn.healthy, strict=True) if ok and s is not None)
        walls.append(done.seconds)
        cuts.append(float(drawn.cut))
        tokens.append(float(sum(each.output_tokens for each in drawn.work)))
        peaks.append(done.peak_kv)
        if times:
            medians.append(_quantile(times, 0.5))
            tails.append(_quantile(times, 0.95))
    prices = [money(wall * gpus, gpu_hour_price) for wall in walls]
    known = [price for price in prices if price is not None]
    return Prediction(
        what_if=what_if,
        requests=requests,
        loops=looping,
        cap=cap,
        wall_clock=_spread(walls),
        p50=_spread(medians) if medians else None,
        p95=_spread(tails) if tails else None,
        cut=_spread(cuts),
        tokens=_spread(tokens),
        peak_kv=_spread(peaks) if fitted.kv_known or what_if.kv_cache_tokens else None,
        money=_spread(known) if known else None,
    )


def _seen(spans: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """(healthy, looping) requests. One that nobody could judge counts as healthy: it is part of the load."""
    whole = [span for span in spans if span.failure is None and span.output_tokens > 0]
    loops = [span for span in whole if span.loops or span.planted]
    return [span for span in whole if not (span.loops or span.planted)], loops


def _rate(what_if: WhatIf, healthy: Sequence[Span], loops: Sequence[Span]) -> float:
    return len(loops) / max(1, len(healthy) + len(loops)) if what_if.rate is None else what_if.rate


def _cap(what_if: WhatIf, spans: Sequence[Span]) -> int | None:
    """The cap in question, else the largest that was in force."""
    known = [s.max_tokens for s in spans if s.max_tokens is not None]
    known += [s.output_tokens for s in spans if s.capped]
    return what_if.max_tokens if what_if.max_tokens is not None else max(known, default=None)


def _check(
    what_if: WhatIf, healthy: Sequence[Span], loops: Sequence[Span], looping: int, cap: int | None
) -> None:
    if what_if.concurrency is not None and what_if.arrivals is not None:
        raise ValueError("give either a concurrency or arrivals, not both")
    if not healthy:
        raise ValueError("no healthy request was seen")
    if looping and cap is None and any(span.capped for span in loops):
        raise ValueError("no cap is known that would end a loop: give max_tokens")
    if looping and not loops and cap is None:
        raise ValueError("no loop was seen and no cap is known: give max_tokens")


def _pace(spans: Sequence[Span]) -> float:
    """Requests a second, as they came."""
    first, last = min(s.submitted for s in spans), max(s.submitted for s in spans)
    return len(spans) / (last - first) if last > first else float(len(spans))


def _draw(
    rng: random.Random,
    healthy: Sequence[Span],
    loops: Sequence[Span],
    requests: int,
    looping: int,
    cap: int | None,
    pace: float,
) -> _Drawn:
    """One workload: as many loops as the rate says, at places of chance; each length of one that was seen."""
    places = set(rng.sample(range(requests), min(looping, requests)))
    pool = _shuffled(rng, healthy, requests)
    at, cut = 0.0, 0
    work, fine = [], []
    for n in range(requests):
        looped = n in places
        # A prompt that loops is as long as any other where no loop was seen.
        source = rng.choice(loops or healthy) if looped else pool[n]
        length: float = source.output_tokens
        if looped and (not loops or source.capped or source.planted):
            length = float("inf")
        if cap is not None and length > cap:
            cut += not looped
            length = cap
        at += rng.expovariate(pace)
        work.append(Work(max(1, source.prompt_tokens or 1), max(1, int(length)), at))
        fine.append(not looped)
    return _Drawn(tuple(work), tuple(fine), cut)


def _shuffled(rng: random.Random, spans: Sequence[Span], n: int) -> list[Span]:
    """n requests: all of them in a new order, again and again. Less chance than drawing each on its own."""
    found: list[Span] = []
    while len(found) < n:
        found += rng.sample(spans, len(spans))
    return found[:n]


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _spread(values: Sequence[float]) -> Draws:
    return Draws(fmean(values), min(values), max(values))
