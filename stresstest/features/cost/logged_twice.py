"""Requests that two loggers wrote: application and gateway, or a framework and the client that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model.cost import RequestSpan

_LEAST_SHARED = 0.5
"""Share of the shorter request's time in which both run: the clocks of two hosts differ."""


@dataclass(frozen=True, slots=True)
class LoggedSpan:
    """A request as one logger wrote it. text: a hash of its text, 0 for none, and for a short one without a
    trace. source: its file. trace: the trace that it is part of. writer: what wrote its span there."""

    span: RequestSpan
    text: int
    source: str
    trace: str | None = None
    writer: str | None = None


def without_second_logs(found: Sequence[LoggedSpan]) -> tuple[tuple[RequestSpan, ...], int]:
    """Each request once, the longer of two that are one, in the given order; and how many were left out.

    Two are one if they have a long text in common, run at one time, and are of two files or share an id; or
    any text in one trace, in spans of two services, libraries or names: of the client and of the gateway.
    Equal texts of one file and other ids are answers of their own: a canary at temperature 0.
    """
    by_text: dict[int, list[int]] = {}
    for place, each in enumerate(found):
        if each.text:
            by_text.setdefault(each.text, []).append(place)
    dropped: set[int] = set()
    for places in by_text.values():
        running: list[int] = []
        for place in sorted(places, key=lambda n: found[n].span.submitted):
            span = found[place].span
            running = [other for other in running if found[other].span.end >= span.submitted]
            twin = next((other for other in running if _are_one(found[other], found[place])), None)
            if twin is None:
                running.append(place)
            elif span.duration > found[twin].span.duration:
                running[running.index(twin)] = place
                dropped.add(twin)
            else:
                dropped.add(place)
    return tuple(each.span for place, each in enumerate(found) if place not in dropped), len(dropped)


def _are_one(one: LoggedSpan, other: LoggedSpan) -> bool:
    in_one_trace = one.trace is not None and one.trace == other.trace and one.writer != other.writer
    if one.source == other.source and one.span.id != other.span.id and not in_one_trace:
        return False
    first, second = one.span, other.span
    shared = min(first.end, second.end) - max(first.submitted, second.submitted)
    return shared >= 0 and shared >= _LEAST_SHARED * min(first.duration, second.duration)
