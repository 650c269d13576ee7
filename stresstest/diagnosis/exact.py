"""When does an intervention clear a failure? Exact tests on the same prompts, and when to stop asking.

An arm clears if the same prompts that fail unchanged stay healthy under it: McNemar's exact one-sided test
against the unchanged arm, and few failures left in absolute terms. With 16 prompts, 14 discordant pairs all
one way suffice among eight arms (2^-14 = 6.1e-5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb

from stresstest.threshold import upper_bound

LEVEL = 0.001
"""Shared by all declared arms and their looks (Bonferroni)."""
LOOKS = (16, 24)
"""Forks after which an arm is judged, declared before the first is sent."""
MOST_LEFT = 0.30
"""One-sided 95 % upper bound of the failure rate that an arm may leave."""
CONFIDENCE = 0.95


def mcnemar(better: int, worse: int) -> float:
    """One-sided exact p: at least `better` of better + worse discordant pairs by chance. 1.0 without any.

    Source: McNemar 1947, exact form (binomial with 1/2).
    """
    if better < 0 or worse < 0:
        raise ValueError(f"{better} and {worse} are no counts")
    pairs = better + worse
    return float(sum(comb(pairs, k) for k in range(better, pairs + 1)) / 2**pairs)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the unchanged one, on the prompts that both have finished.

    n: prompts in both. failed: of the arm. unchanged_failed: of the baseline. better: failed unchanged,
    healthy here; worse: the other way. p: McNemar's. upper: bound on the arm's failure rate.
    """

    n: int
    failed: int
    unchanged_failed: int
    better: int
    worse: int
    p: float
    upper: float
    clears: bool


def compare(unchanged: Mapping[str, bool], arm: Mapping[str, bool], *, arms: int) -> Comparison:
    """Both map a prompt to "it failed in the window". arms: how many are declared, less the unchanged."""
    both = sorted(unchanged.keys() & arm.keys())
    failed = sum(arm[key] for key in both)
    better = sum(unchanged[key] and not arm[key] for key in both)
    worse = sum(arm[key] and not unchanged[key] for key in both)
    p = mcnemar(better, worse)
    upper = upper_bound(failed, len(both), CONFIDENCE) if both else 1.0
    return Comparison(
        n=len(both),
        failed=failed,
        unchanged_failed=sum(unchanged[key] for key in both),
        better=better,
        worse=worse,
        p=p,
        upper=upper,
        clears=p <= _level(arms) and upper <= MOST_LEFT,
    )


def _level(arms: int) -> float:
    return LEVEL / (len(LOOKS) * max(1, arms))


def looks(forks: int) -> tuple[int, ...]:
    """How many of so many forks each look takes."""
    last = min(forks, LOOKS[-1])
    return (*(n for n in LOOKS if n < last), last)


def can_still_clear(
    unchanged: Mapping[str, bool],
    arm: Mapping[str, bool],
    prompts: Sequence[str],
    *,
    arms: int,
    void: Collection[str] = (),
) -> bool:
    """Whether the arm clears at some look if each of `prompts` that it still has to answer stays healthy.

    What the unchanged arm still owes counts as failing there; void: prompts of which one of the two tells
    nothing. False decides the arm: the rest need not be sent, because no outcome of it could clear
    (curtailment, which costs no error).
    """
    for n in looks(len(prompts)):
        full = {key: unchanged.get(key, True) for key in prompts[:n] if key not in void}
        best = {key: arm.get(key, False) for key in full}
        if compare(full, best, arms=arms).clears:
            return True
    return False


@cache
def prompts_needed(arms: int) -> int:
    """Fewest failing prompts from which an arm that heals all of them can be seen to clear."""
    n = 1
    while mcnemar(n, 0) > _level(arms) or upper_bound(0, n, CONFIDENCE) > MOST_LEFT:
        n += 1
    return n
