"""Budgets: a share is judged by its bounds, and what is not known is never called kept or breached."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.model import RIGORS, CheckVerdict, Comparison, Observation, Severity, Subject, Threshold
from stresstest.model.comparison import (
    Budget,
    BudgetName,
    BudgetOutcome,
    ComparisonSide,
    GateOutcome,
    worst_outcome,
)
from stresstest.statistics.budgets import CellMeasurement, judge_budget, passing_size, undecidable
from stresstest.statistics.certify import limit_without_cap, upper_bound

CERTIFIED = Threshold(0.05, 0.95, 2000, 124, 2, 0.049, certified=True)


def sample(failed: int, healthy: int) -> list[Observation]:
    """Failures at token 100, and generations seen healthy through 3,000."""
    return [Observation(100, 99)] * failed + [Observation(None, 3000)] * healthy


def measured(safe: int | None = 1800, threshold: Threshold = CERTIFIED) -> CellMeasurement:
    return CellMeasurement(threshold, safe, sample(0, 124))


def judged(name: BudgetName, limit: float, found: CellMeasurement, *, at: int | None = None) -> BudgetOutcome:
    return judge_budget(Budget(name, limit, at_tokens=at), found)


@settings(deadline=None)  # scipy is imported on the way
@given(failed=st.integers(0, 80), healthy=st.integers(0, 200), limit=st.floats(0.001, 0.9))
def test_a_share_is_kept_or_breached_only_beyond_its_bounds(failed: int, healthy: int, limit: float) -> None:
    """Pass and breach both need data: never a breach below the observed rate, never a pass above it."""
    found = replace(measured(), sample=sample(failed, healthy))
    outcome = judged(BudgetName.MAX_DEGENERATION, limit, found, at=1000).outcome
    n = failed + healthy
    if outcome is GateOutcome.PASS:
        assert n
        assert failed / n < limit
    elif outcome is GateOutcome.BREACH:
        assert failed / n > limit
    else:
        assert outcome is GateOutcome.INCONCLUSIVE
    if n == 0:
        assert outcome is GateOutcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("failed", "healthy", "outcome"),
    [
        (0, 59, GateOutcome.PASS),
        (0, 58, GateOutcome.INCONCLUSIVE),
        (7, 60, GateOutcome.BREACH),
        (6, 60, GateOutcome.INCONCLUSIVE),
    ],
)
def test_a_share_of_five_percent_at_95_needs_the_wilks_number(
    failed: int, healthy: int, outcome: GateOutcome
) -> None:
    """0 of 59 is the least that shows ≤ 5 % at 95 %; 7 of 67 the least of its size that refutes it."""
    found = replace(measured(), sample=sample(failed, healthy))
    assert judged(BudgetName.MAX_DEGENERATION, 0.05, found, at=1000).outcome is outcome


def test_a_safe_max_tokens_too_small_is_breached_only_where_its_end_was_seen() -> None:
    """ "≥ C" says nothing against more than C: that is the horizon's doing, and undecided."""
    assert judged(BudgetName.MIN_SAFE_TOKENS, 1800, measured()).outcome is GateOutcome.PASS
    assert judged(BudgetName.MIN_SAFE_TOKENS, 1801, measured()).outcome is GateOutcome.BREACH
    open_end = measured(threshold=replace(CERTIFIED, censored_at=2000))
    assert judged(BudgetName.MIN_SAFE_TOKENS, 1801, open_end).outcome is GateOutcome.INCONCLUSIVE
    nothing = measured(None, Threshold(0.05, 0.95, lacking="49 more are needed"))
    found = judged(BudgetName.MIN_SAFE_TOKENS, 1, nothing)
    assert (found.outcome, found.sentence) == (GateOutcome.INCONCLUSIVE, "49 more are needed")


def test_a_length_that_is_certified_keeps_the_budget_although_no_cap_is_recommended() -> None:
    """Answers that all end in health by 2,000 tokens need no cap, and a budget of 1,000 is kept by them."""
    calm = replace(CERTIFIED, withheld="a cap of 1,800 would cut most healthy answers")
    assert limit_without_cap(calm, 0.1) == 1800
    assert limit_without_cap(CERTIFIED, 0.1) is None
    assert limit_without_cap(replace(calm, unfit=True), 0.1) is None
    found = replace(measured(None, calm), limit_without_cap=1800)
    kept = judged(BudgetName.MIN_SAFE_TOKENS, 1000, found)
    assert (kept.outcome, kept.measured) == (GateOutcome.PASS, 1800)
    assert kept.sentence == (
        "1,800 tokens are certified (T 2,000 less the margin), required at least 1,000; no cap is "
        "recommended: a cap of 1,800 would cut most healthy answers"
    )
    assert judged(BudgetName.MIN_SAFE_TOKENS, 1801, found).outcome is GateOutcome.INCONCLUSIVE
    lost = replace(found, unusable="the run is not complete")
    assert judged(BudgetName.MIN_SAFE_TOKENS, 1000, lost).outcome is GateOutcome.INCONCLUSIVE


def test_a_drop_is_against_the_baseline_and_needs_one() -> None:
    """10 % of 2,000 may be lost and no token more; without a baseline it is untested, which is no breach.

    A baseline that cannot be compared with lets nothing pass.
    """
    assert judged(BudgetName.MAX_DROP, 0.10, measured()).outcome is GateOutcome.UNTESTED
    pears = replace(measured(), refused="tokenizer was A, is B")
    for name in (BudgetName.MAX_DROP, BudgetName.MAX_INCREASE):
        assert judged(name, 0.10, pears).outcome is GateOutcome.INCONCLUSIVE
    before = replace(measured(), baseline_safe=2000)
    assert judged(BudgetName.MAX_DROP, 0.10, before).outcome is GateOutcome.PASS
    assert judged(BudgetName.MAX_DROP, 0.09, before).outcome is GateOutcome.BREACH
    assert judged(BudgetName.MAX_DROP, 0.0, replace(before, baseline_safe=1000)).outcome is GateOutcome.PASS
    open_end = replace(before, threshold=replace(CERTIFIED, censored_at=2000))
    assert judged(BudgetName.MAX_DROP, 0.09, open_end).outcome is GateOutcome.INCONCLUSIVE


def test_a_drop_is_told_where_the_baseline_needs_no_cap() -> None:
    """Answers that end by themselves: what was certified fell from 1,759 to 522 and passed as "untested"."""
    side = ComparisonSide("run base", Subject("m", "narrative", "it"), limit_without_cap=1759)
    beside = Comparison(side, side, 1955, 0.05, 0.05, CheckVerdict.PASS)
    found = judged(BudgetName.MAX_DROP, 0.1, replace(measured(522), comparison=beside))
    assert found.outcome is GateOutcome.BREACH
    assert found.sentence.startswith("certified length less the margin fell by 70 %: 1,759 before, 522 now")
    calm = replace(measured(None), comparison=beside, limit_without_cap=1700)
    assert judged(BudgetName.MAX_DROP, 0.1, calm).outcome is GateOutcome.PASS
    unknown = replace(beside, baseline=replace(side, limit_without_cap=None))
    found = judged(BudgetName.MAX_DROP, 0.1, replace(measured(), comparison=unknown))
    assert found.outcome is GateOutcome.INCONCLUSIVE
    assert found.sentence == "the baseline has no certified length to compare with"


def test_a_warning_is_told_and_fails_nothing() -> None:
    """`level = "warn"`: a breach becomes a warning, and so does what is undecided."""
    budget = Budget(BudgetName.MIN_SAFE_TOKENS, 5000, Severity.WARN)
    assert judge_budget(budget, measured()).outcome is GateOutcome.WARNING
    assert judge_budget(budget, measured(None, Threshold(0.05, 0.95))).outcome is GateOutcome.WARNING
    assert judge_budget(replace(budget, limit=10), measured()).outcome is GateOutcome.PASS


@given(st.lists(st.sampled_from(list(GateOutcome))))
def test_the_worst_decides_and_a_breach_is_the_worst(outcomes: list[GateOutcome]) -> None:
    """One breached cell fails the gate whatever the others are; nothing at all is no failure."""
    found = worst_outcome(outcomes)
    assert found in outcomes or (not outcomes and found is GateOutcome.PASS)
    assert (found is GateOutcome.BREACH) == (GateOutcome.BREACH in outcomes)
    assert (found is GateOutcome.TROUBLE) == (
        GateOutcome.TROUBLE in outcomes and GateOutcome.BREACH not in outcomes
    )


@given(st.integers(0, 30), st.floats(0.002, 0.5), st.sampled_from([0.9, 0.95]))
def test_the_number_that_is_missing_is_the_smallest_that_would_do(
    failed: int, limit: float, confidence: float
) -> None:
    """What the sentence names: with one answer fewer, the bound is above the limit."""
    needed = passing_size(failed, limit, confidence)
    assert upper_bound(failed, needed, confidence) <= limit
    assert needed == failed or upper_bound(failed, needed - 1, confidence) > limit


@pytest.mark.parametrize(
    ("rigor", "limit", "horizon", "told"),
    [
        ("quick", 0.05, None, "it takes 45 answers at risk without a failure, and rigor quick plans 38"),
        ("quick", 0.06, None, None),
        ("strict", 0.0, None, "no sample shows that nothing at all fails"),
        ("standard", 0.05, None, None),
        ("standard", 0.02, None, "allow 3 % or more"),
        ("standard", 0.05, 1999, "answers end at --horizon 1,999"),
        ("standard", 0.05, 2000, None),
    ],
)
def test_a_budget_that_no_model_can_meet_is_known_before(
    rigor: str, limit: float, horizon: int | None, told: str | None
) -> None:
    """953,733 tokens were spent to find 0 of 38 "too few data" for 5 % at 90 %."""
    budget = Budget(BudgetName.MAX_DEGENERATION, limit, at_tokens=2000)
    why = undecidable(budget, RIGORS[rigor], horizon)
    assert (why is None) if told is None else told in str(why)


@pytest.mark.parametrize(("empty", "outcome"), [(0, GateOutcome.PASS), (22, GateOutcome.INCONCLUSIVE)])
def test_answers_that_show_nothing_keep_no_budget(empty: int, outcome: GateOutcome) -> None:
    """A guardrail emptied 22 of 76 answers, each a loop: "kept: 0 of 54 at risk", allowed 15 %."""
    healthy = [Observation(None, 2_000, f"p{n}", f"d{n}") for n in range(54)]
    sample = [*healthy, *[Observation(None, 0, unresolved=True)] * empty]
    budget = Budget(BudgetName.MAX_DEGENERATION, 0.15, at_tokens=1_000)
    found = judge_budget(budget, CellMeasurement(CERTIFIED, 1_800, sample))
    assert found.outcome is outcome
