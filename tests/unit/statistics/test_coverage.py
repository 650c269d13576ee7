"""Does the bound keep its word? Campaigns with a known truth at the level of onsets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from stresstest.model import RIGORS, Observation
from stresstest.statistics import certify

CAMPAIGNS = 400


def draw(rng: np.random.Generator, n: int) -> list[Observation]:
    """Lognormal onsets, half the answers ending by themselves, earlier where they fail earlier; cap 2,000."""
    shared = rng.normal(size=n)
    onset = np.ceil(900 * np.exp(0.3 * (0.7 * shared + 0.7 * rng.normal(size=n)))).astype(int)
    ending = np.ceil(1000 * np.exp(0.5 * (0.7 * shared + 0.7 * rng.normal(size=n)))).astype(int)
    stop = np.minimum(ending, 2000)
    return [
        Observation(int(o), int(o) - 1) if o <= s else Observation(None, int(s), ended=bool(s < 2000))
        for o, s in zip(onset, stop, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quick", "standard"])
def test_coverage_is_at_least_the_stated_confidence(name: str) -> None:
    """P(certified T <= true T) is not below the confidence: the 99.9 % interval of the share reaches it."""
    rigor = RIGORS[name]
    truth = draw(np.random.default_rng(99), 200_000)
    onsets = np.sort([o.onset for o in truth if o.onset is not None])
    ends = np.sort([o.observed for o in truth if o.onset is None])
    grid = np.arange(1, 2001)
    failed = np.searchsorted(onsets, grid, side="right")
    beyond = len(ends) - np.searchsorted(ends, grid, side="left") + len(onsets) - failed
    true_t = int(grid[failed / (failed + beyond) <= rigor.alpha].max())

    rng = np.random.default_rng(7)
    tokens = [certify(draw(rng, rigor.planned), rigor).tokens or 0 for _ in range(CAMPAIGNS)]
    safe = sum(t <= true_t for t in tokens)
    assert binomtest(safe, CAMPAIGNS).proportion_ci(0.999, method="exact").high >= rigor.confidence
    assert np.median(tokens) >= 0.7 * true_t
