"""The causal ratios: pairs of batches, their intervals, and what belongs to no pair."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.economics.paired import (
    complete_pairs,
    healthy_slowdown,
    log_interval,
    loop_tax,
    matched_lengths,
    wall_clock_ratio,
    wall_clocks,
)
from stresstest.model.cost import CostArm, RequestSpan


def span(
    name: str, submitted: float, end: float, *, pair: int = 0, arm: CostArm = CostArm.LOOPS
) -> RequestSpan:
    return RequestSpan(
        id=name, submitted=submitted, end=end, output_tokens=100, degenerate=False,
        batch=f"{pair}/{arm}", arm=arm, pair=pair,
    )  # fmt: skip


def looper(name: str, end: float, *, pair: int = 0, arm: CostArm = CostArm.LOOPS) -> RequestSpan:
    return replace(span(name, 0.0, end, pair=pair, arm=arm), degenerate=True, loops=True, onset=5)


def measured(pair: int, slower: float, drift: float = 1.0) -> list[RequestSpan]:
    """A pair in which loops slow two healthy requests down by a factor; `drift`: the pair's own speed."""
    found = []
    for arm, factor in ((CostArm.LOOPS, slower), (CostArm.CAPPED, 1.0)):
        found += [
            span("a", 0.0, 2.0 * factor * drift, pair=pair, arm=arm),
            span("b", 1.0, 1.0 + 3.0 * factor * drift, pair=pair, arm=arm),
            looper("loop", (9.0 if arm is CostArm.LOOPS else 4.0) * drift, pair=pair, arm=arm),
        ]
    return found


@settings(deadline=None)  # scipy is imported by the first example
@given(st.floats(0.5, 4.0), st.lists(st.floats(0.1, 10.0), min_size=3, max_size=9))
def test_a_factor_on_healthy_durations_is_found_whatever_the_pairs_own_speed(
    slower: float, drifts: list[float]
) -> None:
    """Pairing removes what both arms share: only the factor between them is left, in ratio and interval."""
    spans = [s for n, drift in enumerate(drifts) for s in measured(n, slower, drift)]
    ratio = healthy_slowdown(complete_pairs(spans))
    assert ratio is not None
    assert ratio.n == len(drifts)
    assert ratio.value == pytest.approx(slower, rel=1e-6)
    assert ratio.lo == pytest.approx(slower, rel=1e-5)
    assert ratio.hi == pytest.approx(slower, rel=1e-5)


def test_only_requests_that_are_healthy_in_both_arms_are_compared() -> None:
    """A looper, a lost and a planted request change their own duration, not what healthy ones pay."""
    spans = measured(0, 1.5)
    spans.append(replace(span("lost", 0.0, 50.0), failure="cut"))
    spans.append(replace(span("lost", 0.0, 1.0, arm=CostArm.CAPPED), failure=None))
    spans.append(replace(span("stand-in", 0.0, 80.0), planted=True))
    spans.append(replace(span("stand-in", 0.0, 1.0, arm=CostArm.CAPPED), planted=True))
    found = complete_pairs(spans)
    assert [a.id for a, _ in found[0].healthy] == ["a", "b"]
    ratio = healthy_slowdown(found)
    assert ratio is not None
    assert ratio.value == pytest.approx(1.5)


def test_the_interval_is_students_t_over_pairs() -> None:
    """Against a textbook value: logs 0, 0.1, 0.2 have mean 0.1, s = 0.1, t(2) = 4.3027."""
    ratio = log_interval([0.0, 0.1, 0.2], "t")
    assert ratio is not None
    half = 4.302652729749462 * 0.1 / math.sqrt(3)
    assert ratio.value == pytest.approx(math.exp(0.1))
    assert ratio.lo == pytest.approx(math.exp(0.1 - half))
    assert ratio.hi == pytest.approx(math.exp(0.1 + half))


def test_two_pairs_give_a_ratio_without_an_interval_and_none_give_nothing() -> None:
    """Student's t on one degree of freedom would be a number that says nothing."""
    ratio = wall_clock_ratio(complete_pairs(measured(0, 1.0) + measured(1, 1.0)))
    assert ratio is not None
    assert (ratio.lo, ratio.hi, ratio.n) == (None, None, 2)
    assert ratio.value == pytest.approx(9.0 / 4.0)
    assert healthy_slowdown([]) is None
    assert wall_clocks([]) is None


def test_a_batch_without_loops_is_its_own_counterfactual() -> None:
    """Leaving such pairs out would measure the cost of loops given that there are some."""
    spans = [span("a", 0.0, 2.0, pair=1), *measured(0, 2.0)]
    found = complete_pairs(spans)
    ratio = healthy_slowdown(found)
    assert len(found) == 2
    assert ratio is not None
    assert ratio.value == pytest.approx(math.sqrt(2.0))


def test_scouts_and_halves_belong_to_no_pair() -> None:
    """A scout only tells who loops; a pair that lost its capped arm to Ctrl-C is no pair."""
    scouts = [replace(s, arm=CostArm.SCOUT) for s in measured(0, 2.0) if s.arm == CostArm.LOOPS]
    half = [s for s in measured(1, 2.0) if s.arm == CostArm.LOOPS]
    capped_only = [s for s in measured(2, 2.0) if s.arm == CostArm.CAPPED]
    assert complete_pairs([*scouts, *half, *capped_only]) == []


def test_the_sources_times_are_a_share_of_42_5_and_an_inflation_of_73_8_percent() -> None:
    """The source calls 42.47 % an inflation: it is the share of the observed time. Both, told apart."""
    share, inflation = loop_tax(7.3, 4.2)
    assert share == pytest.approx(0.425, abs=5e-4)
    assert inflation == pytest.approx(0.738, abs=5e-4)


@given(st.floats(0.01, 1e5), st.floats(0.01, 1e5))
def test_share_is_inflation_over_one_plus_inflation(wall: float, counterfactual: float) -> None:
    """The contract of `cost --json`, for every pair of times."""
    share, inflation = loop_tax(wall, counterfactual)
    assert share == pytest.approx(inflation / (1.0 + inflation), rel=1e-9, abs=1e-9)


def test_times_of_nothing_have_no_tax() -> None:
    """A wall clock of zero is not measured; it must not become a share."""
    with pytest.raises(ValueError, match="above zero"):
        loop_tax(0.0, 1.0)


@given(
    st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6),
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.integers(1, 900), max_size=8),
    st.integers(0, 1000),
)
def test_matched_lengths_are_lengths_of_healthy_requests_and_the_same_every_time(
    loopers: list[str], healthy: dict[str, int], seed: int
) -> None:
    """Both arms and a repeated analysis must draw the same cap, whatever the order of arrival."""
    drawn = matched_lengths(loopers, healthy, seed=seed, fallback=77)
    again = matched_lengths(loopers[::-1], dict(reversed(healthy.items())), seed=seed, fallback=77)
    assert drawn == again
    assert set(drawn) == set(loopers)
    assert set(drawn.values()) <= (set(healthy.values()) or {77})
