"""Does a measured cell keep a project's budgets? Pure.

A share is judged by its exact one-sided bounds, never by the observed rate: a budget holds when the upper
bound is within it, is breached when the lower bound is beyond it, and is undecided between. A safe
max_tokens is a bound already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model import CheckVerdict, Comparison, Observation, Severity, Threshold
from stresstest.model.gate import Budget, BudgetName, BudgetOutcome, Outcome
from stresstest.threshold.comparison import risk_bounds, risk_counts


@dataclass(frozen=True, slots=True)
class Measured:
    """What a cell's run showed. sample: deduplicated observations of its certifying generations.

    unusable: why the sample decides nothing, whatever it shows. untested: why there is no baseline. refused:
    why the baseline that there is cannot be compared with: that decides nothing, and lets nothing pass.
    """

    threshold: Threshold
    safe_max_tokens: int | None
    sample: Sequence[Observation]
    unusable: str | None = None
    baseline_safe: int | None = None
    comparison: Comparison | None = None
    untested: str = "there is no baseline to compare with"
    refused: str | None = None


def judge_budget(budget: Budget, measured: Measured) -> BudgetOutcome:
    """One budget of one cell; a breach of a `warn` budget is a warning, and what it leaves open passes."""
    found = _JUDGES[budget.name](budget, measured)
    if budget.level is Severity.WARN and found.outcome in (Outcome.BREACH, Outcome.INCONCLUSIVE):
        return BudgetOutcome(budget, Outcome.WARNING, found.sentence, found.measured)
    return found


def _degeneration(budget: Budget, measured: Measured) -> BudgetOutcome:
    """The cap is named beforehand, so the sample that chose T may be asked about it."""
    tokens = budget.at_tokens or 0
    counts = risk_counts(tokens, measured.sample)
    low, high = risk_bounds(counts, measured.threshold.confidence)
    facts = (
        f"by token {tokens:,}, {counts.failed} of {counts.at_risk} at risk had degenerated: between "
        f"{low:.1%} and {high:.1%} at {measured.threshold.confidence:.0%} each, allowed {budget.limit:.1%}"
    )
    if measured.unusable is not None:
        return BudgetOutcome(budget, Outcome.INCONCLUSIVE, measured.unusable, counts.rate)
    if high <= budget.limit:
        return BudgetOutcome(budget, Outcome.PASS, facts, counts.rate)
    if low > budget.limit:
        return BudgetOutcome(budget, Outcome.BREACH, facts, counts.rate)
    if measured.threshold.censored_at is not None and measured.threshold.censored_at < tokens:
        facts += f"; nothing was asked to run beyond {measured.threshold.censored_at:,}: raise --horizon"
    return BudgetOutcome(budget, Outcome.INCONCLUSIVE, f"{facts}; too few data", counts.rate)


def _safe_tokens(budget: Budget, measured: Measured) -> BudgetOutcome:
    safe, threshold = measured.safe_max_tokens, measured.threshold
    if safe is None:
        return _uncertified(budget, measured)
    facts = f"safe max_tokens {safe:,}, wanted at least {budget.limit:,.0f}"
    if safe >= budget.limit:
        return BudgetOutcome(budget, Outcome.PASS, facts, safe)
    if threshold.censored_at is not None:
        facts += f": no end was seen up to {threshold.censored_at:,} tokens; raise --horizon to certify more"
        return BudgetOutcome(budget, Outcome.INCONCLUSIVE, facts, safe)
    return BudgetOutcome(budget, Outcome.BREACH, facts, safe)


def _drop(budget: Budget, measured: Measured) -> BudgetOutcome:
    before, safe = measured.baseline_safe, measured.safe_max_tokens
    if before is None:
        return _without_baseline(budget, measured)
    if safe is None:
        return _uncertified(budget, measured)
    drop = 1.0 - safe / before
    fell = f"fell by {drop:.0%}" if drop > 0 else "did not fall"
    facts = f"safe max_tokens {fell}: {before:,} before, {safe:,} now; {budget.limit:.0%} may be lost"
    stood_for = None if measured.comparison is None else measured.comparison.alpha
    if drop <= budget.limit and stood_for is not None and stood_for < measured.threshold.alpha:
        facts += (
            f"; but that was for a risk of {stood_for:.1%}, this is for {measured.threshold.alpha:.1%}: at "
            "another rigor a fall cannot be seen"
        )
        return BudgetOutcome(budget, Outcome.INCONCLUSIVE, facts, drop)
    if drop <= budget.limit:
        return BudgetOutcome(budget, Outcome.PASS, facts, drop)
    if measured.threshold.censored_at is not None:
        facts += "; no end was seen now, so it may not have fallen at all: raise --horizon"
        return BudgetOutcome(budget, Outcome.INCONCLUSIVE, facts, drop)
    return BudgetOutcome(budget, Outcome.BREACH, facts, drop)


def _increase(budget: Budget, measured: Measured) -> BudgetOutcome:
    comparison = measured.comparison
    if comparison is None:
        return _without_baseline(budget, measured)
    outcome = {
        CheckVerdict.PASS: Outcome.PASS,
        CheckVerdict.REGRESSION: Outcome.BREACH,
        CheckVerdict.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    }[comparison.tested]
    if comparison.interval is None or comparison.at_tokens is None:
        return BudgetOutcome(budget, outcome, comparison.lacking or "nothing could be compared")
    low, high = comparison.interval
    facts = (
        f"at the baseline's threshold of {comparison.at_tokens:,} tokens, {comparison.candidate.failed} of "
        f"{comparison.candidate.at_risk} at risk degenerate: between {low:.1%} and {high:.1%}, allowed "
        f"{comparison.alpha + budget.limit:.1%}: {comparison.alpha:.1%} that it stands for, and an "
        f"increase of {budget.limit:.1%}"
    )
    if comparison.lacking:
        facts += f"; {comparison.lacking}"
    return BudgetOutcome(budget, outcome, facts, comparison.p_candidate)


def _without_baseline(budget: Budget, measured: Measured) -> BudgetOutcome:
    if measured.refused is not None:
        return BudgetOutcome(budget, Outcome.INCONCLUSIVE, measured.refused)
    return BudgetOutcome(budget, Outcome.UNTESTED, measured.untested)


def _uncertified(budget: Budget, measured: Measured) -> BudgetOutcome:
    lacking = measured.unusable or measured.threshold.lacking or "nothing is certified"
    return BudgetOutcome(budget, Outcome.INCONCLUSIVE, lacking)


_JUDGES = {
    BudgetName.MAX_DEGENERATION: _degeneration,
    BudgetName.MIN_SAFE_TOKENS: _safe_tokens,
    BudgetName.MAX_DROP: _drop,
    BudgetName.MAX_INCREASE: _increase,
}
