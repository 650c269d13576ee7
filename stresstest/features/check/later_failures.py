"""Failures after T: what blocks the pass of a candidate that is no worse up to T."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.features.check.sides.sample import CheckSample
from stresstest.model import GenerationRecord, Observation
from stresstest.statistics.assessment import CheckRule
from stresstest.statistics.comparison import healthy_at, more_failures_p
from stresstest.statistics.findings import compare_survival
from stresstest.statistics.sample import censor

LATER_LEVEL = 0.001
"""p of a difference beyond T that blocks a pass; small, because T says nothing of what lies beyond it."""


def later_failures(
    baseline: CheckSample, candidate: CheckSample, rule: CheckRule
) -> tuple[str | None, str | None]:
    """Why a candidate that fails far more often beyond T does not pass; else a note on it; None where it does
    not.

    Counted are the answers that are healthy at T. The increase must exceed the tolerated one, and be more
    than chance explains. Where the two sides were asked for answers of other lengths, the longer ones have
    more room to fail, so that only failures per token, as far as both sides reach, block a pass.
    """
    later = healthy_at(rule.tokens, baseline.observations), healthy_at(rule.tokens, candidate.observations)
    (failed, n), (candidate_failed, candidate_n) = map(_count_failed, later)
    if not candidate_n:
        return None, None
    increase = candidate_failed / candidate_n - (failed / n if n else 0.0)
    p = more_failures_p((failed, n), (candidate_failed, candidate_n))
    if increase <= rule.max_increase or p > LATER_LEVEL:
        return None, None
    counts = (
        f"{candidate_failed} of its {candidate_n} answers degenerate, against {failed} of {n} of the "
        f"baseline's"
    )
    units = _requested_units(baseline.certifying), _requested_units(candidate.certifying)
    if None in units or units[0] == units[1]:
        counts += f" (exact test, p = {p:.1g})"
    else:
        p_per_token, earlier = compare_survival(*later)
        counts += f" (asked for {units[1]} units an answer, and the baseline for {units[0]}"
        if p_per_token is None or p_per_token / 2 > LATER_LEVEL or not earlier:
            return None, (
                f"After T, {counts}): longer answers have more room to fail, and as far as both reach, they "
                f"do not clearly fail more often. To compare beyond T, ask both for the same length "
                f"(--horizon)."
            )
        counts += f"; per token, log-rank p = {p_per_token:.1g})"
    return (
        f"up to T = {rule.tokens:,} {rule.unit} the candidate is no worse, but after it, {counts}. Where "
        f"answers may be longer than T, that is a regression; where your traffic is capped at T, cut both "
        f"sides at T"
    ), None


def _count_failed(sample: Sequence[Observation]) -> tuple[int, int]:
    """(d, n)."""
    return sum(censor(o).onset is not None for o in sample), len(sample)


def _requested_units(certifying: Sequence[GenerationRecord]) -> int | None:
    """Units that the prompts asked for; None where they name no number."""
    return max((g.job.units for g in certifying if g.job.units is not None), default=None)
