"""A batch cut into moments: who was running, what they held, what they wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stresstest.model.cost import Span

CUTS = 200
"""A batch is cut where something begins or ends, and into at least so many parts."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One stretch of a batch during which nothing begins and nothing ends.

    running: spans in the engine, as far as is known; looping: those of them past their onset. arriving: some
    request still waits for its first token, so that the engine may be reading prompts.
    """

    start: float
    end: float
    running: tuple[Span, ...]
    looping: tuple[Span, ...]
    arriving: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


def batches(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Spans by batch, in the order in which the batches come."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.batch, []).append(span)
    return found


def wall_clock(spans: Sequence[Span]) -> float:
    """Seconds from the first submission to the last end. ValueError without spans."""
    if not spans:
        raise ValueError("a batch without requests has no wall clock")
    return max(s.end for s in spans) - min(s.submitted for s in spans)


def began(span: Span) -> float:
    """When the engine took a request up, as near as is known: its start, else its first token."""
    if span.start is not None:
        return span.start
    return span.submitted if span.first_token is None else span.first_token


def loop_interval(span: Span) -> tuple[float, float] | None:
    """From the onset of a loop to the request's end; None for what is no loop, or has no time."""
    if not (span.loops or span.planted) or span.onset_at is None or span.onset_at >= span.end:
        return None
    return span.onset_at, span.end


def moments(spans: Sequence[Span]) -> list[Moment]:
    """One batch, in order; stretches without a running request are left out."""
    if not spans:
        return []
    first, last = min(s.submitted for s in spans), max(s.end for s in spans)
    cuts = {first, last}
    loops = {id(s): loop_interval(s) for s in spans}
    gaps = sorted((s.submitted, s.first_token) for s in spans if s.first_token is not None)
    for span in spans:
        cuts |= {began(span), span.end, span.submitted}
        interval = loops[id(span)]
        if interval is not None:
            cuts.add(interval[0])
    step = (last - first) / CUTS
    cuts |= {first + i * step for i in range(1, CUTS)}
    edges = sorted(cuts)
    waiting = sorted(spans, key=began, reverse=True)
    running: list[Span] = []
    found: list[Moment] = []
    for start, end in pairwise(edges):
        while waiting and began(waiting[-1]) <= start:
            running.append(waiting.pop())
        running = [s for s in running if s.end > start]
        if running and end > start:
            looping = tuple(s for s in running if _past(loops[id(s)], start))
            arriving = any(sent <= start < first for sent, first in gaps)
            found.append(Moment(start, end, tuple(running), looping, arriving))
    return found


def _past(interval: tuple[float, float] | None, at: float) -> bool:
    return interval is not None and interval[0] <= at


def written(span: Span, at: float) -> float:
    """Output tokens by a time, in proportion between two marks; without marks, from first token to end."""
    marks = span.marks
    if not marks:
        begin = began(span)
        if at <= begin:
            return 0.0
        whole = span.end - begin
        return float(span.output_tokens) if at >= span.end else span.output_tokens * (at - begin) / whole
    index = bisect_right(marks, at, key=lambda mark: mark[1])
    if index == 0:
        return 0.0
    tokens, when = marks[index - 1]
    if index == len(marks):
        return float(tokens)
    further, later = marks[index]
    return tokens + (further - tokens) * (at - when) / (later - when)


def held(span: Span, at: float) -> float:
    """Tokens whose keys and values the engine holds for a request: its prompt and what it has written."""
    return (span.prompt_tokens or 0) + written(span, at)


@dataclass(frozen=True, slots=True)
class Outline:
    """A batch in equal slices of time: mean number of requests running, and of those the ones in a loop."""

    seconds: float
    running: tuple[float, ...]
    looping: tuple[float, ...]


def outline(spans: Sequence[Span], slices: int, seconds: float | None = None) -> Outline:
    """The batch's outline. seconds: the time that the slices cover, so that two batches can be compared."""
    if not spans:
        return Outline(0.0, (), ())
    first = min(s.submitted for s in spans)
    whole = seconds or wall_clock(spans)
    if whole <= 0:
        return Outline(0.0, (), ())
    width = whole / slices
    running, looping = [0.0] * slices, [0.0] * slices
    for moment in moments(spans):
        begin, end = moment.start - first, moment.end - first
        for index in range(int(begin / width), min(slices - 1, int(end / width)) + 1):
            part = max(0.0, min(end, (index + 1) * width) - max(begin, index * width)) / width
            running[index] += part * len(moment.running)
            looping[index] += part * len(moment.looping)
    return Outline(whole, tuple(running), tuple(looping))
