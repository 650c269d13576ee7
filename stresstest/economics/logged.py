"""The cost of loops in a request log. Every counterfactual is modelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from stresstest.economics.account import Prices, modelled_cost
from stresstest.economics.fit import MIN_REQUESTS, FittedEngine
from stresstest.economics.paired import loop_tax
from stresstest.economics.replay import busy_periods, replay_request, replay_workload
from stresstest.model.cost import Cost, CostRatio, ModelledCost, Provenance, RequestSpan
from stresstest.model.percent import percent

_SLOWEST = 0.5
"""Tokens a second of a typical request below which no server is used, and milliseconds are likelier."""
REPLAY_METHOD = "scheduled again in the fitted virtual engine, each loop cut at the mean healthy length"


def logged_cost(
    spans: Sequence[RequestSpan], fitted: FittedEngine | None, prices: Prices | None = None
) -> Cost:
    """The cost of a log's loops, by the source's method and by a replay in the fitted engine.

    fitted: the engine fitted to these spans (`fit_engine`); None omits the replay. Busy periods count as
    batches. Raises ValueError without spans.
    """
    if not spans:
        raise ValueError("a log without requests costs nothing")
    prices = prices or Prices()
    groups = split_into_batches(spans)
    labelled = [replace(span, batch=f"period {n}") for n, group in enumerate(groups, 1) for span in group]
    cost = modelled_cost(labelled, gpus=prices.gpus, gpu_hour_price=prices.gpu_hour_price)
    cost = replace(cost, notes=(*cost.notes, *clock_notes(labelled), *_notes(labelled, fitted)))
    again = replay_with_and_without_loops(groups, fitted) if fitted is not None else None
    if again is None:
        return cost
    known = {**cost.labels, "healthy_slowdown": Provenance.MODELLED}
    slowdown = again.healthy_slowdown
    ratio = None if slowdown is None else CostRatio(slowdown, n=len(labelled), method=REPLAY_METHOD)
    return replace(cost, modelled=(*cost.modelled, again), healthy_slowdown=ratio, labels=known)


def split_into_batches(spans: Sequence[RequestSpan]) -> list[list[RequestSpan]]:
    """The busy periods of a log. One with fewer than `MIN_REQUESTS` requests (a health probe at night) joins
    the one before it, or at the beginning the one after it."""
    batches: list[list[RequestSpan]] = []
    for period in busy_periods(spans):
        if batches and min(len(batches[-1]), len(period)) < MIN_REQUESTS:
            batches[-1] = [*batches[-1], *period]
        else:
            batches.append(list(period))
    return batches


def mean_healthy_length(spans: Sequence[RequestSpan]) -> int | None:
    """Mean output tokens of healthy answers that were not capped; None without any."""
    lengths = [span.output_tokens for span in spans if span.healthy and not span.capped]
    return round(fmean(lengths)) if lengths else None


def replay_with_and_without_loops(
    groups: Sequence[Sequence[RequestSpan]], fitted: FittedEngine
) -> ModelledCost | None:
    """Replay the log with its loops, and with each loop cut at the mean healthy length.

    Both sides are replays, so that an error of the fit affects both. None without a healthy answer.
    """
    length = mean_healthy_length([span for group in groups for span in group])
    if length is None:
        return None
    wall = counterfactual = 0.0
    logs = []
    for group in groups:
        work = [replay_request(span) for span in group]
        cut = [
            replace(each, output_tokens=min(length, each.output_tokens))
            if span.loops or span.planted
            else each
            for span, each in zip(group, work, strict=True)
        ]
        before = replay_workload(fitted.spec, work, fitted.concurrency)
        after = replay_workload(fitted.spec, cut, fitted.concurrency) if cut != work else before
        wall, counterfactual = wall + before.seconds, counterfactual + after.seconds
        for span, with_loops, without in zip(group, before.durations, after.durations, strict=True):
            if span.healthy and with_loops and without:
                logs.append(math.log(with_loops / without))
    share, inflation = loop_tax(wall, counterfactual)
    n = len(groups)
    slowdown = math.exp(fmean(logs)) if logs else None
    return ModelledCost(REPLAY_METHOD, wall / n, counterfactual / n, share, inflation, slowdown)


def clock_notes(spans: Sequence[RequestSpan]) -> tuple[str, ...]:
    """What speaks against times in seconds. Those since 1970 tell their own unit; others do not."""
    usable = (span for span in spans if span.end > span.submitted)
    speeds = [span.output_tokens / (span.end - span.submitted) for span in usable]
    if not speeds or median(speeds) >= _SLOWEST:
        return ()
    return (
        f"By the log's times, a typical request makes {median(speeds):.2g} tokens a second. If they are "
        f"milliseconds, every time and price here is 1,000 times too large: write them in seconds, or as "
        f"dates.",
    )


def _notes(spans: Sequence[RequestSpan], fitted: FittedEngine | None) -> tuple[str, ...]:
    if fitted is None:
        return (
            f"Fewer than {MIN_REQUESTS} usable requests: no engine is fitted, nothing is scheduled again.",
        )
    how = "which arrived at times of their own"
    side = "too long" if fitted.wall_error > 0 else "too short"
    if fitted.concurrency is not None:
        how = f"{fitted.concurrency} client{'' if fitted.concurrency == 1 else 's'}"
    notes = [
        f"Engine fitted to {fitted.n} requests ({how}): its replay of them is off by "
        f"{percent(fitted.error, 1)} in a typical duration, and its wall clock is "
        f"{percent(abs(fitted.wall_error), 1)} {side}."
    ]
    if fitted.concurrency is None:
        notes.append("Requests arrived at fixed times, so the wall clock depends little on loops.")
    if any(span.prompt_tokens is None for span in spans):
        notes.append(
            "The lengths of some prompts are not known: the cache and the time that they take are left out."
        )
    return tuple(notes)
