"""What runs at the same time in one batch, in any number of requests: linear in them but for sorting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from stresstest.economics.timeline import MIN_CUTS, loop_interval, start_time, wall_clock
from stresstest.model.cost import RequestSpan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """A batch in intervals during which no request starts or ends and no loop begins: arrays of one length.

    start, seconds: of each interval, from the first submission. running, looping: numbers of requests in the
    engine, and of those past the onset of a loop. kv, kv_loops: tokens that they hold at its middle.
    """

    start: Floats
    seconds: Floats
    running: Counts
    looping: Counts
    kv: Floats
    kv_loops: Floats


def load_curve(spans: Sequence[RequestSpan]) -> LoadCurve:
    """The intervals of one batch, without those in which no request is running. Raises ValueError without
    spans."""
    import numpy as np

    first, seconds = min(span.submitted for span in spans), wall_clock(spans)
    loops = [(span, found) for span in spans if (found := loop_interval(span)) is not None]
    began = np.array([start_time(span) for span in spans]) - first
    ended = np.array([span.end for span in spans]) - first
    onsets = np.array([max(onset, start_time(span)) for span, (onset, _) in loops]) - first
    stopped = np.array([span.end for span, _ in loops]) - first
    sent = np.array([span.submitted for span in spans]) - first
    edges = np.unique(np.concatenate([began, ended, sent, onsets, np.linspace(0.0, seconds, MIN_CUTS + 1)]))
    start, width = edges[:-1], np.diff(edges)
    running, looping = _running(start, began, ended), _running(start, onsets, stopped)
    kept = running > 0
    start, width, running, looping = start[kept], width[kept], running[kept], looping[kept]
    middle = start + width / 2
    everyone = (each for span in spans for each in _segments(span, span.submitted))
    looped = (each for span, (onset, _) in loops for each in _segments(span, onset))
    kv, kv_loops = _held(middle, everyone, first), _held(middle, looped, first)
    # What is left of sums that cancel each other is no memory.
    return LoadCurve(start, width, running, looping, kv, np.where(looping > 0, kv_loops, 0.0))


def _running(at: Floats, began: Floats, ended: Floats) -> Counts:
    """How many have begun at each time and have not ended; those that end as they begin never run."""
    import numpy as np

    whole = ended > began
    before = np.searchsorted(np.sort(began[whole]), at, side="right")
    return np.asarray(before - np.searchsorted(np.sort(ended[whole]), at, side="right"))


def _segments(span: RequestSpan, since: float) -> Iterator[tuple[float, float, float, float]]:
    """(begin, end, tokens at the begin, tokens a second) of what a request holds, from a time on."""
    prompt, begin = float(span.prompt_tokens or 0), start_time(span)
    since = max(since, begin)
    if span.marks:
        marks = [(at, prompt + tokens) for tokens, at in span.marks]
        points = [(begin, prompt), (marks[0][0], prompt), *marks, (span.end, marks[-1][1])]
    else:
        points = [(begin, prompt), (span.end, prompt + span.output_tokens)]
    for (one, held), (other, more) in pairwise(points):
        if other > max(one, since):
            slope = (more - held) / (other - one)
            yield max(one, since), other, held + slope * max(0.0, since - one), slope


def _held(at: Floats, segments: Iterable[tuple[float, float, float, float]], first: float) -> Floats:
    """The sum over all segments of what they hold at each time."""
    import numpy as np

    begin, end, held, slope = np.fromiter(segments, dtype=np.dtype((float, 4))).T
    begin, end = begin - first, end - first
    held = held - slope * begin  # at time 0, so that they can be added up
    total = np.zeros(len(at))
    for order, sign in ((np.argsort(begin), 1.0), (np.argsort(end), -1.0)):
        edge = begin if sign > 0 else end
        passed = np.searchsorted(edge[order], at, side="right")
        for values, factor in ((held, 1.0), (slope, at)):
            sums = np.concatenate([[0.0], np.cumsum(values[order])])
            total += sign * sums[passed] * factor
    return total


@dataclass(frozen=True, slots=True)
class BatchProfile:
    """A batch in equal time slices: mean number of running requests, and of those in a loop."""

    seconds: float
    running: tuple[float, ...]
    looping: tuple[float, ...]


def batch_profile(spans: Sequence[RequestSpan], slices: int, seconds: float | None = None) -> BatchProfile:
    """The profile of a batch. seconds: time covered by the slices; None: the batch's wall clock."""
    if not spans:
        return BatchProfile(0.0, (), ())
    whole = seconds or wall_clock(spans)
    if whole <= 0:
        return BatchProfile(0.0, (), ())
    width = whole / slices
    running, looping = [0.0] * slices, [0.0] * slices
    load = load_curve(spans)
    for begin, lasting, runs, loops in zip(
        *(each.tolist() for each in (load.start, load.seconds, load.running, load.looping)), strict=True
    ):
        end = begin + lasting
        for index in range(int(begin / width), min(slices - 1, int(end / width)) + 1):
            part = max(0.0, min(end, (index + 1) * width) - max(begin, index * width)) / width
            running[index] += part * runs
            looping[index] += part * loops
    return BatchProfile(whole, tuple(running), tuple(looping))


def most_at_once(spans: Sequence[RequestSpan]) -> int:
    """The most requests that ran at the same moment."""
    return int(load_curve(spans).running.max(initial=0))
