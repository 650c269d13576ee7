"""The statistics of `check`: counts at T, exact and score bounds, rules and their precedence."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from stresstest.model import (
    CheckVerdict,
    ComparisonSide,
    FindingKind,
    Method,
    Observation,
    Plane,
    Severity,
    Subject,
)
from stresstest.statistics import risk_at
from stresstest.statistics.assessment import CheckRule, assess_pairs, assess_risk
from stresstest.statistics.comparison import (
    ObservationStatus,
    PairAnalysis,
    PairCounts,
    RiskCounts,
    difference_bounds,
    judge_difference,
    judge_risk,
    log_rank,
    look_confidence,
    lower_bound,
    match_pairs,
    needed_for_risk,
    needed_pairs,
    observation_status,
    risk_bounds,
    risk_counts,
    score_statistic,
)
from stresstest.statistics.findings import check_findings, compare_survival

PASS, REGRESSION, INCONCLUSIVE = CheckVerdict.PASS, CheckVerdict.REGRESSION, CheckVerdict.INCONCLUSIVE
SUBJECT = Subject("lab", "narrative", "it")


@st.composite
def observation(draw: st.DrawFn) -> Observation:
    observed = draw(st.integers(0, 60))
    onset = observed + 1 if draw(st.booleans()) else None
    invalid = draw(st.none() | st.integers(1, 70))
    doubtful = onset is None and draw(st.booleans())
    ended = onset is None and draw(st.booleans())
    return Observation(onset, observed, "", None, invalid, ended, doubtful)


@st.composite
def pair_counts(draw: st.DrawFn) -> PairCounts:
    n = draw(st.integers(1, 150))
    b = draw(st.integers(0, n))
    return PairCounts(n, b, draw(st.integers(0, n - b)))


samples = st.lists(observation(), max_size=60)
confidences = st.sampled_from([0.9, 0.95, 0.975])


def healthy(n: int, reach: int = 100) -> list[Observation]:
    return [Observation(None, reach, f"h{i}") for i in range(n)]


def failing(n: int, onset: int = 50) -> list[Observation]:
    return [Observation(onset, onset - 1, f"f{i}") for i in range(n)]


@pytest.mark.slow
@given(samples, st.integers(1, 70))
def test_counts_are_those_of_the_estimand(sample: list[Observation], tokens: int) -> None:
    """Failed and at risk are what certification counts; every generation has exactly one state."""
    counts = risk_counts(tokens, sample)
    assert (counts.at_risk, counts.failed) == risk_at(tokens, sample)
    assert counts.at_risk + counts.doubtful + counts.censored + counts.gone == len(sample)


def test_what_a_generation_says_about_t() -> None:
    """Each ending in its state: a cap below T is censored, a healthy end tells nothing, a copy neither."""
    assert observation_status(100, Observation(100, 99)) is ObservationStatus.FAILED
    assert observation_status(100, Observation(101, 100)) is ObservationStatus.HEALTHY
    assert observation_status(100, Observation(None, 100)) is ObservationStatus.HEALTHY
    assert observation_status(100, Observation(None, 99)) is ObservationStatus.CENSORED
    assert observation_status(100, Observation(None, 99, ended=True)) is ObservationStatus.GONE
    assert observation_status(100, Observation(None, 99, unresolved=True)) is ObservationStatus.DOUBTFUL
    assert observation_status(100, Observation(150, 0)) is ObservationStatus.GONE
    assert observation_status(100, Observation(90, 89, invalid_from=40)) is ObservationStatus.CENSORED


@given(st.integers(1, 300), st.data(), confidences)
def test_lower_bound_is_clopper_pearson(n: int, data: st.DataObject, confidence: float) -> None:
    """As scipy's own binomial test gives it; nothing is known from nothing."""
    d = data.draw(st.integers(0, n))
    exact = binomtest(d, n, alternative="greater").proportion_ci(confidence, method="exact")
    assert lower_bound(d, n, confidence) == pytest.approx(float(exact.low), abs=1e-9)
    assert lower_bound(0, 0, confidence) == 0.0
    with pytest.raises(ValueError, match="not a proportion"):
        lower_bound(n + 1, n, confidence)


@pytest.mark.slow
@given(samples, st.integers(1, 70), confidences)
def test_the_undecided_only_widen_the_bounds(
    sample: list[Observation], tokens: int, confidence: float
) -> None:
    """Whatever the undecided truly were, the bounds of the true counts lie inside: that makes them honest."""
    counts = risk_counts(tokens, sample)
    lower, upper = risk_bounds(counts, confidence)
    assert 0.0 <= lower <= upper <= 1.0
    for failed in range(counts.doubtful + 1):
        true = RiskCounts(counts.failed + failed, counts.healthy + counts.doubtful - failed)
        inner = risk_bounds(true, confidence)
        assert lower <= inner[0] + 1e-12
        assert inner[1] <= upper + 1e-12


def test_a_cap_below_t_makes_no_regression() -> None:
    """A candidate asked for less than T leaves its failures and no healthy witness: that proves nothing."""
    short = [*failing(5), *(Observation(None, 75, f"c{i}") for i in range(95))]
    rule = CheckRule(100, 0.05, 0.05, 0.95)
    found = assess_risk(short, rule)
    assert (found.failed, found.at_risk) == (5, 5)
    assert found.tested is INCONCLUSIVE
    assert found.lacking is not None
    assert "95 more were stopped or undecided before T" in found.lacking


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.005, 0.3), st.floats(0.0, 0.3))
def test_one_verdict_and_the_pass_goes_first(a: float, b: float, alpha: float, increase: float) -> None:
    """Both rules can hold only for a candidate that is worse by less than is tolerated: that passes."""
    bounds = (min(a, b), max(a, b))
    found = judge_risk(bounds, alpha, increase)
    assert (found is PASS) == (bounds[1] <= alpha + increase)
    if found is REGRESSION:
        assert bounds[0] > alpha
        assert bounds[1] > alpha + increase
    if increase == 0.0 and found is PASS:
        assert bounds[0] <= alpha


def test_a_sure_but_tolerated_increase_passes_and_says_so() -> None:
    """7 % of very many, against α = 5 % and α + Δ = 10 %: worse, surely, and still within what is allowed."""
    found = assess_risk([*failing(140), *healthy(1860)], CheckRule(100, 0.05, 0.05, 0.95))
    assert found.tested is PASS
    assert found.tolerated
    assert found.bounds[0] > 0.05


def test_two_looks_share_the_error() -> None:
    """--extend: both looks at 97.5 %, declared, so that together they err in at most 5 %."""
    assert look_confidence(1) == pytest.approx(0.95)
    assert look_confidence(2) == pytest.approx(0.975)


@pytest.mark.parametrize(
    ("n", "b", "c", "confidence", "lower", "upper", "places"),
    [
        # Newcombe 1998, Statistics in Medicine 17:2635, N = 50; Bentur et al. in Fagerland et al. 2014;
        # PropCIs' scoreci.mp(25, 28, 618) at 90 %, which estimates (28 - 25) / 618.
        (50, 12, 2, 0.975, 0.0611, 0.3447, 4),
        (21, 1, 7, 0.975, -0.517, -0.026, 3),
        (618, 28, 25, 0.95, -0.0148, 0.0247, 4),
    ],
)
def test_published_tango_intervals(
    n: int, b: int, c: int, confidence: float, lower: float, upper: float, places: int
) -> None:
    """The score bounds are Tango's: intervals that others published, to the digits that they gave."""
    pairs = PairCounts(n, b, c)
    low, high = difference_bounds(pairs, pairs, confidence)
    assert round(low, places) == pytest.approx(lower, abs=1e-9)
    assert round(high, places) == pytest.approx(upper, abs=1e-9)


@given(st.integers(1, 2000), confidences)
def test_tango_without_discordant_pairs(n: int, confidence: float) -> None:
    """Nothing differs: the bound is z² / (n + z²), from the score equation solved by hand."""
    z = float(norm.ppf(confidence))
    pairs = PairCounts(n, 0, 0)
    low, high = difference_bounds(pairs, pairs, confidence)
    assert high == pytest.approx(z * z / (n + z * z), abs=1e-6)
    assert low == pytest.approx(-high, abs=1e-6)


@given(pair_counts(), confidences)
def test_tango_bounds_hold_the_estimate_and_mirror(pairs: PairCounts, confidence: float) -> None:
    """Exchanging the sides mirrors the interval; the estimate lies inside; a bound solves the equation."""
    low, high = difference_bounds(pairs, pairs, confidence)
    estimate = pairs.difference
    assert estimate is not None
    assert -1.0 <= low <= estimate + 1e-9
    assert estimate - 1e-9 <= high <= 1.0
    turned = PairCounts(pairs.n, pairs.only_baseline, pairs.only_candidate)
    other = difference_bounds(turned, turned, confidence)
    assert list(other) == pytest.approx([-high, -low], abs=1e-7)
    z = float(norm.ppf(confidence))
    if high < 1.0:
        assert score_statistic(pairs, high) == pytest.approx(-z, abs=1e-3)


@given(pair_counts())
def test_the_score_falls_as_the_difference_grows(pairs: PairCounts) -> None:
    """One root a bound: without this a bound would depend on where the search begins."""
    values = [score_statistic(pairs, d / 50) for d in range(-49, 50)]
    assert all(a >= b - 1e-9 for a, b in pairwise(values))


@given(pair_counts(), confidences)
def test_a_worse_pair_never_lowers_a_bound(pairs: PairCounts, confidence: float) -> None:
    """One more prompt on which only the candidate fails moves both bounds up, or leaves them."""
    if pairs.only_candidate + pairs.only_baseline == pairs.n:
        return
    worse = replace(pairs, only_candidate=pairs.only_candidate + 1)
    before = difference_bounds(pairs, pairs, confidence)
    after = difference_bounds(worse, worse, confidence)
    assert after[0] >= before[0] - 1e-7
    assert after[1] >= before[1] - 1e-7


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(observation(), observation()), max_size=25), st.integers(1, 70), confidences)
def test_undecided_pairs_only_widen(
    pairs: list[tuple[Observation, Observation]], tokens: int, confidence: float
) -> None:
    """A baseline that was stopped may have failed or not: each conclusion takes the case against itself."""
    before = {str(i): a for i, (a, _) in enumerate(pairs)}
    after = {str(i): b for i, (_, b) in enumerate(pairs)}
    found = match_pairs(tokens, before, after)
    low, high = difference_bounds(found.for_regression, found.for_pass, confidence)
    decided = [ObservationStatus.FAILED, ObservationStatus.HEALTHY]
    told = [(observation_status(tokens, a), observation_status(tokens, b)) for a, b in pairs]
    assert found.seen.n == sum(a in decided and b in decided for a, b in told)
    assert found.baseline_failed <= found.seen.n
    if all(
        a in (*decided, ObservationStatus.GONE) and b in (*decided, ObservationStatus.GONE) for a, b in told
    ):
        assert found.seen == found.for_pass == found.for_regression
        assert (low, high) == difference_bounds(found.seen, found.seen, confidence)


def test_pairs_pass_regress_and_say_what_lacks() -> None:
    """The rule for matched prompts, end to end, with its numbers."""
    rule = CheckRule(100, 0.05, 0.05, 0.95)
    calm = {str(i): Observation(None, 100) for i in range(200)}
    worse = calm | {str(i): Observation(40, 39) for i in range(30)}
    few = {str(i): calm[str(i)] for i in range(60)}
    slightly = few | {str(i): Observation(40, 39) for i in range(2)}
    same, bad = assess_pairs(calm, calm, rule), assess_pairs(calm, worse, rule)
    open_, none = assess_pairs(few, slightly, rule), assess_pairs(calm, {"other": Observation(1, 0)}, rule)
    assert same is not None
    assert (same.tested, same.method, same.pairs, same.difference) == (PASS, Method.TANGO, 200, 0.0)
    assert bad is not None
    assert (bad.tested, bad.p_baseline, bad.p_candidate) == (REGRESSION, 0.0, 0.15)
    assert bad.difference == pytest.approx(0.15)
    assert open_ is not None
    assert open_.tested is INCONCLUSIVE
    assert open_.lacking is not None
    assert "more prompts would decide" in open_.lacking
    assert none is None


@example(50, 0.140625, 37, 15)  # halves are rounded as in the forecast
@given(st.integers(20, 300), st.floats(0.0, 0.3), st.integers(0, 60), st.integers(0, 60))
def test_the_number_that_lacks_would_decide(n: int, rate: float, doubtful: int, censored: int) -> None:
    """More of the same, undecided ones included, gives a verdict at the named number; it is never below n."""
    alpha, increase, confidence = 0.05, 0.05, 0.95
    failed = round(rate * n)
    counts = RiskCounts(failed, n - failed, doubtful, censored)
    needed = needed_for_risk(counts, alpha, increase, confidence)
    if needed is None:
        return
    assert needed > n
    failed = round(failed * needed / n)
    larger = RiskCounts(failed, needed - failed, round(doubtful * needed / n), round(censored * needed / n))
    assert judge_risk(risk_bounds(larger, confidence), alpha, increase) is not INCONCLUSIVE


def test_what_stays_undecided_is_no_matter_of_one_more() -> None:
    """Healthy answers at risk decide nothing where half of all end undecided: no number is promised."""
    rule = CheckRule(100, 0.05, 0.05, 0.95)
    undecided = [Observation(None, 50, f"d{n}", unresolved=True, ended=True) for n in range(47)]
    for n in (53, 112, 383):
        found = assess_risk([*(Observation(None, 100, str(i)) for i in range(n)), *undecided], rule)
        assert found.tested is INCONCLUSIVE
        assert found.lacking is not None
        assert "about 1 more" not in found.lacking
        assert "While so many are stopped or undecided, no reasonable number" in found.lacking


def test_a_sample_that_is_only_undecided_names_no_absurd_number() -> None:
    """None at risk: a number while one would do, and that none does where too many are undecided."""
    rule = CheckRule(100, 0.05, 0.05, 0.95)
    doubtful = Observation(None, 50, unresolved=True, ended=True)
    few, many = (assess_risk([doubtful] * n, rule).lacking or "" for n in (3, 20_000))
    assert re.search(r"About \d+ at risk are needed\.$", few)
    assert "no reasonable number of answers" in many


def test_pairs_that_lack_would_decide() -> None:
    """The same for pairs, and no promise where pairs stay undecided."""
    seen = PairCounts(40, 1, 1)
    needed = needed_pairs(PairAnalysis(seen, seen, seen, 1, 1), 0.05, 0.95)
    assert needed is not None
    assert needed > 40
    scaled = PairCounts(needed, round(needed / 40), round(needed / 40))
    assert judge_difference(difference_bounds(scaled, scaled, 0.95), 0.05) is PASS
    open_ = PairAnalysis(seen, PairCounts(60, 21, 1), PairCounts(60, 1, 21), 1, 1)
    assert needed_pairs(open_, 0.05, 0.95) is None


def test_log_rank_sees_a_shift_and_keeps_silent_without_onsets() -> None:
    """A hint only: p for shifted onsets, about 1 for equal ones, nothing where nothing fails."""
    early, late = failing(30, 40), failing(30, 80)
    p = log_rank(early, late)
    assert p is not None
    assert p < 0.001
    assert compare_survival(late, early)[0] == pytest.approx(p)
    assert [compare_survival(late, early)[1], compare_survival(early, late)[1]] == [True, False]
    assert log_rank(healthy(5), healthy(5)) is None
    assert log_rank([], early) is None


def test_a_certified_length_without_a_cap_falls_as_well() -> None:
    """A baseline whose answers end by themselves has no cap: the fall of what it certified said nothing."""
    before = ComparisonSide("a", SUBJECT, limit_without_cap=1759)

    def told(**now: int | None) -> list[str]:
        after = replace(before, **{"limit_without_cap": None, **now})  # type: ignore[arg-type]
        found = check_findings(before, after, max_drop=0.1, candidate_open=False, p=None, earlier=False)
        return [each.sentence for each in found]

    fell = "the certified length less the margin fell from 1,759 to 1,298, by 26 % (tolerated: 10 %)"
    assert told(safe_max_tokens=1298) == told(limit_without_cap=1298) == [fell]
    assert told(safe_max_tokens=1700) == []
    assert "nothing is certified" in told()[0]


def test_findings_beside_the_test() -> None:
    """A fallen limit, new symptoms, another plane, earlier failures: each with its severity, none twice."""
    before = ComparisonSide("a", SUBJECT, safe_max_tokens=900, symptoms={"loop": 3}, plane=Plane.DECODING)
    after = replace(
        before, safe_max_tokens=700, symptoms={"loop": 3, "gibberish": 2}, plane=Plane.CONTEXT, generations=38
    )
    told = check_findings(
        before,
        after,
        max_drop=0.1,
        candidate_open=False,
        p=1e-4,
        earlier=True,
        errors={FindingKind.NEW_SYMPTOMS},
    )
    assert [f.kind for f in told] == list(FindingKind)
    assert [f.severity for f in told] == [Severity.WARN, Severity.ERROR, Severity.WARN, Severity.WARN]
    assert "from 900 to 700, by 22 %" in told[0].sentence
    assert "gibberish in 2 of 38" in told[1].sentence
    quiet = check_findings(before, before, max_drop=0.1, candidate_open=False, p=0.5, earlier=True)
    open_end = check_findings(
        before, replace(before, safe_max_tokens=500), max_drop=0.1, candidate_open=True, p=None, earlier=True
    )
    assert quiet == open_end == ()
