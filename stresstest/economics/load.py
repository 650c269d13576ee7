"""What runs at the same time in one batch, in O(n log n) of its requests."""

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
    engine, and of those past the onset of a loop. kv, kv_loops: tokens that they hold at its middle, the sums
    of `timeline.kv_tokens_at`.
    """

    start: Floats
    seconds: Floats
    running: Counts
    looping: Counts
    kv: Floats
    kv_loops: Floats


def load_curve(spans: Sequence[RequestSpan]) -> LoadCurve:
    """The intervals of one batch, without those in which no request is running."""
    import numpy as np

    first = min((span.submitted for span in spans), default=0.0)
    loops = [(span, found) for span in spans if (found := loop_interval(span)) is not None]
    began = np.array([start_time(span) for span in spans]) - first
    ended = np.array([span.end for span in spans]) - first
    onsets = np.array([max(onset, start_time(span)) for span, (onset, _) in loops]) - first
    stopped = np.array([span.end for span, _ in loops]) - first
    sent = np.array([span.submitted for span in spans]) - first
    cuts = np.linspace(0.0, ended.max(initial=0.0), MIN_CUTS + 1)
    edges = np.unique(np.concatenate([began, ended, sent, onsets, cuts]))
    start, width = edges[:-1], np.diff(edges)
    running, looping = _running(start, began, ended), _running(start, onsets, stopped)
    kept = running > 0
    start, width, running, looping = start[kept], width[kept], running[kept], looping[kept]
    middle = start + width / 2
    everyone = (each for span in spans for each in _kv_segments(span, start_time(span)))
    looped = (each for span, (onset, _) in loops for each in _kv_segments(span, onset))
    kv = _tokens_held_at(middle, everyone, first)
    kv_loops = np.where(looping > 0, np.minimum(_tokens_held_at(middle, looped, first), kv), 0.0)
    return LoadCurve(start, width, running, looping, kv, kv_loops)


def _running(at: Floats, began: Floats, ended: Floats) -> Counts:
    """How many have begun at each time and have not ended; those that end as they begin never run."""
    import numpy as np

    whole = ended > began
    before = np.searchsorted(np.sort(began[whole]), at, side="right")
    return np.asarray(before - np.searchsorted(np.sort(ended[whole]), at, side="right"))


def _kv_segments(span: RequestSpan, since: float) -> Iterator[tuple[float, float, float, float]]:
    """(begin, end, tokens at the begin, tokens at the end) of what a request holds, from a time on: straight
    lines."""
    prompt, begin = float(span.prompt_tokens or 0), start_time(span)
    since = max(since, begin)
    if span.marks:
        marks = [(at, prompt + tokens) for tokens, at in span.marks]
        points = [(begin, prompt), (marks[0][0], prompt), *marks, (span.end, marks[-1][1])]
    else:
        points = [(begin, prompt), (span.end, prompt + span.output_tokens)]
    for (one, held), (other, more) in pairwise(points):
        low, high = max(one, since), min(other, span.end)
        if high > low:
            slope = (more - held) / (other - one)
            yield low, high, held + slope * (low - one), held + slope * (high - one)


def _tokens_held_at(
    at: Floats, segments: Iterable[tuple[float, float, float, float]], first: float
) -> Floats:
    """The sum over all segments of what they hold at each time.

    It is followed from one border to the next, so that no term is larger than what a request holds: an
    answer that came at once has a slope which no later sum could get rid of.
    """
    import numpy as np

    begin, end, held, left = np.fromiter(segments, dtype=np.dtype((float, 4))).T
    begin, end = begin - first, end - first
    times = np.concatenate([begin, end])
    jumps = np.concatenate([held, -left])
    turns = np.concatenate([slope := (left - held) / (end - begin), -slope])
    order = np.argsort(times, kind="stable")
    times, jumps, turns = times[order], jumps[order], turns[order]
    # Long doubles, as what is left of a steep slope would grow with the time after it.
    slopes = np.cumsum(turns, dtype=np.longdouble)
    grown = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(times))])[: len(times)]
    level = np.cumsum(jumps, dtype=np.longdouble) + grown
    last = np.searchsorted(times, at, side="right") - 1
    seen = last >= 0
    total = np.zeros(len(at))
    total[seen] = level[last[seen]] + slopes[last[seen]] * (at[seen] - times[last[seen]])
    return np.maximum(total, 0.0)


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
