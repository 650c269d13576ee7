"""Two-sided intervals of a proportion: exact, and exact at the effective size of a clustered sample."""

from __future__ import annotations

from collections.abc import Iterable


def clopper_pearson(d: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided Clopper-Pearson interval of d out of n (1934); (0, 1) when n is 0.

    d and n may be fractional: an effective sample.
    """
    if not 0.0 <= d <= n:
        raise ValueError(f"{d} of {n} is no proportion")
    if n == 0.0:
        return 0.0, 1.0
    from scipy.special import betaincinv

    tail = (1.0 - confidence) / 2.0
    lo = 0.0 if d == 0.0 else float(betaincinv(d, n - d + 1.0, tail))
    hi = 1.0 if d == n else float(betaincinv(d + 1.0, n - d, 1.0 - tail))
    return lo, hi


def effective_size(clusters: Iterable[tuple[int, int]]) -> tuple[float, int]:
    """(effective size, size) of a sample in clusters, each (degenerate, outputs): several outputs of one
    prompt tell less than so many prompts.

    n / design effect, with the between-cluster variance of the ratio estimator (Korn & Graubard 1998),
    never above n. Where nothing or everything degenerates the data say nothing of the likeness within
    clusters, and the number of clusters is taken.
    """
    found = [pair for pair in clusters if pair[1] > 0]
    n = sum(size for _, size in found)
    d = sum(degenerate for degenerate, _ in found)
    m = len(found)
    if m == n or m < 2:
        return float(m), n
    rate = d / n
    if d in (0, n):
        return float(m), n
    variance = m / (m - 1) * sum((k - rate * size) ** 2 for k, size in found) / (n * n)
    if variance <= 0.0:
        return float(n), n
    return min(rate * (1.0 - rate) / variance, float(n)), n


def clustered_interval(
    d: int, n: int, effective_share: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Clopper-Pearson of d out of n at `effective_share` of the sample size (1: independent outputs)."""
    return clopper_pearson(d * effective_share, n * effective_share, confidence)
