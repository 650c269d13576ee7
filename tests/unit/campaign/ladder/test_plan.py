"""The plan shown before anything is sent: rungs, job identities, worst cases."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stresstest.campaign.ladder import LadderSetup, ladder_job, look_sizes, rung_targets, worst_case_plan
from stresstest.campaign.ladder.plan import climb_rung
from stresstest.model import RIGORS, Phase

QUICK = RIGORS["quick"]


def test_targets_double_up_to_the_horizon() -> None:
    """From 256 tokens, or four units when units are long, and the last rung is the horizon itself."""
    assert rung_targets(LadderSetup(QUICK, 3000, 60.0)) == [256, 512, 1024, 2048, 3000]
    assert rung_targets(LadderSetup(QUICK, 3000, 200.0)) == [800, 1600, 3000]
    assert rung_targets(LadderSetup(QUICK, 64, 60.0)) == [64]
    assert rung_targets(LadderSetup(QUICK, 4096, 9000.0)) == [4096]
    assert rung_targets(LadderSetup(QUICK, 4096, 60.0, prompts_fixed=True)) == [4096]


@given(st.integers(1, 40_000), st.floats(0.5, 9000), st.none() | st.integers(1, 50), st.booleans())
def test_rungs_stay_within_horizon_and_units(
    horizon: int, per_unit: float, max_units: int | None, fixed: bool
) -> None:
    """No cap beyond the horizon, no more units than a prompt may ask for, targets strictly rising."""
    setup = LadderSetup(QUICK, horizon, per_unit, max_units, 300, fixed)
    plan = worst_case_plan(setup)
    assert all(1 <= r.target_tokens <= r.max_tokens <= horizon for r in plan.rungs)
    assert all(a.target_tokens < b.target_tokens for a, b in pairwise(plan.rungs))
    assert plan.rungs[-1].target_tokens == horizon
    for rung in plan.rungs:
        assert (rung.units is None) == fixed
        assert rung.units is None or 1 <= rung.units <= (max_units or rung.units)
    assert plan.expected_tokens <= plan.worst_tokens
    assert plan.expected_requests <= plan.requests


def test_worst_case_by_hand() -> None:
    """Two rungs of two, caps 640 and 1,000; 4 x 38 generations of 1,000; with --tighten eight times that."""
    plan = worst_case_plan(LadderSetup(QUICK, 1000, 60.0))
    assert [r.max_tokens for r in plan.rungs] == [640, 1000, 1000]
    assert plan.requests == 6 + 152
    assert plan.worst_tokens == 2 * (640 + 1000 + 1000) + 152 * 1000
    assert worst_case_plan(LadderSetup(QUICK, 1000, 60.0, tighten=True)).requests == 6 + 8 * 152
    assert look_sizes(LadderSetup(QUICK, 1000, 60.0, tighten=True), 38) == [38, 76, 152, 304]


def test_jobs_are_stable_and_climb_and_certify_do_not_share_prompts() -> None:
    """A job's prompt and seed depend on its place alone; climb and certification start from opposite ends."""
    setup = LadderSetup(QUICK, 16_384, 60.0, distinct_prompts=300, seed=5)
    rungs = [climb_rung(setup, i, t, 60.0) for i, t in enumerate(rung_targets(setup), 1)]
    climb = [ladder_job(setup, Phase.CLIMB, r, i) for r in rungs for i in range(2)]
    certify = [ladder_job(setup, Phase.CERTIFY, rungs[-1], i) for i in range(152)]
    assert climb == [ladder_job(setup, Phase.CLIMB, r, i) for r in rungs for i in range(2)]
    assert not {j.prompt_index for j in climb} & {j.prompt_index for j in certify}
    assert len({j.prompt_index for j in certify}) == 152
    assert len({j.seed for j in climb + certify}) == len(climb) + 152
    other = LadderSetup(QUICK, 16_384, 60.0, distinct_prompts=300, seed=6)
    assert ladder_job(other, Phase.CERTIFY, rungs[-1], 0).seed != certify[0].seed


def test_prompts_are_reused_when_they_run_out() -> None:
    """Fewer prompts than generations: the same prompts again, with other seeds."""
    setup = LadderSetup(QUICK, 1000, 60.0, distinct_prompts=10)
    rung = climb_rung(setup, 1, 256, 60.0)
    jobs = [ladder_job(setup, Phase.CERTIFY, rung, i) for i in range(20)]
    assert [j.prompt_index for j in jobs] == [*range(10), *range(10)]
    assert len({j.seed for j in jobs}) == 20
