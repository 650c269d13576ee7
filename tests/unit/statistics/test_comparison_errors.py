"""How often `check` errs, computed over every possible sample: no simulation, no seed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from stresstest.model import RIGORS, CheckVerdict
from stresstest.statistics.comparison import (
    PairCounts,
    RiskCounts,
    difference_bounds,
    judge_difference,
    judge_risk,
    look_confidence,
    risk_bounds,
)

STATED = 0.05
PASS, REGRESSION, INCONCLUSIVE = CheckVerdict.PASS, CheckVerdict.REGRESSION, CheckVerdict.INCONCLUSIVE


def alone(d: int, n: int, alpha: float, increase: float, looks: int = 1) -> CheckVerdict:
    return judge_risk(risk_bounds(RiskCounts(d, n - d), look_confidence(looks)), alpha, increase)


@pytest.mark.parametrize("n", [22, 38, 59, 97, 124, 250, 473])
@pytest.mark.parametrize(("alpha", "increase"), [(0.10, 0.10), (0.05, 0.05), (0.05, 0.02), (0.01, 0.01)])
def test_the_candidate_alone_errs_at_most_as_stated(n: int, alpha: float, increase: float) -> None:
    """A truth of α is called a regression, one of α + Δ a pass, in at most 5 % of all samples of any size."""
    d = np.arange(n + 1)
    verdicts = [alone(int(each), n, alpha, increase) for each in d]
    regressions = np.array([v is REGRESSION for v in verdicts])
    passes = np.array([v is PASS for v in verdicts])
    assert binom.pmf(d, n, alpha)[regressions].sum() <= STATED
    assert binom.pmf(d, n, alpha + increase)[passes].sum() <= STATED


@pytest.mark.parametrize("rigor", ["quick", "standard"])
def test_two_looks_err_at_most_as_stated(rigor: str) -> None:
    """--extend: whatever the first look says, both together keep the promise, over every pair of samples."""
    alpha, n = RIGORS[rigor].alpha, RIGORS[rigor].planned
    first = [alone(d, n, alpha, alpha, looks=2) for d in range(n + 1)]
    both = [alone(d, 2 * n, alpha, alpha, looks=2) for d in range(2 * n + 1)]
    for truth, wrong in ((alpha, REGRESSION), (2 * alpha, PASS)):
        p = binom.pmf(np.arange(n + 1), n, truth)
        erring = sum(
            p[d] * p[e]
            for d in range(n + 1)
            for e in range(n + 1)
            if (both[d + e] if first[d] is INCONCLUSIVE else first[d]) is wrong
        )
        assert erring <= STATED


@cache
def paired(n: int, increase: float) -> tuple[tuple[PairCounts, CheckVerdict], ...]:
    """Every table of discordant pairs, judged."""

    def tables() -> Iterator[PairCounts]:
        yield from (PairCounts(n, b, c) for b in range(n + 1) for c in range(n + 1 - b))

    bounds = ((each, difference_bounds(each, each, look_confidence(1))) for each in tables())
    return tuple((each, judge_difference(found, increase)) for each, found in bounds)


@pytest.mark.parametrize("shared", [0.01, 0.03, 0.1, 0.2])
def test_pairs_err_hardly_more_than_stated(shared: float) -> None:
    """Tango's bounds are approximate: on 38 pairs at most 5.5 % where the truth is 0, or Δ."""
    n, increase = RIGORS["quick"].planned, RIGORS["quick"].alpha
    found = paired(n, increase)
    cells = np.array(
        [(t.only_candidate, t.only_baseline, n - t.only_candidate - t.only_baseline) for t, _ in found]
    )
    for truth, wrong in ((0.0, REGRESSION), (increase, PASS)):
        p = multinomial.pmf(cells, n, [shared + truth, shared, 1.0 - truth - 2.0 * shared])
        assert p[[verdict is wrong for _, verdict in found]].sum() <= STATED + 0.005
