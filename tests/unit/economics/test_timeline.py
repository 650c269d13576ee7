"""A batch in time: who runs, what is held, whose the GPU's time is, and the modelled counterfactual."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.economics.account import (
    attribute,
    degeneration_rate,
    dharma_rate,
    energy,
    money,
    wasted_tokens,
)
from stresstest.economics.load import batch_profile, load_curve, most_at_once
from stresstest.economics.modelled import (
    is_closed_loop,
    makespan,
    naive_comparison,
    peak_in_flight,
    substitute_loops,
)
from stresstest.economics.timeline import (
    batch_intervals,
    kv_tokens_at,
    output_tokens_at,
    wall_clock,
)
from stresstest.model import GpuSample
from stresstest.model.cost import RequestSpan


def span(
    name: str, start: float, end: float, tokens: int = 100, *, onset_at: float | None = None
) -> RequestSpan:
    loops = onset_at is not None
    onset = None if onset_at is None else 1 + int(tokens * (onset_at - start) / (end - start))
    return RequestSpan(
        id=name, submitted=start, start=start, end=end, output_tokens=tokens, prompt_tokens=10,
        degenerate=loops, loops=loops, onset=onset, onset_at=onset_at, capped=loops, dharma=loops,
    )  # fmt: skip


@st.composite
def batch(draw: st.DrawFn) -> list[RequestSpan]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        start = draw(st.floats(0.0, 20.0))
        length = draw(st.floats(0.5, 30.0))
        onset = draw(st.none() | st.floats(0.1, 0.9))
        at = None if onset is None else start + onset * length
        found.append(span(f"r{number}", start, start + length, draw(st.integers(1, 400)), onset_at=at))
    return found


@settings(max_examples=40, deadline=None)
@given(batch())
def test_moments_cover_every_requests_time_once(spans: list[RequestSpan]) -> None:
    """What is attributed adds up: each request is running for exactly its own duration."""
    for each in spans:
        here = sum(m.seconds for m in batch_intervals(spans) if any(s is each for s in m.running))
        assert here == pytest.approx(each.duration)


@settings(max_examples=60, deadline=None)
@given(batch(), st.booleans())
def test_the_curve_of_a_load_is_what_each_moment_holds(spans: list[RequestSpan], marked: bool) -> None:
    """A log of 30,000 requests took minutes: what is summed up for all moments is what each one holds."""
    if marked:
        spans = [replace(s, marks=_marks(s)) for s in spans]
    load, moments = load_curve(spans), batch_intervals(spans)
    first = min(s.submitted for s in spans)
    for moment in (each for each in moments if each.seconds > 1e-9):  # the others are between equal times
        at = int(np.searchsorted(load.start, moment.middle - first)) - 1
        assert load.start[at] <= moment.middle - first <= load.start[at] + load.seconds[at] + 1e-9
        assert (load.running[at], load.looping[at]) == (len(moment.running), len(moment.looping))
        middle = first + load.start[at] + load.seconds[at] / 2
        for held, of in ((load.kv, moment.running), (load.kv_loops, moment.looping)):
            assert held[at] == pytest.approx(sum(kv_tokens_at(s, middle) for s in of), rel=1e-6, abs=1e-4)
    assert load.seconds.sum() == pytest.approx(sum(m.seconds for m in moments))


def test_what_answers_hold_adds_up_over_a_day_of_answers_that_come_at_once() -> None:
    """Buffering proxies send an answer in one piece, microseconds before its end: loops held 216 % of the
    cache, and other requests less than nothing."""
    day, rows = 1.7e9, []
    for n in range(4_000):
        start, looping = day + 21.6 * n, n % 33 == 0
        end = start + (60.0 if looping else 2.0)
        onset_at = start + 5.0 if looping else None
        each = span(f"r{n}", start, end, 2_000 if looping else 200, onset_at=onset_at)
        rows.append(replace(each, start=None, first_token=start + 0.2 if looping else end - 1e-6))
    load = load_curve(rows)
    assert load.kv.min() >= 9.9
    assert (load.kv_loops <= load.kv).all()
    whole = sum((10 + s.output_tokens / 2) * (s.end - (s.first_token or 0)) for s in rows)
    assert (load.kv * load.seconds).sum() == pytest.approx(whole, rel=1e-6)


def test_a_request_may_run_before_it_was_sent() -> None:
    """Two clocks: what it holds counts from its first token on, like the request itself; nor does its wait,
    of less than nothing, hide that of another."""
    early = replace(span("a", 5.0, 9.0, onset_at=6.0), start=None, first_token=3.0)
    waiting = replace(span("b", 4.0, 9.0), start=None, first_token=8.0)
    load = load_curve([early, waiting])
    assert load.kv_loops.max() > 0.0
    first = next(m for m in batch_intervals([early, waiting]) if m.start >= 5.0)
    assert first.arriving


def test_a_batch_without_requests_has_no_load() -> None:
    """Nothing runs, and nothing is held."""
    assert most_at_once([]) == 0
    assert attribute([]).used == 0.0


def _marks(span: RequestSpan) -> tuple[tuple[int, float], ...]:
    """Tokens that come slowly at first."""
    shares = ((0.1, 0.4), (0.5, 0.7), (1.0, 1.0))
    return tuple(
        (max(1, round(n * span.output_tokens)), span.submitted + at * span.duration) for n, at in shares
    )


@settings(max_examples=60, deadline=None)
@given(batch())
def test_the_naive_comparison_asks_each_request_for_each_loop(spans: list[RequestSpan]) -> None:
    """It looks a request's loops up by their times, not one by one."""
    found = naive_comparison(spans)
    healthy, loops = [s for s in spans if s.healthy], [s for s in spans if s.loops]
    met = [any((x.onset_at or 0) < s.end and s.submitted < x.end for x in loops) for s in healthy]
    both = any(met) and not all(met)
    assert (found is not None) == both
    if found is not None:
        assert (found.n_inside, found.n_outside) == (sum(met), len(met) - sum(met))


@settings(max_examples=40, deadline=None)
@given(batch())
def test_loops_never_have_more_time_or_memory_than_there_is(spans: list[RequestSpan]) -> None:
    """The loops' part lies between nothing and everything, and is nothing without loops."""
    found = attribute(spans)
    assert 0.0 <= found.after_onset <= found.used + 1e-9 <= wall_clock(spans) + 1e-6
    assert 0.0 <= found.kv_loops <= found.kv_all + 1e-6
    healthy = attribute([replace(s, loops=False, onset_at=None) for s in spans])
    assert (healthy.after_onset, healthy.kv_loops, healthy.kv_peak) == (0.0, 0.0, 0.0)


def test_gpu_time_is_split_among_the_requests_that_run() -> None:
    """Ten seconds alone and ten shared with a loop: the loop's half of those is five."""
    found = attribute([span("a", 0.0, 20.0), span("loop", 5.0, 20.0, onset_at=10.0)])
    assert found.used == pytest.approx(20.0)
    assert found.after_onset == pytest.approx(5.0)


@given(st.lists(st.floats(0.01, 3.0), min_size=2, max_size=30), st.integers(0, 5))
def test_tokens_written_follow_the_marks_and_never_fall(gaps: list[float], prompt: int) -> None:
    """Between two marks in proportion, at a mark exactly its token, never less than before."""
    at, marks = 0.0, []
    for number, gap in enumerate(gaps, 1):
        at += gap
        marks.append((number * 8, at))
    each = RequestSpan("a", 0.0, at, 8 * len(gaps), prompt_tokens=prompt, marks=tuple(marks))
    for token, when in marks:
        assert output_tokens_at(each, when) == pytest.approx(token)
    path = [output_tokens_at(each, at * k / 37) for k in range(38)]
    assert path == sorted(path)
    assert kv_tokens_at(each, at) == pytest.approx(prompt + 8 * len(gaps))


@settings(max_examples=40, deadline=None)
@given(batch(), st.integers(5, 80))
def test_an_outline_holds_the_requests_time(spans: list[RequestSpan], slices: int) -> None:
    """The sparkline's area is the requests' time, whatever the number of slices."""
    drawn = batch_profile(spans, slices)
    area = sum(drawn.running) * drawn.seconds / slices
    assert area == pytest.approx(sum(s.duration for s in spans), rel=1e-6)


def test_wasted_tokens_are_those_from_the_onset_on() -> None:
    """Token 61 of 100 is the first degenerate one: forty are wasted; nothing judged is no zero."""
    loop = replace(span("loop", 0.0, 10.0, onset_at=6.0), onset=61)
    assert wasted_tokens([span("a", 0.0, 1.0), loop]) == 40
    assert wasted_tokens([replace(loop, degenerate=None, onset=None)]) is None


def test_energy_is_power_over_time_of_all_gpus_and_none_without_readings() -> None:
    """Two GPUs at 100 and 50 W for four seconds are 600 J; no power is not zero energy."""
    readings = [GpuSample(at, gpu, "NVML", power=watts) for gpu, watts in (("0", 100.0), ("1", 50.0))
                for at in (0.0, 2.0, 4.0)]  # fmt: skip
    assert energy(readings, 0.0, 4.0) == pytest.approx(600.0)
    assert energy([GpuSample(1.0, "0", "NVML")], 0.0, 4.0) is None
    assert energy(readings, 10.0, 12.0) is None


def test_money_needs_a_price() -> None:
    """An hour at 2.5 is 2.5; without a price there is no sum, and not a free one."""
    assert money(3600.0, 2.5) == pytest.approx(2.5)
    assert money(3600.0, None) is None
    assert money(None, 2.5) is None


def test_both_rates_have_exact_intervals_and_leave_stand_ins_and_the_unjudged_out() -> None:
    """12 of 496 is 2.42 % with 1.26-4.19 % (Clopper-Pearson), the source's own count."""
    spans = [span(f"l{i}", 0.0, 9.0, onset_at=3.0) for i in range(12)]
    spans += [span(f"h{i}", 0.0, 1.0) for i in range(484)]
    spans.append(replace(span("p", 0.0, 9.0), planted=True))
    spans.append(replace(span("u", 0.0, 9.0), degenerate=None, dharma=None))
    for rate in (degeneration_rate(spans), dharma_rate(spans)):
        assert rate is not None
        assert rate.n == 496
        assert rate.value == pytest.approx(12 / 496)
        assert rate.lo == pytest.approx(0.01256, abs=1e-4)
        assert rate.hi == pytest.approx(0.04188, abs=1e-4)
    assert degeneration_rate([replace(spans[0], degenerate=None)]) is None


def test_the_same_prompt_many_times_is_no_large_sample() -> None:
    """Ten loops of one prompt tell of one prompt: the interval is wider than that of ten prompts."""
    spans = [replace(span(f"l{i}", 0.0, 9.0, onset_at=3.0), cluster="same") for i in range(10)]
    spans += [replace(span(f"h{i}", 0.0, 1.0), cluster=f"p{i}") for i in range(90)]
    clustered = degeneration_rate(spans)
    free = degeneration_rate([replace(s, cluster="") for s in spans])
    assert clustered is not None
    assert free is not None
    assert clustered.value == free.value
    assert clustered.hi is not None
    assert free.hi is not None
    assert clustered.hi > free.hi


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=20), st.integers(1, 8))
def test_a_layout_is_never_shorter_than_work_and_longest_request_allow(
    durations: list[float], places: int
) -> None:
    """List scheduling's own bounds: between max(longest, work / places) and all one after the other."""
    whole = makespan(durations, places)
    assert whole >= max(max(durations), sum(durations) / places) - 1e-9
    assert whole <= sum(durations) + 1e-9


def test_the_sources_method_replaces_loopers_by_the_healthy_mean() -> None:
    """Two places, four healthy requests of 2 s and a looper of 20 s: 20 s become 6 s."""
    spans = [
        span("loop", 0.0, 20.0, onset_at=2.0),
        span("a", 0.0, 2.0), span("b", 2.0, 4.0), span("c", 4.0, 6.0), span("d", 6.0, 8.0),
    ]  # fmt: skip
    assert is_closed_loop(spans)
    found = substitute_loops(spans)
    assert found is not None
    assert found.wall_clock == pytest.approx(20.0)
    assert found.counterfactual == pytest.approx(6.0)
    assert found.share_of_time == pytest.approx(0.7)
    assert substitute_loops([spans[0]]) is None


def arrivals(seed: int, *, clients: int | None, late: float = 0.0) -> list[RequestSpan]:
    """120 requests of clients that wait for their answers, or (None) at times of their own, 8 at once on
    average. late: seconds by which one end in twenty is logged after that client's next request."""
    rng = random.Random(seed)
    free, at, found = [0.0] * (clients or 1), 0.0, []
    for n in range(120):
        duration = rng.lognormvariate(1.6, 0.5)
        if clients is None:
            at += rng.expovariate(8 / 5.6)
        else:
            at = heapq.heappop(free)
            heapq.heappush(free, at + duration + rng.uniform(0.0, 0.002))
        found.append(span(f"r{n}", at, at + duration + (late if n % 20 == 0 else 0.0)))
    return found


@given(st.integers(0, 10_000), st.integers(1, 16), st.sampled_from([0.0, 2e-7, 0.004]))
@settings(max_examples=40, deadline=None)
def test_clients_that_wait_are_known_where_ends_are_logged_late(seed: int, clients: int, late: float) -> None:
    """One end in twenty, 2 ms after that client's next request, made nine clients of eight, and what loops
    cost was a third of the truth."""
    spans = arrivals(seed, clients=clients, late=late)
    assert is_closed_loop(spans)
    assert peak_in_flight(spans) == clients


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_arrivals_of_their_own_are_no_clients_that_wait(seed: int) -> None:
    """Whatever the load happens to be."""
    assert not is_closed_loop(arrivals(seed, clients=None))


def test_an_open_loop_keeps_its_arrivals() -> None:
    """Requests that arrive at times of their own are not packed: only the last end moves."""
    spans = [span("loop", 1.0, 30.0, onset_at=2.0)]
    spans += [span(f"a{i}", 3.0 * i, 3.0 * i + 2.0) for i in range(6)]
    assert not is_closed_loop(spans)
    found = substitute_loops(spans)
    assert found is not None
    assert found.wall_clock == pytest.approx(30.0)
    assert found.counterfactual == pytest.approx(17.0)


def test_the_naive_comparison_names_its_bias() -> None:
    """Two kinds of request and a loop that slows nobody: the long ones meet it, and look slowed down."""
    spans = [span("loop", 0.0, 10.0, onset_at=5.0)]
    spans += [span(f"long{i}", 0.0, 9.0) for i in range(3)]
    spans += [span(f"short{i}", 0.0, 1.0) for i in range(3)]
    found = naive_comparison(spans)
    assert found is not None
    assert found.ratio == pytest.approx(9.0)
    assert (found.n_inside, found.n_outside) == (3, 3)
    assert "immortal-time" in found.bias
    assert naive_comparison(spans[1:]) is None
