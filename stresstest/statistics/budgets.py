"""Judges a measured cell against a project's budgets. Pure.

A share is judged by its exact one-sided bounds, never by the observed rate: a budget holds if the upper bound
is within it, is breached if the lower bound exceeds it, and is inconclusive otherwise. A safe max_tokens is
already a bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from stresstest.model import CheckVerdict, Comparison, Observation, Rigor, Severity, Threshold
from stresstest.model.comparison import Budget, BudgetName, BudgetOutcome, GateOutcome
from stresstest.model.percent import percent
from stresstest.statistics.certify import upper_bound
from stresstest.statistics.comparison import risk_bounds, risk_counts


@dataclass(frozen=True, slots=True)
class CellMeasurement:
    """The measurements of a cell's run. sample: deduplicated observations of its certifying answers.

    unusable: why the sample must not decide. untested: why there is no baseline. refused: why the existing
    baseline is not comparable; budgets against it are then inconclusive.
    """

    threshold: Threshold
    safe_max_tokens: int | None
    sample: Sequence[Observation]
    unusable: str | None = None
    baseline_safe: int | None = None
    comparison: Comparison | None = None
    untested: str = "there is no baseline to compare with"
    refused: str | None = None
    limit_without_cap: int | None = None


def judge_budget(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    """Judge one budget of one cell; a `warn` budget that is breached or inconclusive becomes a warning."""
    found = _JUDGES[budget.name](budget, measured)
    if budget.level is Severity.WARN and found.outcome in (GateOutcome.BREACH, GateOutcome.INCONCLUSIVE):
        return BudgetOutcome(budget, GateOutcome.WARNING, found.sentence, found.measured)
    return found


def _degeneration(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    """The cap is fixed in advance, so the sample that chose T may also be used here."""
    tokens = budget.at_tokens or 0
    counts = risk_counts(tokens, measured.sample)
    low, high = risk_bounds(counts, measured.threshold.confidence)
    facts = (
        f"by token {tokens:,}, {counts.failed} of {counts.at_risk} at risk had degenerated: between "
        f"{percent(low, 1)} and {percent(high, 1)} (each bound at {percent(measured.threshold.confidence)}), "
        f"allowed {percent(budget.limit, 1)}"
    )
    if measured.unusable is not None:
        return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, measured.unusable, counts.rate)
    if high <= budget.limit:
        return BudgetOutcome(budget, GateOutcome.PASS, facts, counts.rate)
    if low > budget.limit:
        return BudgetOutcome(budget, GateOutcome.BREACH, facts, counts.rate)
    if measured.threshold.censored_at is not None and measured.threshold.censored_at < tokens:
        facts += f"; no request ran beyond {measured.threshold.censored_at:,}: raise --horizon"
    facts += "; too few data"
    if budget.limit > 0:
        worst = counts.failed + counts.doubtful
        needed = passing_size(worst, budget.limit, measured.threshold.confidence)
        fewest = f"with {worst} that fail" if worst else "without a failure"
        facts += f": {fewest}, {needed:,} at risk would be within it"
    return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, facts, counts.rate)


def passing_size(failed: int, limit: float, confidence: float) -> int:
    """The fewest requests at risk that hold a share in (0, 1) within a limit if `failed` of them fail."""
    low, high = failed, 2 * failed + 2
    while upper_bound(failed, high, confidence) > limit:
        low, high = high, 2 * high
    return bisect_left(range(high), x=True, lo=low, key=lambda n: upper_bound(failed, n, confidence) <= limit)


def undecidable(budget: Budget, rigor: Rigor, horizon: int | None) -> str | None:
    """Why a budget cannot be met whatever the model does: its sample or its answers are too small; None if it
    can. horizon: of the answers, None where the context decides."""
    if budget.name is not BudgetName.MAX_DEGENERATION:
        return None
    if horizon is not None and budget.at_tokens is not None and horizon < budget.at_tokens:
        return f"it is about token {budget.at_tokens:,}, and answers end at --horizon {horizon:,}"
    if budget.limit <= 0:
        return "no sample shows that nothing at all fails; allow a share, such as 5 %"
    needed = passing_size(0, budget.limit, rigor.confidence)
    if needed <= rigor.planned:
        return None
    shown = ceil(100 * upper_bound(0, rigor.planned, rigor.confidence))
    return (
        f"it takes {needed:,} answers at risk without a failure, and rigor {rigor.name} plans "
        f"{rigor.planned}; allow {shown} % or more, or choose a stricter rigor"
    )


def _safe_tokens(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    safe, threshold = measured.safe_max_tokens, measured.threshold
    if safe is None:
        return _limit_without_cap(budget, measured)
    facts = f"safe max_tokens {safe:,}, required at least {budget.limit:,.0f}"
    if safe >= budget.limit:
        return BudgetOutcome(budget, GateOutcome.PASS, facts, safe)
    if threshold.censored_at is not None:
        facts += (
            f": no onset was seen up to {threshold.censored_at:,} tokens; raise --horizon to certify more"
        )
        return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, facts, safe)
    return BudgetOutcome(budget, GateOutcome.BREACH, facts, safe)


def _limit_without_cap(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    """No cap is recommended, but the length that the budget demands may be certified all the same."""
    limit, threshold = measured.limit_without_cap, measured.threshold
    if limit is None or limit < budget.limit or measured.unusable is not None:
        return _uncertified(budget, measured)
    facts = (
        f"{limit:,} tokens are certified (T {threshold.tokens or 0:,} less the margin), required at least "
        f"{budget.limit:,.0f}; no cap is recommended: {threshold.withheld}"
    )
    return BudgetOutcome(budget, GateOutcome.PASS, facts, limit)


def _drop(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    what, before, safe = "safe max_tokens", measured.baseline_safe, measured.safe_max_tokens
    if before is None and measured.comparison is not None:
        what, before = "certified length less the margin", measured.comparison.baseline.limit_without_cap
        safe = measured.limit_without_cap if safe is None else safe
        if before is None:
            nothing = "the baseline has no certified length to compare with"
            return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, measured.refused or nothing)
    if before is None:
        return _without_baseline(budget, measured)
    if safe is None:
        return _uncertified(budget, measured)
    drop = 1.0 - safe / before
    fell = f"fell by {percent(drop)}" if drop > 0 else "did not fall"
    facts = f"{what} {fell}: {before:,} before, {safe:,} now; tolerated decrease {percent(budget.limit)}"
    stood_for = None if measured.comparison is None else measured.comparison.alpha
    if drop <= budget.limit and stood_for is not None and stood_for < measured.threshold.alpha:
        facts += (
            f"; but that was for a risk of {percent(stood_for, 1)}, and this is for "
            f"{percent(measured.threshold.alpha, 1)}: limits of different rigor cannot be compared"
        )
        return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, facts, drop)
    if drop <= budget.limit:
        return BudgetOutcome(budget, GateOutcome.PASS, facts, drop)
    if measured.threshold.censored_at is not None:
        facts += "; no onset was seen now, so it may not have fallen: raise --horizon"
        return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, facts, drop)
    return BudgetOutcome(budget, GateOutcome.BREACH, facts, drop)


def _increase(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    comparison = measured.comparison
    if comparison is None:
        return _without_baseline(budget, measured)
    outcome = {
        CheckVerdict.PASS: GateOutcome.PASS,
        CheckVerdict.REGRESSION: GateOutcome.BREACH,
        CheckVerdict.INCONCLUSIVE: GateOutcome.INCONCLUSIVE,
    }[comparison.tested]
    if comparison.interval is None or comparison.at_tokens is None:
        return BudgetOutcome(budget, outcome, comparison.lacking or "nothing could be compared")
    low, high = comparison.interval
    facts = (
        f"at the baseline's threshold of {comparison.at_tokens:,} tokens, "
        f"{comparison.candidate.failed} of {comparison.candidate.at_risk} at risk degenerate: between "
        f"{percent(low, 1)} and {percent(high, 1)}, allowed {percent(comparison.alpha + budget.limit, 1)}: "
        f"{percent(comparison.alpha, 1)} that it was certified for, and an increase of "
        f"{percent(budget.limit, 1)}"
    )
    if comparison.lacking:
        facts += f"; {comparison.lacking}"
    return BudgetOutcome(budget, outcome, facts, comparison.p_candidate)


def _without_baseline(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    if measured.refused is not None:
        return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, measured.refused)
    return BudgetOutcome(budget, GateOutcome.UNTESTED, measured.untested)


def _uncertified(budget: Budget, measured: CellMeasurement) -> BudgetOutcome:
    threshold = measured.threshold
    lacking = measured.unusable or threshold.lacking or threshold.withheld or "nothing is certified"
    return BudgetOutcome(budget, GateOutcome.INCONCLUSIVE, lacking)


_JUDGES = {
    BudgetName.MAX_DEGENERATION: _degeneration,
    BudgetName.MIN_SAFE_TOKENS: _safe_tokens,
    BudgetName.MAX_DROP: _drop,
    BudgetName.MAX_INCREASE: _increase,
}
