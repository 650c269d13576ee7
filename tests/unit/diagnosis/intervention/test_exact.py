"""The exact rule by which an arm clears: against known values, and its errors by simulation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from stresstest.diagnosis.intervention.exact import (
    LOOK_SIZES,
    can_still_clear,
    compare_with_unchanged,
    mcnemar_p,
    planned_looks,
    prompts_needed,
)

Arm = dict[str, bool]


def arm(failing: int, of: int = 16) -> Arm:
    return {f"p{i}": i < failing for i in range(of)}


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test(better: int, worse: int) -> None:
    """The hand-written sum agrees with scipy's exact test."""
    expected = binomtest(better, better + worse, 0.5, alternative="greater").pvalue if better + worse else 1.0
    assert mcnemar_p(better, worse) == pytest.approx(expected)


def test_sixteen_prompts_suffice() -> None:
    """The documented promise: 16 failing prompts, all healed, clear, despite two looks and eleven arms."""
    healed = compare_with_unchanged(arm(16), arm(0), arms=8)
    assert healed.clears
    assert healed.p == 2**-16
    assert mcnemar_p(14, 0) < 0.001 / 8 / 2 < mcnemar_p(13, 0)
    assert prompts_needed(8) == 14
    assert prompts_needed(11) == 15
    assert not compare_with_unchanged(arm(13, 13), arm(0, 13), arms=8).clears


def test_an_arm_is_judged_twice_at_most() -> None:
    """At 16 forks and at all of them; what can only clear at the second look goes on to it."""
    assert [planned_looks(n) for n in (9, 16, 20, 24, 40)] == [(9,), (16,), (16, 20), LOOK_SIZES, LOOK_SIZES]
    unchanged = arm(24, 24)
    failing = {f"p{i}": i < 3 for i in range(16)}
    assert not compare_with_unchanged(unchanged, failing, arms=8).clears
    assert can_still_clear(unchanged, failing, list(unchanged), arms=8)
    assert not can_still_clear(unchanged, failing | {"p16": True}, list(unchanged), arms=8)


def test_few_failures_must_be_left() -> None:
    """A significant improvement is not enough: 4 of 24 failures left have an upper bound above 30 %."""
    assert compare_with_unchanged(arm(24, 24), arm(3, 24), arms=8).clears
    assert not compare_with_unchanged(arm(24, 24), arm(4, 24), arms=8).clears


def test_an_arm_is_decided_early() -> None:
    """At n = 16 the second failure ends an arm: nothing that follows could clear it."""
    unchanged = arm(16)
    assert can_still_clear(unchanged, {"p0": True, "p1": False}, list(unchanged), arms=8)
    assert not can_still_clear(unchanged, {"p0": True, "p1": True}, list(unchanged), arms=8)


@given(st.lists(st.booleans(), min_size=1, max_size=24), st.lists(st.booleans(), min_size=24, max_size=24))
def test_early_decisions_agree_with_the_whole(seen: list[bool], rest: list[bool]) -> None:
    """An arm that was given up early would have cleared at neither look, however its rest had come out."""
    unchanged = arm(24, 24)
    so_far = {f"p{i}": failed for i, failed in enumerate(seen)}
    whole = {f"p{i}": seen[i] if i < len(seen) else rest[i] for i in range(24)}
    if not can_still_clear(unchanged, so_far, list(unchanged), arms=8):
        first = {key: whole[key] for key in list(whole)[: LOOK_SIZES[0]]}
        assert not compare_with_unchanged(unchanged, whole, arms=8).clears
        assert len(seen) > LOOK_SIZES[0] or not compare_with_unchanged(unchanged, first, arms=8).clears


def test_an_arm_without_effect_does_not_clear() -> None:
    """Simulation with a known truth: of 1,500 arms that change nothing, none clears at either look, at any
    base rate."""
    rng = random.Random(5)
    for rate in (0.5, 0.8, 0.95):
        cleared = 0
        for _ in range(500):
            unchanged = {f"p{i}": rng.random() < rate for i in range(24)}
            other = {f"p{i}": rng.random() < rate for i in range(24)}
            first = {key: other[key] for key in list(other)[: LOOK_SIZES[0]]}
            cleared += any(compare_with_unchanged(unchanged, seen, arms=8).clears for seen in (first, other))
        assert cleared == 0


def test_an_arm_that_heals_is_seen() -> None:
    """Power, simulated: an arm that leaves 2 % of failures clears in over 90 % of diagnoses."""
    rng = random.Random(6)
    cleared = 0
    for _ in range(300):
        unchanged = {f"p{i}": rng.random() < 0.98 for i in range(16)}
        healed = {f"p{i}": rng.random() < 0.02 for i in range(16)}
        cleared += compare_with_unchanged(unchanged, healed, arms=8).clears
    assert cleared > 270
