"""Pure helpers over a series of /metrics readings: cut a window, take differences, find peaks.

Counters are totals since the server's start, so only differences mean something, and a total that
falls means a restart: it then counted from zero, as Prometheus' own `increase` assumes. A result is
None when the series cannot tell: fewer than two readings of that metric, never 0 instead.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from stresstest.model import ServerSample, ServerSummary

PAUSE = 30.0

Gauge = Literal["running", "waiting", "kv_usage"]
Counter = Literal["preemptions", "prompt_tokens", "generation_tokens"]


def window(samples: Sequence[ServerSample], start: float, end: float) -> list[ServerSample]:
    """The readings of start..end (clock seconds, inclusive) and the last one before start.

    samples: in the order of time. The reading before the start is the base of the differences and
    the state in which the window began.
    """
    first = bisect_left(samples, start, key=_at)
    return list(samples[max(0, first - 1) : max(first, bisect_right(samples, end, key=_at))])


def increase(samples: Iterable[ServerSample], name: Counter) -> float | None:
    """By how much a counter grew over the readings, restarts of the server included."""
    return _increase([v for s in samples if (v := getattr(s, name)) is not None])


def peak(samples: Iterable[ServerSample], name: Gauge) -> float | None:
    """The highest value of a gauge."""
    return max((v for s in samples if (v := getattr(s, name)) is not None), default=None)


def histogram_increase(samples: Iterable[ServerSample], name: str) -> tuple[float, float] | None:
    """(sum in seconds, count) that a histogram gained over the readings."""
    readings = [s.histograms[name] for s in samples if name in s.histograms]
    if len(readings) < 2:
        return None
    seconds = count = 0.0
    for (sum_before, count_before), (sum_after, count_after) in pairwise(readings):
        restarted = count_after < count_before
        seconds += sum_after - (0.0 if restarted else sum_before)
        count += count_after - (0.0 if restarted else count_before)
    return seconds, count


def histogram_mean(samples: Iterable[ServerSample], name: str) -> float | None:
    """Mean, in seconds, of what a histogram took in over the readings; None when that was nothing."""
    gained = histogram_increase(samples, name)
    return None if gained is None or gained[1] <= 0 else gained[0] / gained[1]


def finished_increase(samples: Iterable[ServerSample]) -> dict[str, float] | None:
    """Requests finished over the readings, by reason; reasons that did not occur are 0.

    A reason that appears for the first time counted from zero.
    """
    readings = [s.finished for s in samples if s.finished]
    if len(readings) < 2:
        return None
    reasons = sorted({reason for reading in readings for reason in reading})
    gained = {reason: _increase([reading.get(reason, 0.0) for reading in readings]) for reason in reasons}
    return {reason: value for reason, value in gained.items() if value is not None}


def summarise(samples: Sequence[ServerSample]) -> ServerSummary | None:
    """The whole series in one summary; None without readings.

    A gap of more than `PAUSE` seconds is a pause between two sessions: what the server did meanwhile
    was not this run's doing and is left out of every difference.
    """
    if not samples:
        return None
    parts = _sessions(samples)
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
        kv_peak=peak(samples, "kv_usage"),
        running_peak=peak(samples, "running"),
        waiting_peak=peak(samples, "waiting"),
        preemptions=_total(increase(part, "preemptions") for part in parts),
        generated_tokens=_total(increase(part, "generation_tokens") for part in parts),
        means=means,
        finished=finished,
    )


def _sessions(samples: Sequence[ServerSample]) -> list[list[ServerSample]]:
    parts: list[list[ServerSample]] = [[samples[0]]]
    for before, after in pairwise(samples):
        if after.at - before.at > PAUSE:
            parts.append([])
        parts[-1].append(after)
    return parts


def _total(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _increase(totals: Sequence[float]) -> float | None:
    if len(totals) < 2:
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(totals))


def _at(sample: ServerSample) -> float:
    return sample.at
