"""Distributions of onsets, in tokens: four families with their exact CDF and quantile function.

Every draw of the simulator is a quantile of a uniform number, so the truth is known in closed form and
a draw can be conditioned on being later than a given token without rejection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

_NORMAL = NormalDist()


class Distribution(Protocol):
    """A distribution on the positive numbers (tokens)."""

    def cdf(self, tokens: float) -> float:
        """P(value <= tokens)."""
        ...

    def quantile(self, share: float) -> float:
        """The value (tokens) that `share` (0-1) of all draws do not exceed."""
        ...


@dataclass(frozen=True, slots=True)
class FixedDistribution:
    """Always `tokens`."""

    tokens: float

    def cdf(self, tokens: float) -> float:
        return 1.0 if tokens >= self.tokens else 0.0

    def quantile(self, share: float) -> float:  # noqa: ARG002  (the same for every share)
        return self.tokens


@dataclass(frozen=True, slots=True)
class UniformDistribution:
    """Anything from `low` to `high`, equally likely."""

    low: float
    high: float

    def cdf(self, tokens: float) -> float:
        if self.high <= self.low:
            return 1.0 if tokens >= self.low else 0.0
        return min(1.0, max(0.0, (tokens - self.low) / (self.high - self.low)))

    def quantile(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class LognormalDistribution:
    """ln(value) is normal with mean ln(`median`) and standard deviation `sigma`."""

    median: float
    sigma: float

    def cdf(self, tokens: float) -> float:
        if tokens <= 0:
            return 0.0
        if self.sigma == 0:
            return 1.0 if tokens >= self.median else 0.0
        return _NORMAL.cdf((math.log(tokens) - math.log(self.median)) / self.sigma)

    def quantile(self, share: float) -> float:
        return self.median * math.exp(self.sigma * normal_quantile(share))


@dataclass(frozen=True, slots=True)
class WeibullDistribution:
    """P(value > t) = exp(-(t / scale) ** shape): shape 1 is a constant hazard, above 1 a growing one."""

    scale: float
    shape: float

    def cdf(self, tokens: float) -> float:
        return -math.expm1(-((tokens / self.scale) ** self.shape)) if tokens > 0 else 0.0

    def quantile(self, share: float) -> float:
        return float(self.scale * (-math.log1p(-min(share, 1 - 1e-12))) ** (1 / self.shape))


def normal_quantile(share: float) -> float:
    """The standard normal's quantile, finite also at the ends (within 7 standard deviations)."""
    return _NORMAL.inv_cdf(min(max(share, 1e-12), 1 - 1e-12))


def normal_cdf(value: float) -> float:
    return _NORMAL.cdf(value)


def conditional_quantile(distribution: Distribution, tokens: float, share: float) -> float:
    """The `share` quantile of the distribution given that the value is above `tokens`.

    Where the distribution has nothing left above `tokens`, the value is just above it.
    """
    before = distribution.cdf(tokens)
    return max(distribution.quantile(before + share * (1.0 - before)), tokens + 1.0)
