"""The certified bound: the estimand, its monotony, its floors, and what censors."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from math import log

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest

from stresstest.model import RIGORS, Observation, Rigor, Threshold
from stresstest.statistics import certified_threshold, certify, risk_at, safe_max_tokens, upper_bound
from stresstest.statistics.certify import certify_looks, needed_at_risk, spoilt_windows_reason
from tests.support.generations import make, make_job

QUICK = RIGORS["quick"]


@st.composite
def observation(draw: st.DrawFn) -> Observation:
    observed = draw(st.integers(0, 60))
    onset = observed + 1 if draw(st.booleans()) else None
    invalid = draw(st.none() | st.integers(1, 70))
    doubtful = onset is None and draw(st.booleans())
    return Observation(onset, observed, invalid_from=invalid, unresolved=doubtful)


samples = st.lists(observation(), max_size=90)
rigors = st.sampled_from([QUICK, RIGORS["standard"], Rigor("loose", 0.3, 0.8, 8, 5)])


@given(st.integers(1, 400), st.data(), st.sampled_from([0.9, 0.95, 0.975, 0.9875]))
def test_upper_bound_is_clopper_pearson(n: int, data: st.DataObject, confidence: float) -> None:
    """The bound is the one-sided exact one, as scipy's own binomial test gives it."""
    d = data.draw(st.integers(0, n))
    interval = binomtest(d, n, alternative="less").proportion_ci(confidence, method="exact")
    assert upper_bound(d, n, confidence) == pytest.approx(float(interval.high), abs=1e-9)


def test_upper_bound_refuses_what_is_no_proportion() -> None:
    """More failures than requests is a bug of the caller, never a number; none at risk knows nothing."""
    with pytest.raises(ValueError, match="not a proportion"):
        upper_bound(3, 2, 0.95)
    assert upper_bound(0, 0, 0.95) == 1.0


@pytest.mark.slow
@given(samples)
def test_bound_is_monotone_in_tokens(sample: list[Observation]) -> None:
    """Choosing T from the data is free only because the bound never falls as T grows."""
    bounds = [upper_bound(d, n, 0.9) for n, d in (risk_at(t, sample) for t in range(1, 75))]
    assert all(a <= b + 1e-12 for a, b in pairwise(bounds))


@pytest.mark.slow
@given(samples, rigors)
def test_certified_is_the_largest_admissible(sample: list[Observation], rigor: Rigor) -> None:
    """T is admissible, never beyond what was observed, and no larger T that nothing doubtful limits is."""
    threshold = certify(sample, rigor)
    admissible = [
        t
        for t in range(1, 75)
        for n, d in [risk_at(t, sample)]
        if n >= rigor.floor and upper_bound(d, n, rigor.confidence) <= rigor.alpha
    ]
    if threshold.tokens is None:
        assert threshold.lacking
        return
    assert threshold.tokens in admissible
    assert (threshold.n, threshold.onsets) == risk_at(threshold.tokens, sample)
    assert threshold.tokens <= max(o.observed for o in sample)
    if not any(o.unresolved for o in sample):
        assert threshold.tokens == max(admissible)


@pytest.mark.slow
@given(samples, rigors, st.data())
def test_more_evidence_of_failure_never_raises_the_threshold(
    sample: list[Observation], rigor: Rigor, data: st.DataObject
) -> None:
    """An earlier onset, or a failure instead of health, can only lower T."""
    assume(sample)
    index = data.draw(st.integers(0, len(sample) - 1))
    victim = sample[index]
    onset = data.draw(st.integers(1, victim.observed + 1))
    worse = [*sample[:index], Observation(onset, onset - 1), *sample[index + 1 :]]
    assume(victim.invalid_from is None)
    assert (certify(worse, rigor).tokens or 0) <= (certify(sample, rigor).tokens or 0)


def test_hand_counted_risk() -> None:
    """Four generations: failing at 50, healthy through 80, healthy end at 40, failing at 90."""
    sample = [Observation(50, 49), Observation(None, 80), Observation(None, 40), Observation(90, 89)]
    assert [risk_at(t, sample) for t in (40, 41, 49, 50, 80, 81, 89, 90)] == [
        (4, 0),
        (3, 0),
        (3, 0),
        (3, 1),
        (3, 1),
        (2, 1),
        (2, 1),
        (2, 2),
    ]


@pytest.mark.parametrize(("name", "floor"), [("quick", 22), ("standard", 59), ("strict", 299)])
def test_floor_is_the_wilks_number(name: str, floor: int) -> None:
    """Exactly the floor certifies without onsets, one fewer does not, and says by how many it falls short."""
    rigor = RIGORS[name]
    assert needed_at_risk(rigor.alpha, rigor.confidence) == floor
    healthy = [Observation(None, 600)] * floor
    threshold = certify(healthy, rigor)
    assert (threshold.tokens, threshold.censored_at, threshold.certified) == (600, 600, True)
    short = certify(healthy[1:], rigor)
    assert (short.certified, short.tokens, short.n) == (False, None, floor - 1)
    assert short.lacking is not None
    assert (
        f"{floor} answers at risk are needed, but there were only {floor - 1}; measure at least 1 more"
        in short.lacking
    )


def test_planned_sample_allows_an_onset() -> None:
    """38 at risk carry one onset at quick: T lies before the second, and it is no ">= C"."""
    sample = [Observation(o, o - 1) for o in range(500, 538)]
    threshold = certify(sample, QUICK)
    assert (threshold.tokens, threshold.n, threshold.onsets) == (500, 38, 1)
    assert threshold.censored_at is None
    assert threshold.upper == pytest.approx(upper_bound(1, 38, 0.9))


def test_failing_from_the_start_is_said() -> None:
    """Enough data and nothing but failures is not "too few data"."""
    threshold = certify([Observation(1, 0)] * 40, QUICK)
    assert not threshold.certified
    assert threshold.lacking == (
        "40 of 40 answers at risk degenerate within the first token: "
        "no length keeps the risk at or below 10 % with 90 % confidence."
    )


def test_nothing_observed_is_said() -> None:
    """An empty sample certifies nothing and does not crash."""
    threshold = certify([], QUICK)
    assert (threshold.certified, threshold.n, threshold.upper) == (False, 0, None)
    assert threshold.lacking is not None
    assert "there were none" in threshold.lacking


def test_doubtful_at_the_cap_holds_the_threshold_back() -> None:
    """All fail right before the cap, too late for an alarm: T must not run past where they stood healthy."""
    stopped = [Observation(None, 900 + i, unresolved=True) for i in range(38)]
    seen = certify(stopped, QUICK)
    naive = certify([Observation(None, o.observed) for o in stopped], QUICK)
    assert seen.tokens == 901  # one doubtful one is admissible at 38, as one onset is
    assert naive.tokens is not None
    assert naive.tokens > 910


def test_invalid_window_censors_successes_too() -> None:
    """A preempted healthy generation is no evidence beyond the preemption, as a failing one is none."""
    failing = [Observation(300, 299, invalid_from=200)] * 30
    healthy = [Observation(None, 1000, invalid_from=200)] * 30
    assert risk_at(199, failing) == risk_at(199, healthy) == (30, 0)
    assert risk_at(200, failing) == risk_at(200, healthy) == (0, 0)
    assert certify(failing, QUICK).tokens == certify(healthy, QUICK).tokens == 199


def test_onset_before_the_invalid_window_counts() -> None:
    """What failed before the server was disturbed has failed."""
    assert risk_at(300, [Observation(150, 149, invalid_from=200)]) == (1, 1)


def test_looks_share_the_error() -> None:
    """At four looks the first 38 healthy requests certify at 97.5 %, and 22 no longer do."""
    healthy = [Observation(None, 500)] * 38
    first = certify_looks([healthy], QUICK)
    assert (first.tokens, first.looks, first.confidence) == (500, 4, 0.9)
    assert first.upper == pytest.approx(upper_bound(0, 38, 0.975))
    assert not certify_looks([healthy[:22]], QUICK).certified


@pytest.mark.slow
def test_the_best_of_several_samples_keeps_the_promise() -> None:
    """The farthest of 12 settings that change nothing lay beyond the truth in two of three sweeps: each is
    wrong one time in ten, and the largest is the wrong one. With a truth that is known: 10 % fail by 316."""
    rng = random.Random(4)
    rigor, cells, truth = Rigor("", 0.1, 0.9, 0, 0), 12, 3000 * -log(0.9)
    alone = together = 0
    for _ in range(120):
        samples = [
            [
                Observation(onset, onset - 1)
                for onset in (1 + int(rng.expovariate(1 / 3000)) for _ in range(80))
            ]
            for _ in range(cells)
        ]
        alone += max(certify(each, rigor).tokens or 0 for each in samples) > truth
        together += max(certify(each, rigor, among=cells).tokens or 0 for each in samples) > truth
    assert alone > 60
    assert together <= 20  # 12 are expected at most, 19 with a probability of 2 %


def test_largest_over_the_looks() -> None:
    """A later look may certify less; the largest stands, but an onset ends ">= C"."""
    first = [Observation(None, 500)] * 38
    later = [*first, *[Observation(200, 199)] * 38]
    best = certify_looks([first, later], QUICK)
    assert (best.tokens, best.censored_at) == (500, None)
    with pytest.raises(ValueError, match="4 were declared"):
        certify_looks([first] * 5, QUICK)


def test_looks_follow_the_rungs_of_the_jobs() -> None:
    """With --tighten the looks are read from the jobs: 38 at rung 4, 38 more at rung 5."""
    made = [make(make_job(rung=4 + i // 38, index=i), 2000, 800 + i) for i in range(76)]
    tight = certified_threshold(made, QUICK, tighten=True)
    assert tight == certify_looks(
        [
            [Observation(800 + i, 799 + i) for i in range(38)],
            [Observation(800 + i, 799 + i) for i in range(76)],
        ],
        QUICK,
    )
    assert certified_threshold(made, QUICK).looks == 1


def test_losses_may_not_choose_the_sample() -> None:
    """A gateway cuts every stream at 352 while a quarter loop from 288 on: nothing is certified, and why is
    said; when only some are cut, those with an open candidate are taken for failures."""
    cut = [make(make_job(index=i), 352, observed=288 if i % 4 == 0 else 340, lost=True) for i in range(38)]
    all_lost = certified_threshold(cut, QUICK)
    assert (all_lost.certified, all_lost.tokens) == (False, None)
    assert all_lost.lacking is not None
    assert all_lost.lacking.startswith("38 of 38 certifying answers were lost to service failures")
    some = [*cut[:10], *(make(make_job(index=i), 900) for i in range(10, 130))]
    assert certified_threshold(some, RIGORS["standard"]).tokens == 288
    assert not certified_threshold(cut, QUICK, tighten=True).certified


@pytest.mark.parametrize("source", ["words", "tiktoken (estimate)"])
def test_uncounted_tokens_certify_nothing(source: str) -> None:
    """One generation whose tokens nobody counted, healthy or failing: no T, and the reason in words."""
    counted = [make(make_job(index=i), 600, timed=True, word=f"w{i}") for i in range(40)]
    for onset in (None, 500):
        odd = replace(make(make_job(index=40), 600, onset, timed=True), token_source=source)
        threshold = certified_threshold([*counted, odd], QUICK)
        assert (threshold.certified, threshold.tokens, threshold.upper) == (False, None, None)
        assert threshold.lacking is not None
        assert threshold.lacking.startswith("token counts are unknown: for 1 of 41")
    lost = replace(make(make_job(index=40), 600, timed=True, lost=True), token_source=source)
    assert certified_threshold([*counted, lost], QUICK).tokens == 600
    many = [
        replace(make(make_job(index=40 + i), 600, lost=True, timed=True), token_source=source)
        for i in range(9)
    ]
    assert not certified_threshold([*counted, *many], QUICK).certified


def test_no_threshold_beyond_what_was_asked_for() -> None:
    """A server that counts 780 tokens where 400 were allowed does not make 780 safe."""
    made = [make(make_job(index=i, max_tokens=400), 1100, 781, timed=True) for i in range(40)]
    assert (certified_threshold(made, QUICK).tokens or 0) <= 400


@given(st.integers(1, 200_000), st.integers(0, 99))
def test_safe_max_tokens_is_exact(tokens: int, percent: int) -> None:
    """floor(T x (1 - margin)) in exact arithmetic: a margin of 10 % on 1,000 tokens is 900."""
    threshold = Threshold(0.1, 0.9, tokens=tokens, certified=True)
    assert safe_max_tokens(threshold, percent / 100) == tokens * (100 - percent) // 100


def test_safe_max_tokens_needs_a_certificate() -> None:
    """Nothing certified, nothing recommended; a margin of 100 % is a mistake."""
    assert safe_max_tokens(Threshold(0.1, 0.9, lacking="all"), 0.1) is None
    with pytest.raises(ValueError, match="share"):
        safe_max_tokens(Threshold(0.1, 0.9, tokens=5, certified=True), 1.0)


def test_answers_that_fail_in_spoilt_windows_are_not_forgotten() -> None:
    """Preempted windows censor, but when more than the tolerated share degenerates inside them, a limit
    certified from the rest would be a wrong "safe": nothing is certified, and the sentence says why."""
    healthy = [make(make_job(index=i), 4000, finish="length") for i in range(30)]
    spoilt = [make(make_job(index=30 + i), 900, 600, invalid_from=300) for i in range(8)]
    rigor = RIGORS["quick"]
    assert certified_threshold(healthy, rigor).certified
    few = certified_threshold([*healthy, *spoilt[:3]], rigor)
    assert few.certified
    many = certified_threshold([*healthy, *spoilt], rigor)
    assert not many.certified
    assert many.lacking is not None
    assert "8 of 38 certifying answers" in many.lacking


@pytest.mark.parametrize(("spoilt", "fit"), [(0, True), (3, True), (8, False)])
def test_a_sample_of_an_unfit_server_shows_nothing_in_a_comparison_either(spoilt: int, fit: bool) -> None:
    """Six of 38 answers looped right after a preemption: `run` certified nothing, `check` passed with 0 of
    23."""
    healthy = [make(make_job(index=i), 4000, finish="length") for i in range(30)]
    hidden = [make(make_job(index=30 + i), 900, 600, invalid_from=300) for i in range(spoilt)]
    why = spoilt_windows_reason([*healthy, *hidden], RIGORS["quick"], None)
    assert (why is None) is fit
    assert fit or "not fit to measure it" in str(why)
