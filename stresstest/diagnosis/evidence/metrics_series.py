"""Functions over a series of /metrics readings: windows, differences and peaks. Pure.

Counters are totals since the server's start, so only differences are meaningful. A total that falls means a
restart from zero, as in Prometheus' `increase`. A difference is None, never 0, with fewer than two readings
of the metric.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

from stresstest.model import GpuSample, ServerSample, ServerSummary

GaugeName = Literal["running", "waiting", "kv_usage"]
CounterName = Literal["preemptions", "prompt_tokens", "generation_tokens"]


PAUSE = 120.0
"""A gap of more seconds between two readings is a pause between two sessions. A busy server has left /metrics
unanswered for 39."""
_SAME_START = 1.0
"""Seconds by which the start of counters may differ that began together: engines create theirs in turn."""
Reading = TypeVar("Reading", ServerSample, GpuSample)
Number = TypeVar("Number", int, float)


def sessions_of(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Split readings, in order of time, at gaps of more than `PAUSE` seconds. Needs at least one reading."""
    parts = [[readings[0]]]
    for before, after in pairwise(readings):
        if after.at - before.at > PAUSE:
            parts.append([])
        parts[-1].append(after)
    return parts


def known_sum(values: Iterable[Number | None]) -> Number | None:
    """The sum of the known values; None if none is known."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def increase(totals: Iterable[Number | None]) -> Number | None:
    """The increase of a counter, which restarts from 0 when it falls; None with fewer than two readings."""
    known = [total for total in totals if total is not None]
    if len(known) < 2:
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(known))


def cut_window(samples: Sequence[ServerSample], start: float, end: float) -> list[ServerSample]:
    """The readings in start..end (clock seconds, inclusive) and the last one before `start`.

    samples: in order of time. The reading before `start` is the base of the differences and the state in
    which the window began.
    """
    first = bisect_left(samples, start, key=_at)
    return list(samples[max(0, first - 1) : max(first, bisect_right(samples, end, key=_at))])


def longest_gap(moments: Iterable[float]) -> float:
    """The longest time between two neighbouring moments, in any order; 0 with fewer than two."""
    return max((after - before for before, after in pairwise(sorted(moments))), default=0.0)


def count_restarts(samples: Iterable[ServerSample]) -> int:
    """How often the server began again, or another answered: its counters began at another time, or fell."""
    return sum(_is_restart(before, after) for before, after in pairwise(filter(_has_totals, samples)))


def _has_totals(sample: ServerSample) -> bool:
    return sample.prompt_tokens is not None and sample.generation_tokens is not None


def _is_restart(before: ServerSample, after: ServerSample) -> bool:
    known = before.began is not None and after.began is not None
    if known and abs((after.began or 0.0) - (before.began or 0.0)) > _SAME_START:
        return True
    return _fell(before.prompt_tokens, after.prompt_tokens) or _fell(
        before.generation_tokens, after.generation_tokens
    )


def _fell(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def counter_increase(samples: Iterable[ServerSample], name: CounterName) -> float | None:
    """The increase of a counter over the readings, across restarts of the server."""
    return increase(getattr(s, name) for s in samples)


def gauge_peak(samples: Iterable[ServerSample], name: GaugeName) -> float | None:
    """The highest value of a gauge; None without a reading."""
    return max((v for s in samples if (v := getattr(s, name)) is not None), default=None)


def histogram_increase(samples: Iterable[ServerSample], name: str) -> tuple[float, float] | None:
    """Increase of (sum in seconds, count) of a histogram over the readings."""
    readings = [s.histograms[name] for s in samples if name in s.histograms]
    if len(readings) < 2:
        return None
    seconds = count = 0.0
    for (sum_before, count_before), (sum_after, count_after) in pairwise(readings):
        restarted = count_after < count_before
        seconds += sum_after - (0.0 if restarted else sum_before)
        count += count_after - (0.0 if restarted else count_before)
    return seconds, count


def finished_increase(samples: Iterable[ServerSample]) -> dict[str, float] | None:
    """Requests finished over the readings, by reason; a reason counts from zero until it first appears."""
    readings = [s.finished for s in samples if s.finished]
    if len(readings) < 2:
        return None
    reasons = sorted({reason for reading in readings for reason in reading})
    gained = {reason: increase([reading.get(reason, 0.0) for reading in readings]) for reason in reasons}
    return {reason: value for reason, value in gained.items() if value is not None}


def summarize_server(samples: Sequence[ServerSample]) -> ServerSummary | None:
    """Summarise the whole series; None without readings.

    A long gap is a pause between two sessions (`sessions_of`). The server's activity meanwhile does not
    belong to the run and is excluded from all differences.
    """
    if not samples:
        return None
    parts = sessions_of(samples)
    names = sorted({name for s in samples for name in s.histograms})
    means = {}
    for name in names:
        gained = [g for part in parts if (g := histogram_increase(part, name)) is not None]
        count = sum(n for _, n in gained)
        if count > 0:
            means[name] = sum(seconds for seconds, _ in gained) / count
    finished: dict[str, float] = {}
    for part in parts:
        for reason, n in (finished_increase(part) or {}).items():
            finished[reason] = finished.get(reason, 0.0) + n
    return ServerSummary(
        samples=len(samples),
        seconds=sum(part[-1].at - part[0].at for part in parts),
        kv_peak=gauge_peak(samples, "kv_usage"),
        running_peak=gauge_peak(samples, "running"),
        waiting_peak=gauge_peak(samples, "waiting"),
        preemptions=known_sum(counter_increase(part, "preemptions") for part in parts),
        generated_tokens=known_sum(counter_increase(part, "generation_tokens") for part in parts),
        means=means,
        finished=finished,
    )


def _at(sample: ServerSample) -> float:
    return sample.at
