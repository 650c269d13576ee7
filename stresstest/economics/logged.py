"""The account of a log: what loops cost requests that were sent before. Every counterfactual is modelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from stresstest.economics.account import Prices, modelled_cost
from stresstest.economics.fit import FLOOR, Fitted
from stresstest.economics.paired import tax
from stresstest.economics.replay import busy_periods, replay, work_of
from stresstest.model.cost import Cost, Known, Modelled, Ratio, Span

METHOD = "scheduled again in the fitted virtual engine, each loop cut at the mean healthy length"


def logged_cost(spans: Sequence[Span], fitted: Fitted | None, prices: Prices | None = None) -> Cost:
    """What the loops of a log cost, by the source's method and by a replay in the fitted engine.

    fitted: the engine of these spans (`fit_engine`), None where they are too few: the replay is left out
    then. Busy periods are batches. ValueError without spans.
    """
    if not spans:
        raise ValueError("a log without requests costs nothing")
    prices = prices or Prices()
    groups = batches_of(spans)
    labelled = [replace(span, batch=f"period {n}") for n, group in enumerate(groups, 1) for span in group]
    cost = modelled_cost(labelled, gpus=prices.gpus, gpu_hour_price=prices.gpu_hour_price)
    cost = replace(cost, notes=(*cost.notes, *_notes(labelled, fitted)))
    again = replayed(groups, fitted) if fitted is not None else None
    if again is None:
        return cost
    known = {**cost.labels, "healthy_slowdown": Known.MODELLED}
    slowdown = again.healthy_slowdown
    ratio = None if slowdown is None else Ratio(slowdown, n=len(labelled), method=METHOD)
    return replace(cost, modelled=(*cost.modelled, again), healthy_slowdown=ratio, labels=known)


def batches_of(spans: Sequence[Span]) -> list[list[Span]]:
    """The busy periods of a log; the whole of it where they are too small to be batches of their own."""
    periods = busy_periods(spans)
    if all(len(period) >= FLOOR for period in periods):
        return periods
    return [sorted(spans, key=lambda span: span.submitted)]


def healthy_length(spans: Sequence[Span]) -> int | None:
    """Mean output tokens of healthy answers that ended by themselves; None without any."""
    lengths = [span.output_tokens for span in spans if span.healthy and not span.capped]
    return round(fmean(lengths)) if lengths else None


def replayed(groups: Sequence[Sequence[Span]], fitted: Fitted) -> Modelled | None:
    """The fitted engine with the loops, and with each cut at the mean healthy length; None where nothing was
    judged healthy. Both sides are replays: an error of the fit is in both."""
    length = healthy_length([span for group in groups for span in group])
    if length is None:
        return None
    wall = counterfactual = 0.0
    logs = []
    for group in groups:
        work = [work_of(span) for span in group]
        cut = [
            replace(each, output_tokens=min(length, each.output_tokens)) if _loops(span) else each
            for span, each in zip(group, work, strict=True)
        ]
        before = replay(fitted.spec, work, fitted.concurrency)
        after = replay(fitted.spec, cut, fitted.concurrency) if cut != work else before
        wall, counterfactual = wall + before.seconds, counterfactual + after.seconds
        for span, with_loops, without in zip(group, before.durations, after.durations, strict=True):
            if span.healthy and with_loops and without:
                logs.append(math.log(with_loops / without))
    share, inflation = tax(wall, counterfactual)
    n = len(groups)
    slowdown = math.exp(fmean(logs)) if logs else None
    return Modelled(METHOD, wall / n, counterfactual / n, share, inflation, slowdown)


def _loops(span: Span) -> bool:
    return span.loops or span.planted


def _notes(spans: Sequence[Span], fitted: Fitted | None) -> tuple[str, ...]:
    if fitted is None:
        return (f"Fewer than {FLOOR} usable requests: no engine is fitted, nothing is scheduled again.",)
    how = f"{fitted.concurrency} clients" if fitted.concurrency is not None else "arrivals of their own"
    notes = [
        f"Engine fitted to {fitted.n} requests ({how}): its replay of them is off by {fitted.error:.1%} in a "
        f"typical duration and by {fitted.wall_error:+.1%} in the wall clock."
    ]
    if fitted.concurrency is None:
        notes.append("Requests came at times of their own: the wall clock hardly depends on loops.")
    if any(span.prompt_tokens is None for span in spans):
        notes.append("Not every prompt's length is known: what it holds and takes is left out there.")
    return tuple(notes)
