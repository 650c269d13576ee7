"""Whether recorded degeneration rates are above a limit. Pure.

A rate is judged by exact one-sided bounds, never by itself: a group is within the limit if its upper 95 %
bound is, above it if its lower bound is, and undecided otherwise. Whoever fails because one of several
groups is above must not fail more often by chance than with one: the 5 % of the lower bounds is divided
among the groups (Bonferroni). "Every group is within" needs no such correction. What may have failed counts
in the upper bound as if it had: answers with a long possible symptom open at their end, those whose text
the log did not keep, those that the server stopped as repetitions, texts with turns of others, damaged lines
(in every group, as nobody knows whose they are). Answers that were given up before they could fail do not
count there: a loop is longer than the rest, so more of them are lost, and what is left of a group that was
mostly given up proves nothing. Where a file was not read to its end, nothing is within.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model.comparison import GateOutcome
from stresstest.model.scanned import GroupResult
from stresstest.statistics.certify import clustered_interval, needed_at_risk

CONFIDENCE = 0.95
"""One-sided, of both decisions."""


@dataclass(frozen=True, slots=True)
class GroupRate:
    """A group beside the limit. low, high: its one-sided bounds."""

    group: GroupResult
    low: float
    high: float
    outcome: GateOutcome


@dataclass(frozen=True, slots=True)
class RateJudgement:
    """All groups beside the limit. outcome: breach if any group is above, pass if all are within,
    inconclusive
    otherwise. needed: requests that decide at least, of a group without a degenerate one. damaged, unread: as
    in `ScanResult`."""

    limit: float
    groups: tuple[GroupRate, ...]
    needed: int
    damaged: int = 0
    unread: int = 0

    @property
    def outcome(self) -> GateOutcome:
        found = {each.outcome for each in self.groups}
        order = (GateOutcome.BREACH, GateOutcome.INCONCLUSIVE, GateOutcome.PASS)
        return next((outcome for outcome in order if outcome in found), GateOutcome.INCONCLUSIVE)


def judge_rates(
    groups: Sequence[GroupResult], limit: float, *, damaged: int = 0, unread: int = 0
) -> RateJudgement:
    """Judge every group's rate against a limit in (0, 1). damaged, unread: as in `ScanResult`."""
    risk = 1.0 - CONFIDENCE
    found = []
    for group in groups:
        counts = group.degenerate, group.requests, group.effective_share
        low = clustered_interval(*counts, 1.0 - 2 * risk / len(groups))[0]
        worst = group.degenerate + group.in_doubt + damaged
        whole = max(group.requests - group.lost, group.degenerate + group.in_doubt) + damaged
        high = clustered_interval(worst, whole, counts[2], 1.0 - 2 * risk)[1]
        outcome = GateOutcome.INCONCLUSIVE
        if low > limit:
            outcome = GateOutcome.BREACH
        elif high <= limit and not unread and 2 * group.lost <= group.requests:
            outcome = GateOutcome.PASS
        found.append(GroupRate(group, low, high, outcome))
    return RateJudgement(limit, tuple(found), needed_at_risk(limit, CONFIDENCE), damaged, unread)
