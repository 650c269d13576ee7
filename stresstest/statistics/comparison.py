"""Tests whether a candidate degenerates more than its baseline at the baseline's threshold T. Pure.

The baseline's own sample chose T, so its rate at T is biased low and is never used. There are two rules, with
D the tolerated increase:

- *Candidate alone.* A fresh candidate sample estimates q(T), the estimand of `certify`. The baseline is
  represented by its certificate: risk <= alpha. Exact one-sided Clopper-Pearson bounds: pass if upper <=
  alpha + D, regression if lower > alpha.
- *Pairs.* Fresh samples of both on common prompts: one-sided score bounds of Tango (1998) on candidate minus
  baseline: pass if upper < D, regression if lower > 0.

If both conditions hold, the candidate is significantly worse but by less than D: a pass. A false pass
therefore requires a bound that misses a truth >= D, a false regression one that misses a truth <= 0.

Undecided generations count against the conclusion. For a pass, a generation that stopped with an open
candidate has failed; for a regression it is healthy, and so is one that was stopped before T (by its cap, a
loss or an invalidated window): otherwise a cap below T would leave failures only.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt

from stresstest.model import CheckVerdict, Observation
from stresstest.statistics.certify import effective_size, upper_bound
from stresstest.statistics.sample import censor

CONFIDENCE = 0.95
"""One-sided, of a check with one look."""
LOOKS_EXTENDED = 2
"""Number of looks declared by --extend."""
MAX_NEEDED = 100_000
"""Largest sample size considered when computing how much data is lacking."""


class ObservationStatus(Enum):
    """The status of one generation at T. GONE: ended while healthy before T, or a copy without
    information."""

    FAILED = "failed"
    HEALTHY = "healthy"
    DOUBTFUL = "doubtful"
    CENSORED = "censored"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RiskCounts:
    """Number of generations of a sample by status at T."""

    failed: int = 0
    healthy: int = 0
    doubtful: int = 0
    censored: int = 0
    gone: int = 0

    @property
    def at_risk(self) -> int:
        return self.failed + self.healthy

    @property
    def rate(self) -> float | None:
        return self.failed / self.at_risk if self.at_risk else None


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Number of matched pairs. only_candidate, only_baseline: prompts on which only that side failed."""

    n: int
    only_candidate: int
    only_baseline: int

    @property
    def difference(self) -> float | None:
        return (self.only_candidate - self.only_baseline) / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class PairAnalysis:
    """The pairs at T: as observed, and in the worst case for each conclusion. baseline_failed,
    candidate_failed: observed failures."""

    seen: PairCounts
    for_pass: PairCounts
    for_regression: PairCounts
    baseline_failed: int
    candidate_failed: int


def observation_status(tokens: int, observation: Observation) -> ObservationStatus:
    found = censor(observation)
    if found.onset is not None and found.onset <= tokens:
        return ObservationStatus.FAILED
    if found.reach >= tokens:
        return ObservationStatus.HEALTHY
    if found.onset is not None:
        return ObservationStatus.GONE
    if found.doubtful:
        return ObservationStatus.DOUBTFUL
    return ObservationStatus.GONE if found.ended else ObservationStatus.CENSORED


def risk_counts(tokens: int, sample: Sequence[Observation]) -> RiskCounts:
    found = Counter(observation_status(tokens, o) for o in sample)
    return RiskCounts(**{kind.value: found[kind] for kind in ObservationStatus})


def clustered_risk(tokens: int, sample: Iterable[Observation]) -> tuple[int, int, float]:
    """(d, n, effective size) at `tokens`, the outputs of one prompt as a cluster. One without a prompt is a
    cluster of its own."""
    clusters: dict[str, tuple[int, int]] = {}
    for number, observation in enumerate(sample):
        status = observation_status(tokens, observation)
        if status in (ObservationStatus.FAILED, ObservationStatus.HEALTHY):
            name = observation.cluster or f"#{number}"
            d, n = clusters.get(name, (0, 0))
            clusters[name] = d + (status is ObservationStatus.FAILED), n + 1
    size, total = effective_size(clusters.values())
    return sum(failed for failed, _ in clusters.values()), total, size


def healthy_at(tokens: int, sample: Sequence[Observation]) -> list[Observation]:
    """The observations that are healthy at `tokens`, whatever follows."""
    return [o for o in sample if observation_status(tokens, o) is ObservationStatus.HEALTHY]


def more_failures_p(before: tuple[int, int], after: tuple[int, int]) -> float:
    """One-sided p of Fisher's exact test that (d, n) `after` fails more often than `before`.

    1.0 where a side is empty.
    """
    from scipy.stats import hypergeom

    (d, n), (e, m) = before, after
    return float(hypergeom.sf(e - 1, n + m, d + e, m)) if n and m else 1.0


def lower_bound(d: int, n: int, confidence: float) -> float:
    """One-sided Clopper-Pearson lower bound of d out of n; 0 if d is 0. ValueError unless 0 <= d <= n."""
    if not 0 <= d <= n:
        raise ValueError(f"{d} of {n} is not a proportion")
    if d == 0:
        return 0.0
    from scipy.special import betaincinv

    return float(betaincinv(d, n - d + 1, 1.0 - confidence))


def risk_bounds(counts: RiskCounts, confidence: float) -> tuple[float, float]:
    """One-sided bounds (lower, upper) of q(T), with undecided generations counted against each."""
    n = counts.at_risk + counts.doubtful
    return (
        lower_bound(counts.failed, n + counts.censored, confidence),
        upper_bound(counts.failed + counts.doubtful, n, confidence),
    )


def judge_risk(bounds: tuple[float, float], alpha: float, max_increase: float) -> CheckVerdict:
    """The rule for the candidate alone. A pass takes precedence over a regression."""
    lower, upper = bounds
    if upper <= alpha + max_increase:
        return CheckVerdict.PASS
    return CheckVerdict.REGRESSION if lower > alpha else CheckVerdict.INCONCLUSIVE


def judge_difference(bounds: tuple[float, float], max_increase: float) -> CheckVerdict:
    """The rule for pairs. A pass takes precedence over a regression."""
    lower, upper = bounds
    if upper < max_increase:
        return CheckVerdict.PASS
    return CheckVerdict.REGRESSION if lower > 0.0 else CheckVerdict.INCONCLUSIVE


def look_confidence(looks: int) -> float:
    """Confidence of each bound with `looks` declared looks (Bonferroni): 0.95 for one, 0.975 for two."""
    return 1.0 - (1.0 - CONFIDENCE) / looks


def score_statistic(pairs: PairCounts, difference: float) -> float:
    """Tango's z for H0: p_candidate - p_baseline = `difference`; decreases from +inf to -inf over (-1, 1).

    Source: Tango 1998, Statistics in Medicine 17:891-908, equations 7-9.
    """
    n, b, c = pairs.n, pairs.only_candidate, pairs.only_baseline
    distance = b - c - n * difference
    linear = -b - c + (2 * n - b + c) * difference
    constant = -c * difference * (1.0 - difference)
    # The constrained maximum likelihood of P(only the baseline fails), a root of 2n q² + linear q + constant.
    discordant = (sqrt(max(0.0, linear * linear - 8.0 * n * constant)) - linear) / (4.0 * n)
    variance = n * (2.0 * discordant + difference * (1.0 - difference))
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else float("inf") if distance > 0.0 else float("-inf")
    return float(distance / sqrt(variance))


def difference_bounds(
    for_regression: PairCounts, for_pass: PairCounts, confidence: float
) -> tuple[float, float]:
    """One-sided Tango bounds (lower, upper) of p_candidate - p_baseline; (-1, 1) without pairs."""
    from scipy.special import ndtri

    z = float(ndtri(confidence))
    return _solve(for_regression, z, -1.0), _solve(for_pass, -z, 1.0)


def _solve(pairs: PairCounts, z: float, outermost: float) -> float:
    """The difference whose statistic is `z`; z > 0 gives a lower bound, z < 0 an upper one."""
    if pairs.n == 0:
        return outermost
    estimate = (pairs.only_candidate - pairs.only_baseline) / pairs.n
    if estimate == outermost:
        return outermost
    from scipy.optimize import brentq

    edge = outermost * (1.0 - 1e-12)
    if (score_statistic(pairs, edge) - z) * z < 0.0:
        return outermost
    return float(brentq(lambda d: score_statistic(pairs, d) - z, *sorted((estimate, edge)), xtol=1e-10))


def match_pairs(
    tokens: int, baseline: Mapping[str, Observation], candidate: Mapping[str, Observation]
) -> PairAnalysis:
    """Count the common prompts at T. Keys are prompts, with one observation each.

    A pair is counted as seen if both sides are at risk. For a regression, a baseline that was stopped or is
    in doubt counts as failed, and such a candidate as healthy; for a pass it is the reverse, except that a
    stopped candidate is excluded (as in :func:`risk_bounds`).
    """
    seen: Counter[tuple[bool, bool]] = Counter()
    passing, regressing = seen.copy(), seen.copy()
    open_ends = (ObservationStatus.DOUBTFUL, ObservationStatus.CENSORED)
    for name in baseline.keys() & candidate.keys():
        a, b = observation_status(tokens, baseline[name]), observation_status(tokens, candidate[name])
        if ObservationStatus.GONE in (a, b):
            continue
        if a not in open_ends and b not in open_ends:
            seen[b is ObservationStatus.FAILED, a is ObservationStatus.FAILED] += 1
        if b is not ObservationStatus.CENSORED:
            passing[b is not ObservationStatus.HEALTHY, a is ObservationStatus.FAILED] += 1
        regressing[b is ObservationStatus.FAILED, a is not ObservationStatus.HEALTHY] += 1
    return PairAnalysis(
        _counts(seen),
        _counts(passing),
        _counts(regressing),
        baseline_failed=seen[True, True] + seen[False, True],
        candidate_failed=seen[True, True] + seen[True, False],
    )


def _counts(table: Mapping[tuple[bool, bool], int]) -> PairCounts:
    return PairCounts(sum(table.values()), table[True, False], table[False, True])


def needed_for_risk(counts: RiskCounts, alpha: float, max_increase: float, confidence: float) -> int | None:
    """Approximate total number at risk at which the candidate's bounds would decide.

    Assumes that all counts, undecided generations included, grow in proportion. None above `MAX_NEEDED`.
    """

    def decided(size: int) -> bool:
        failed, doubtful, censored = (
            _grown(count, size, counts.at_risk) for count in (counts.failed, counts.doubtful, counts.censored)
        )
        larger = RiskCounts(failed, size - failed, doubtful, censored)
        verdict = judge_risk(risk_bounds(larger, confidence), alpha, max_increase)
        return verdict is not CheckVerdict.INCONCLUSIVE

    return _smallest(decided, counts.at_risk)


def needed_pairs(pairs: PairAnalysis, max_increase: float, confidence: float) -> int | None:
    """Approximate total number of pairs at which Tango's bounds would decide.

    Assumes that all counts, undecided pairs included, grow in proportion. None above `MAX_NEEDED`.
    """

    def decided(size: int) -> bool:
        n = pairs.seen.n
        bounds = difference_bounds(
            _grown_pairs(pairs.for_regression, size, n), _grown_pairs(pairs.for_pass, size, n), confidence
        )
        return judge_difference(bounds, max_increase) is not CheckVerdict.INCONCLUSIVE

    return _smallest(decided, pairs.seen.n)


def _grown_pairs(pairs: PairCounts, size: int, n: int) -> PairCounts:
    counts = (pairs.n, pairs.only_candidate, pairs.only_baseline)
    return PairCounts(*(_grown(count, size, n) for count in counts))


def _grown(count: int, size: int, n: int) -> int:
    """`count` of `n`, in proportion, where there are `size`; as it is where n is 0."""
    return round(count * size / n) if n else count


def _smallest(decided: Callable[[int], bool], n: int) -> int | None:
    """The first size above n, in steps of 2 %, for which `decided` holds; None above `MAX_NEEDED`."""
    size = n + 1
    while size <= MAX_NEEDED:
        if decided(size):
            return size
        size += max(1, size // 50)
    return None


def log_rank(baseline: Sequence[Observation], candidate: Sequence[Observation]) -> float | None:
    """Two-sided p of the log-rank test on all onsets (Mantel 1966); None without onsets or with an empty
    sample.

    It covers the whole curves, including the sample that chose T, so it is only an indication.
    """
    samples = [[censor(o) for o in sample] for sample in (baseline, candidate)]
    if not all(samples) or not any(o.onset is not None for sample in samples for o in sample):
        return None
    from scipy.stats import CensoredData, logrank

    data = [
        CensoredData.right_censored(
            [o.onset if o.onset is not None else o.reach for o in sample], [o.onset is None for o in sample]
        )
        for sample in samples
    ]
    with warnings.catch_warnings():
        # scipy divides by zero if one side has nothing at risk at any onset of the other: p is then NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(logrank(*data).pvalue)
    return p if p == p else None
