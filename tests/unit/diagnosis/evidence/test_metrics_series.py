"""Differences and peaks over readings: exact over restarts, None where the series cannot tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.evidence.metrics_series import (
    count_restarts,
    counter_increase,
    cut_window,
    finished_increase,
    gauge_peak,
    histogram_increase,
)
from stresstest.model import ServerSample

E2E = "e2e_request_latency_seconds"


@given(
    st.lists(st.integers(0, 40), max_size=20).map(sorted),
    st.integers(-5, 45),
    st.integers(-5, 45),
)
def test_window_is_what_lies_inside_and_one_before(times: list[int], start: int, end: int) -> None:
    """Against the definition, reading by reading; windows of no length and the wrong way round too."""
    samples = [ServerSample(float(t), running=float(i)) for i, t in enumerate(times)]
    before = [s for s in samples if s.at < start][-1:]
    inside = [s for s in samples if start <= s.at <= end]
    assert cut_window(samples, start, end) == before + inside


def test_counters_that_begin_again_are_restarts() -> None:
    """Other weights under the same name, root and version came with a restarted server."""
    readings = [(100.0, 500.0), (160.0, 900.0), (12.0, 40.0), (None, None), (70.0, 90.0), (3.0, 95.0)]
    samples = [
        ServerSample(float(i), prompt_tokens=a, generation_tokens=b) for i, (a, b) in enumerate(readings)
    ]
    assert count_restarts(samples) == 2
    assert count_restarts(samples[:2]) == count_restarts([]) == 0


@pytest.mark.parametrize(("began", "restarts"), [((7.0, 7.3), 0), ((7.0, 90.0), 1), ((None, 90.0), 0)])
def test_a_server_that_began_at_another_time_is_another(
    began: tuple[float | None, float], restarts: int
) -> None:
    """One that was restarted and has served more since was taken for the same: its counters were higher."""
    totals = [(0.0, began[0], 100.0), (1.0, began[1], 5_000.0)]
    samples = [ServerSample(at, prompt_tokens=n, generation_tokens=n, began=b) for at, b, n in totals]
    assert count_restarts(samples) == restarts


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=20))
def test_increase_survives_restarts(steps: list[tuple[bool, int]]) -> None:
    """A counter that restarts below its old value is counted from zero: nothing lost, nothing twice."""
    total, grown = 100, 0
    samples = [ServerSample(0.0, preemptions=100.0)]
    for position, (restart, step) in enumerate(steps):
        total = min(step, total - 1) if restart else total + step
        grown += total if restart else step
        samples.append(ServerSample(position + 1.0, preemptions=float(total)))
        if total <= 1:
            break
    assert counter_increase(samples, "preemptions") == (grown if len(samples) > 1 else None)


def test_increase_needs_two_readings() -> None:
    """One reading, or readings without the metric, say nothing about growth: None, not 0."""
    one = ServerSample(1.0, preemptions=3.0)
    blank = ServerSample(2.0)
    assert counter_increase([], "preemptions") is None
    assert counter_increase([one, blank], "preemptions") is None
    assert counter_increase([one, blank, ServerSample(3.0, preemptions=3.0)], "preemptions") == 0.0
    assert counter_increase([one, ServerSample(3.0, preemptions=5.0)], "generation_tokens") is None


def test_peak_skips_what_was_not_measured() -> None:
    """The highest value, with gaps; without any value None."""
    samples = [ServerSample(1.0, kv_usage=0.3), ServerSample(2.0), ServerSample(3.0, kv_usage=0.96)]
    assert gauge_peak(samples, "kv_usage") == 0.96
    assert gauge_peak(samples, "waiting") is None


def _latency(at: float, seconds: float, count: float) -> ServerSample:
    return ServerSample(at, histograms={E2E: (seconds, count)})


def test_a_histogram_is_of_the_window_only() -> None:
    """The requests before the window do not count; a restart in between starts from zero."""
    samples = [_latency(1, 100, 10), ServerSample(2), _latency(3, 112, 13), _latency(4, 6, 2)]
    assert histogram_increase(samples, E2E) == (18.0, 5.0)
    assert histogram_increase(samples[:2], E2E) is None
    assert histogram_increase([_latency(1, 5, 5), _latency(2, 5, 5)], E2E) == (0.0, 0.0)
    assert histogram_increase(samples, "request_queue_time_seconds") is None


def test_finished_by_reason() -> None:
    """Each reason grows by itself; one that first appears in the window counted from zero."""
    samples = [
        ServerSample(1, finished={"stop": 5.0, "length": 1.0}),
        ServerSample(2),
        ServerSample(3, finished={"stop": 7.0, "length": 1.0, "repetition": 2.0}),
    ]
    assert finished_increase(samples) == {"length": 0.0, "repetition": 2.0, "stop": 2.0}
    assert finished_increase(samples[:2]) is None
