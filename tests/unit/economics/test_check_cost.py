"""What vLLM's check costs: the measured table, and what lies between its rows."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stresstest.economics.check_cost import check_microseconds
from stresstest.economics.mitigation import RepetitionSetting, candidate_settings


@pytest.mark.parametrize(
    ("setting", "cost"),
    [
        pytest.param(RepetitionSetting(1, 1, 2), 0.5, id="one size"),
        pytest.param(RepetitionSetting(1, 20, 3), 6.9, id="vLLM's example"),
        pytest.param(RepetitionSetting(4, 128, 4), 41.3, id="4 to 128"),
        pytest.param(RepetitionSetting(1, 2_048, 3), 746.6, id="all sizes"),
    ],
)
def test_measured_settings_cost_what_was_measured(setting: RepetitionSetting, cost: float) -> None:
    assert check_microseconds(setting) == pytest.approx(cost)


def test_more_sizes_never_cost_less() -> None:
    """Every setting that may be chosen has a cost, from the smallest to the largest."""
    by_sizes = sorted(candidate_settings(), key=lambda s: s.max_pattern_size - s.min_pattern_size)
    costs = [check_microseconds(setting) for setting in by_sizes]
    assert all(low <= high for low, high in pairwise(costs))
    assert 0 < costs[0] < costs[-1] <= 746.6
