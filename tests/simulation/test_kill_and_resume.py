"""kill -9 of `run` at a few random moments; benchmarks/kill_and_resume.py does a hundred."""

from __future__ import annotations

import pytest

from benchmarks.kill_and_resume import measure

pytestmark = pytest.mark.simulated


def test_a_killed_and_resumed_campaign_is_the_uninterrupted_one() -> None:
    """Every token, logprob, onset and alarm, the tokens spent and the threshold are the same."""
    expected, suffered = measure(moments=5, seed=11)
    assert expected.document["threshold"]["certified"] is True
    assert sum(len(each.kept) for each in suffered) >= 5
    assert any(0 < kept < len(expected.stored) for each in suffered for kept in each.kept)
    assert [each.differs for each in suffered] == [()] * len(suffered)
