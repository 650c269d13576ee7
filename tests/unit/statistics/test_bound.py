"""The drawn bound is the certified one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.model import RIGORS
from stresstest.statistics import certified_threshold
from stresstest.statistics.certify import bound_curve
from tests.support.samples import sample

QUICK = RIGORS["quick"]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(30, 90), min_size=22, max_size=60),
    st.lists(st.integers(10, 120), min_size=60, max_size=60),
)
def test_the_curve_crosses_the_tolerated_risk_where_certify_stops(
    onsets: list[int | None], lengths: list[int]
) -> None:
    """Picture and number must not differ: up to T below alpha, above it beyond; doubt counts as failure."""
    made = sample(onsets, lengths)
    threshold = certified_threshold(made, QUICK)
    curve = bound_curve(made, QUICK.confidence, floor=QUICK.floor)
    reached = [tokens for tokens, upper in curve if upper <= QUICK.alpha]
    if threshold.tokens is None:
        assert not reached
    else:
        assert max(reached) <= threshold.tokens
        assert all(upper <= QUICK.alpha for tokens, upper in curve if tokens <= threshold.tokens)
        assert max(reached) == threshold.tokens or len(curve) > 100


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(30, 90), min_size=22, max_size=60))
def test_the_bound_only_rises(onsets: list[int]) -> None:
    """A larger T never has a smaller risk: the monotony that makes choosing T free."""
    curve = bound_curve(sample(list(onsets), [100] * len(onsets)), 0.9, floor=1)
    uppers = [upper for _, upper in curve]
    assert uppers == sorted(uppers)


def test_no_sample_has_no_curve() -> None:
    """Nothing measured, nothing drawn."""
    assert bound_curve([], 0.9) == ()
    assert bound_curve(sample([None] * 5, [50] * 5), 0.9, floor=22) == ()
