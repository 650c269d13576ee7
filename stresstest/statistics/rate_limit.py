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
MOST_NEEDED = 10_000_000
"""Answers beyond which no log is asked for: the rate is at the limit."""


@dataclass(frozen=True, slots=True)
class GroupRate:
    """A group beside the limit. low, high: its one-sided bounds. deciding: of an undecided group, answers in
    all that would decide if its rate stays; None if more than `MOST_NEEDED` would."""

    group: GroupResult
    low: float
    high: float
    outcome: GateOutcome
    deciding: int | None = None


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
        undecided = outcome is GateOutcome.INCONCLUSIVE
        deciding = _deciding_size(group, limit, len(groups)) if undecided else None
        found.append(GroupRate(group, low, high, outcome, deciding))
    return RateJudgement(limit, tuple(found), needed_at_risk(limit, CONFIDENCE), damaged, unread)


def _deciding_size(group: GroupResult, limit: float, groups: int) -> int | None:
    """The answers in all that show on which side of the limit a rate is, if it stays."""
    risk = 1.0 - CONFIDENCE

    def decides(size: int) -> bool:
        failed = round(group.rate * size)
        if group.rate < limit:
            return clustered_interval(failed, size, group.effective_share, 1.0 - 2 * risk)[1] <= limit
        return clustered_interval(failed, size, group.effective_share, 1.0 - 2 * risk / groups)[0] > limit

    few, many = 0, max(1, group.requests)
    while not decides(many):
        few, many = many, 2 * many
        if many > MOST_NEEDED:
            return None
    while many - few > max(1, many // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if decides(middle) else (middle, many)
    return many
