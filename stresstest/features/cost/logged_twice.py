"""Requests that two loggers wrote: application and gateway, or a framework and the client that it calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

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
        running = _Running(found)
        for place in sorted(places, key=lambda n: found[n].span.submitted):
            span = found[place].span
            running.forget_before(span.submitted)
            twin = next(
                (other for other in running.others(place) if _are_one(found[other], found[place])), None
            )
            if twin is None:
                running.add(place)
            elif span.duration > found[twin].span.duration:
                running.remove(twin)
                running.add(place)
                dropped.add(twin)
            else:
                dropped.add(place)
    return tuple(each.span for place, each in enumerate(found) if place not in dropped), len(dropped)


class _Running:
    """Spans of one text that have not ended, by what two of them must share to be one: thousands of answers
    of one file are then not compared with each other."""

    def __init__(self, found: Sequence[LoggedSpan]) -> None:
        self._found = found
        self._ends: list[tuple[float, int]] = []
        self._groups: dict[str, dict[str | None, dict[int, None]]] = {}

    def _kept_in(self, place: int) -> Iterator[tuple[str, str | None]]:
        """What its twin has in common with a span, and then has otherwise."""
        each = self._found[place]
        yield "", each.source
        yield f"id {each.span.id}", str(place)
        if each.trace is not None:
            yield f"trace {each.trace}", each.writer

    def add(self, place: int) -> None:
        heappush(self._ends, (self._found[place].span.end, place))
        for common, own in self._kept_in(place):
            self._groups.setdefault(common, {}).setdefault(own, {})[place] = None

    def remove(self, place: int) -> None:
        for common, own in self._kept_in(place):
            self._groups[common][own].pop(place, None)

    def forget_before(self, moment: float) -> None:
        """Remove what ended before."""
        while self._ends and self._ends[0][0] < moment:
            self.remove(heappop(self._ends)[1])

    def others(self, place: int) -> Iterator[int]:
        """Those that may be one with this span: of other files, with its id, and of other writers in its
        trace."""
        for common, own in self._kept_in(place):
            for other, places in self._groups.get(common, {}).items():
                if other != own:
                    yield from places


def _are_one(one: LoggedSpan, other: LoggedSpan) -> bool:
    in_one_trace = one.trace is not None and one.trace == other.trace and one.writer != other.writer
    if one.source == other.source and one.span.id != other.span.id and not in_one_trace:
        return False
    first, second = one.span, other.span
    shared = min(first.end, second.end) - max(first.submitted, second.submitted)
    return shared >= 0 and shared >= _LEAST_SHARED * min(first.duration, second.duration)
