"""The rules of `check` over many campaigns at once: a vectorised twin, compared with the product's code."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from benchmarks.calibrate_worlds import Floats
from benchmarks.campaigns import Flags, Ints, Seen
from stresstest.model import CheckVerdict, Observation
from stresstest.statistics.assessment import CheckRule, assess_pairs, assess_risk

PASS, REGRESSION, INCONCLUSIVE = 1, -1, 0
_WORDS = {
    CheckVerdict.PASS: PASS,
    CheckVerdict.REGRESSION: REGRESSION,
    CheckVerdict.INCONCLUSIVE: INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class Table:
    """Every answer's state at its campaign's T; rows are campaigns. Answers that do not exist are none."""

    failed: Flags
    healthy: Flags
    doubtful: Flags
    censored: Flags

    @classmethod
    def of(cls, seen: Seen, tokens: Floats, exists: Flags) -> Table:
        at = tokens[:, None]
        failed = seen.failed & (seen.reach + 1.0 <= at) & exists
        healthy = (seen.reach >= at) & exists
        rest = exists & ~failed & ~healthy & ~seen.failed
        doubtful = rest & seen.doubtful
        return cls(failed, healthy, doubtful, rest & ~doubtful & ~seen.ended)

    def joined(self, other: Table) -> Table:
        names = ("failed", "healthy", "doubtful", "censored")
        return Table(*(np.concatenate([getattr(self, n), getattr(other, n)], axis=1) for n in names))

    @property
    def gone(self) -> Flags:
        return ~(self.failed | self.healthy | self.doubtful | self.censored)


def judge_alone(table: Table, alpha: float, increase: float, confidence: float) -> Ints:
    """`assess_risk` for each campaign."""
    d, healthy = table.failed.sum(axis=1), table.healthy.sum(axis=1)
    doubt, stopped = table.doubtful.sum(axis=1), table.censored.sum(axis=1)
    n, bad = d + healthy + doubt, d + doubt
    with np.errstate(invalid="ignore"):
        upper = np.where(bad == n, 1.0, betaincinv(bad + 1.0, np.maximum(n - bad, 1e-9), confidence))
        size = n + stopped
        lower = np.where(d == 0, 0.0, betaincinv(np.maximum(d, 1e-9), size - d + 1.0, 1.0 - confidence))
    return np.where(upper <= alpha + increase, PASS, np.where(lower > alpha, REGRESSION, INCONCLUSIVE))


def judge_pairs(baseline: Table, candidate: Table, increase: float, confidence: float) -> Ints:
    """`assess_pairs` for each campaign: a bound is beyond a value where the statistic there is."""
    z = float(ndtri(confidence))
    told = ~baseline.gone & ~candidate.gone
    open_a = baseline.doubtful | baseline.censored
    open_b = candidate.doubtful | candidate.censored
    failed_a, worst_a = baseline.failed, baseline.failed | open_a
    failed_b, worst_b = candidate.failed, candidate.failed | candidate.doubtful
    passing, regressing = told & ~candidate.censored, told
    upper_below = _statistic(passing, worst_b, failed_a, increase) < -z
    lower_above = _statistic(regressing, failed_b, worst_a, 0.0) > z
    verdict = np.where(upper_below, PASS, np.where(lower_above, REGRESSION, INCONCLUSIVE))
    return np.where((told & ~open_a & ~open_b).any(axis=1), verdict, INCONCLUSIVE)


def _statistic(told: Flags, candidate: Flags, baseline: Flags, difference: float) -> Floats:
    """Tango's z of each campaign for a given difference."""
    n = told.sum(axis=1).astype(float)
    b = (told & candidate & ~baseline).sum(axis=1).astype(float)
    c = (told & ~candidate & baseline).sum(axis=1).astype(float)
    linear = -b - c + (2 * n - b + c) * difference
    constant = -c * difference * (1.0 - difference)
    with np.errstate(invalid="ignore", divide="ignore"):
        q = (np.sqrt(np.maximum(linear**2 - 8.0 * n * constant, 0.0)) - linear) / (4.0 * n)
        found = (b - c - n * difference) / np.sqrt(n * (2.0 * q + difference * (1.0 - difference)))
    return np.where(np.isnan(found), 0.0, found)


def observed(seen: Seen, exists: Flags, row: int) -> dict[str, Observation]:
    """One campaign's answers as the product sees them, by their place."""
    found = {}
    for place in np.flatnonzero(exists[row]).tolist():
        reach, failed = int(seen.reach[row, place]), bool(seen.failed[row, place])
        ended, doubtful = bool(seen.ended[row, place]), bool(seen.doubtful[row, place])
        onset = reach + 1 if failed else None
        found[str(place)] = Observation(onset, reach, str(place), None, None, ended, doubtful)
    return found


def compare_alone(found: int, sample: dict[str, Observation], rule: CheckRule) -> None:
    """Ends the program where the product says otherwise than its twin."""
    expected = assess_risk(list(sample.values()), rule)
    if _WORDS[expected.tested] != found:
        sys.exit(f"the twin says {found}, the product {expected}")


def compare_pairs(
    found: int, baseline: dict[str, Observation], candidate: dict[str, Observation], rule: CheckRule
) -> None:
    """The same for pairs."""
    expected = assess_pairs(baseline, candidate, rule)
    word = INCONCLUSIVE if expected is None else _WORDS[expected.tested]
    if word != found:
        sys.exit(f"the twin says {found}, the product {expected}")
