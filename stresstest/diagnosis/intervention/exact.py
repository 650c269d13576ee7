"""Decides whether an intervention clears a failure, by exact tests on the same prompts, and when to stop.

An arm clears if prompts that fail unchanged stay healthy under it: by McNemar's exact one-sided test against
the unchanged arm, and with few remaining failures. With eight arms, 14 discordant pairs in the same direction
are enough (2^-14 = 6.1e-5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb

from stresstest.statistics import upper_bound

SIGNIFICANCE_LEVEL = 0.001
"""Shared by all declared arms and their looks (Bonferroni)."""
LOOK_SIZES = (16, 24)
"""Numbers of forks after which an arm is judged, declared before the first request."""
MAX_REMAINING_RATE = 0.30
"""Maximum one-sided 95 % upper bound of the failure rate under an arm that clears."""
CONFIDENCE = 0.95


def mcnemar_p(better: int, worse: int) -> float:
    """One-sided exact p of at least `better` among better + worse discordant pairs; 1.0 without any.

    Raises ValueError for negative counts. Source: McNemar 1947, exact form (binomial with 1/2).
    """
    if better < 0 or worse < 0:
        raise ValueError(f"{better} and {worse} are no counts")
    pairs = better + worse
    return float(sum(comb(pairs, k) for k in range(better, pairs + 1)) / 2**pairs)


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """An arm compared with the unchanged one, on the n prompts that both have finished.

    failed, unchanged_failed: prompts that failed under the arm and unchanged. better: failed unchanged but
    healthy under the arm; worse: the reverse. p: exact McNemar test. upper: one-sided 95 % upper bound of the
    arm's failure rate.
    """

    n: int
    failed: int
    unchanged_failed: int
    better: int
    worse: int
    p: float
    upper: float
    clears: bool


def compare_with_unchanged(
    unchanged: Mapping[str, bool], arm: Mapping[str, bool], *, arms: int
) -> ArmComparison:
    """Compare an arm with the unchanged one. Both map a prompt to whether it failed in the window.

    arms: number of declared arms, without the unchanged one.
    """
    both = sorted(unchanged.keys() & arm.keys())
    failed = sum(arm[key] for key in both)
    better = sum(unchanged[key] and not arm[key] for key in both)
    worse = sum(arm[key] and not unchanged[key] for key in both)
    p = mcnemar_p(better, worse)
    upper = upper_bound(failed, len(both), CONFIDENCE) if both else 1.0
    return ArmComparison(
        n=len(both),
        failed=failed,
        unchanged_failed=sum(unchanged[key] for key in both),
        better=better,
        worse=worse,
        p=p,
        upper=upper,
        clears=p <= _level(arms) and upper <= MAX_REMAINING_RATE,
    )


def _level(arms: int) -> float:
    return SIGNIFICANCE_LEVEL / (len(LOOK_SIZES) * max(1, arms))


def planned_looks(forks: int) -> tuple[int, ...]:
    """The cumulative number of forks at each look, for a total of `forks`."""
    last = min(forks, LOOK_SIZES[-1])
    return (*(n for n in LOOK_SIZES if n < last), last)


def can_still_clear(
    unchanged: Mapping[str, bool],
    arm: Mapping[str, bool],
    prompts: Sequence[str],
    *,
    arms: int,
    void: Collection[str] = (),
) -> bool:
    """Whether the arm would clear at some look if all its pending prompts stayed healthy.

    Pending prompts of the unchanged arm count as failing. void: prompts without information in one of the two
    arms. If False, the remaining requests are not sent, because no outcome could make the arm clear
    (curtailment, which does not affect the error rate).
    """
    for n in planned_looks(len(prompts)):
        full = {key: unchanged.get(key, True) for key in prompts[:n] if key not in void}
        best = {key: arm.get(key, False) for key in full}
        if compare_with_unchanged(full, best, arms=arms).clears:
            return True
    return False


@cache
def prompts_needed(arms: int) -> int:
    """The smallest number of failing prompts with which an arm that keeps all of them healthy clears."""
    n = 1
    while mcnemar_p(n, 0) > _level(arms) or upper_bound(0, n, CONFIDENCE) > MAX_REMAINING_RATE:
        n += 1
    return n
