"""The pictures beside the bound, on examples small enough to count by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model import Observation
from stresstest.statistics import onset_ratio, survival_curve
from stresstest.statistics.survival import clustered_onset_ratio, cumulative_incidence, kaplan_meier
from tests.support.generations import make, make_job


def failing(onset: int) -> Observation:
    return Observation(onset, onset - 1)


def test_kaplan_meier_by_hand() -> None:
    """Onsets at 5, 6, 10, censored at 6 and 8: 4/5, then 3/5, then 0; bands as scipy's log-log."""
    sample = [failing(5), failing(6), Observation(None, 6), Observation(None, 8), failing(10)]
    points = kaplan_meier(sample)
    assert [p[0] for p in points] == [0, 5, 6, 10]
    assert [p[1] for p in points] == pytest.approx([1, 0.8, 0.6, 0])
    assert points[1][2:] == pytest.approx((0.20380926, 0.96917979), abs=1e-7)
    assert points[-1][2:] == pytest.approx((0.0, points[-2][3]))


def test_kaplan_meier_without_onsets_or_data() -> None:
    """No onset: flat to the last token observed, no band made up of nothing; no sample: no curve."""
    assert kaplan_meier([Observation(None, 50), Observation(None, 70)]) == ((0, 1, 1, 1), (70, 1, 1, 1))
    assert kaplan_meier([]) == ()
    assert survival_curve([make(make_job(), 40)]) == ((0, 1, 1, 1), (40, 1, 1, 1))


@given(
    st.lists(
        st.builds(
            lambda t, f: failing(t + 1) if f else Observation(None, t), st.integers(1, 50), st.booleans()
        ),
        min_size=1,
        max_size=40,
    )
)
def test_curves_are_monotone_and_bounded(sample: list[Observation]) -> None:
    """Survival falls, its band holds it, and incidence rises within 0 and 1."""
    points = kaplan_meier(sample)
    assert all(lo - 1e-9 <= s <= hi + 1e-9 for _, s, lo, hi in points)
    assert all(a[1] >= b[1] for a, b in pairwise(points))
    shares = [s for _, s in cumulative_incidence(sample)]
    assert shares == sorted(shares)
    assert 0.0 <= shares[-1] <= 1.0 + 1e-12


def test_cumulative_incidence_by_hand() -> None:
    """Four requests: one ends in health at 10, one fails at 20, one is cut at 30, one fails at 40."""
    sample = [Observation(None, 10, ended=True), failing(20), Observation(None, 30), failing(40)]
    assert cumulative_incidence(sample) == ((0.0, 0.0), (20.0, 0.25), (40.0, 0.75))


def test_incidence_without_censoring_is_the_plain_share() -> None:
    """30 failing, 70 ending in health: at the end 30 %, where 1 - Kaplan-Meier would claim more."""
    sample = [failing(10 + i) for i in range(30)] + [Observation(None, 5 + i, ended=True) for i in range(70)]
    assert cumulative_incidence(sample)[-1] == pytest.approx((39.0, 0.30))
    assert 1 - kaplan_meier(sample)[-1][1] > 0.30


def test_onset_ratio_of_equal_and_shifted_onsets() -> None:
    """The same onsets at both lengths are independent of it; twice as late is not; four are too few."""
    short = [1000 + 5 * i for i in range(30)]
    same = onset_ratio(short, list(reversed(short)))
    assert same is not None
    assert same.ratio == pytest.approx(1.0)
    assert same.independent
    assert same.lo <= 1.0 <= same.hi
    doubled = onset_ratio(short, [2 * o for o in short])
    assert doubled is not None
    assert doubled.ratio == pytest.approx(2.0)
    assert not doubled.independent
    assert onset_ratio(short, short[:4]) is None


def test_onsets_of_one_prompt_are_a_cluster_in_the_interval() -> None:
    """Six prompts with eight onsets each tell as much as six onsets: the interval is no narrower."""
    short, long = [200, 240, 300, 260, 420, 220], [300, 350, 280, 420, 260, 500]
    alone = onset_ratio(short, long)
    repeated = clustered_onset_ratio([[onset] * 8 for onset in short], [[onset] * 8 for onset in long])
    pooled = onset_ratio(short * 8, long * 8)
    assert alone is not None
    assert repeated is not None
    assert pooled is not None
    assert (repeated.ratio, repeated.lo, repeated.hi) == pytest.approx((alone.ratio, alone.lo, alone.hi))
    assert (repeated.n_short, repeated.n_long) == (48, 48)
    assert pooled.hi / pooled.lo < repeated.hi / repeated.lo
    assert clustered_onset_ratio([short], [long]) is None


def test_onset_ratio_is_reproducible_and_honest_about_noise() -> None:
    """A few scattered onsets show nothing: not "independent", and the same answer each time."""
    short, long = [200, 900, 1500, 400, 3000, 700], [300, 2500, 800, 1200, 500]
    first = onset_ratio(short, long)
    assert first == onset_ratio(short, long)
    assert first is not None
    assert not first.independent
