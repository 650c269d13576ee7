"""The ladder against models of a known truth: where it stops, what it asks, and that order never matters."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.campaign.ladder import (
    CertifyStep,
    ClimbStep,
    LadderDone,
    LadderSetup,
    next_step,
    worst_case_plan,
)
from stresstest.model import RIGORS, Generation, Job, Phase
from stresstest.model.result import certifying_sample
from stresstest.statistics import certified_threshold
from tests.support.generations import make

QUICK = RIGORS["quick"]
SETUP = LadderSetup(QUICK, 4096, 60.0, distinct_prompts=300)
Model = Callable[[Job], Generation]


def writer(
    onset: Callable[[random.Random], float] | None = None,
    longest: float = float("inf"),
    per_unit: float = 60.0,
    loss: float = 0.0,
) -> Model:
    """A model that writes what it is asked for, up to `longest`, failing at `onset`; all from its seed."""

    def write(job: Job) -> Generation:
        rng = random.Random(job.seed)
        asked = (job.units or 40) * per_unit * rng.uniform(0.9, 1.1)
        ends = int(max(1, min(asked, longest * rng.uniform(0.95, 1.0))))
        fails = int(onset(rng)) if onset else None
        if rng.random() < loss:
            return make(job, min(ends, job.max_tokens) // 3, lost=True)
        if fails is not None and fails + 60 <= min(ends, job.max_tokens):
            return make(job, fails + 60, fails, finish=None)
        if ends > job.max_tokens:
            return make(job, job.max_tokens, observed=max(0, job.max_tokens - 20), finish="length")
        return make(job, ends, units=max(1, round(ends / per_unit)))

    return write


def campaign(
    setup: LadderSetup, model: Model, done: list[Generation] | None = None
) -> tuple[list[Generation], list[ClimbStep | CertifyStep], LadderDone]:
    """Play to the end, from `done` on. Fails when the ladder does not end by itself."""
    done = list(done or ())
    steps: list[ClimbStep | CertifyStep] = []
    for _ in range(60):
        step = next_step(setup, done)
        if isinstance(step, LadderDone):
            return done, steps, step
        assert step.jobs, "a stage without jobs would never end"
        steps.append(step)
        done += [model(job) for job in step.jobs]
    raise AssertionError("the ladder does not end")


def certifying(done: list[Generation]) -> list[Generation]:
    sample = {g.key for g in certifying_sample(done)}
    return [g for g in done if g.key in sample]


def shy(job: Job, most: int = 12) -> Generation:
    """Fails at about 464 tokens; asked for more than `most` units, it ends after eight to ten short ones."""
    rng = random.Random(job.seed)
    onset, asked = int(rng.gauss(464, 15)), int((job.units or 0) * 60 * rng.uniform(0.9, 1.1))
    if (job.units or 0) > most:
        return make(job, rng.randint(201, 240), units=rng.randint(8, 10))
    if onset + 60 <= asked:
        return replace(make(job, onset + 60, onset, finish=None), aborted=True)
    return make(job, asked, units=job.units)


MODELS: dict[str, Model] = {
    "never fails": writer(),
    "fails at 30": writer(lambda rng: rng.uniform(28, 34)),
    "fails at 700": writer(lambda rng: rng.gauss(700, 20)),
    "lognormal": writer(lambda rng: rng.lognormvariate(6.8, 0.4)),
    "one in six fails": writer(lambda rng: 300 if rng.random() < 1 / 6 else 1e9),
    "ends at 400": writer(longest=400),
    "long units": writer(per_unit=900.0),
    "tiny units": writer(per_unit=4.0),
    "writes less when asked for more": lambda job: shy(job),
    "loses a third": writer(lambda rng: rng.gauss(900, 100), loss=0.33),
    "everything lost": writer(loss=1.0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "setup",
    [
        SETUP,
        replace(SETUP, horizon=64),
        replace(SETUP, tokens_per_unit=9000.0),
        replace(SETUP, max_units=12),
        replace(SETUP, prompts_fixed=True, distinct_prompts=15),
        replace(SETUP, tighten=True),
    ],
    ids=["plain", "tiny horizon", "huge units", "few units", "own prompts", "tighten"],
)
def test_every_campaign_ends_within_its_plan(name: str, setup: LadderSetup) -> None:
    """Whatever the model does, the ladder ends, asks no key twice, and never more than the plan said."""
    done, steps, _ = campaign(setup, MODELS[name])
    plan = worst_case_plan(setup)
    keys = [g.key for g in done]
    assert len(keys) == len(set(keys)) <= plan.requests
    assert sum(g.job.max_tokens for g in done) <= plan.worst_tokens
    assert all(g.job.max_tokens <= setup.horizon for g in done)
    phases = [isinstance(s, CertifyStep) for s in steps]
    assert phases == sorted(phases), "the climb never resumes after certification began"


def test_fixed_onset_is_certified_close_to_it() -> None:
    """Onsets around 700: asked for 1.5 times that, not for the whole horizon, and certified just below."""
    done, steps, _ = campaign(SETUP, MODELS["fails at 700"])
    last = steps[-1]
    assert isinstance(last, CertifyStep)
    assert last.rung.target_tokens >= 1.5 * 680
    assert 1.5 * 680 + 256 <= last.rung.max_tokens <= 1500
    assert last.total == 38
    threshold = certified_threshold(certifying(done), QUICK)
    assert threshold.tokens is not None
    assert 620 <= threshold.tokens <= 700


def test_early_failure_stops_the_climb_at_once() -> None:
    """Both generations of the first rung fail at 30: no second rung is climbed."""
    done, _, _ = campaign(SETUP, MODELS["fails at 30"])
    assert sum(g.job.phase is Phase.CLIMB for g in done) == 2
    threshold = certified_threshold(certifying(done), QUICK)
    assert threshold.tokens is not None
    assert 25 <= threshold.tokens <= 34


def test_healthy_model_is_certified_up_to_the_horizon() -> None:
    """No onset anywhere: the horizon rung certifies, and the answer is ">= C" close to the horizon."""
    done, steps, _ = campaign(SETUP, MODELS["never fails"])
    assert steps[-1].rung.max_tokens == 4096
    threshold = certified_threshold(certifying(done), QUICK)
    assert threshold.certified
    assert threshold.censored_at == threshold.tokens
    assert threshold.tokens is not None
    assert threshold.tokens > 3500


def test_climb_ends_where_answers_stop_growing() -> None:
    """Answers end at 400 whatever is asked: three rungs show it, and the cap is not the horizon."""
    done, steps, _ = campaign(SETUP, MODELS["ends at 400"])
    assert sum(g.job.phase is Phase.CLIMB for g in done) <= 8
    last = steps[-1]
    assert isinstance(last, CertifyStep)
    assert last.rung.max_tokens < 1200
    assert "whatever length" in last.reason
    threshold = certified_threshold(certifying(done), QUICK)
    assert threshold.censored_at is not None
    assert threshold.censored_at >= 380


def test_rare_onsets_do_not_stop_the_climb() -> None:
    """One in six failing early is no majority: the climb goes on, and the certified risk knows of them."""
    done, steps, _ = campaign(SETUP, MODELS["one in six fails"])
    assert steps[-1].rung.max_tokens == 4096
    threshold = certified_threshold(certifying(done), RIGORS["quick"])
    assert threshold.tokens == 299


def test_everything_lost_is_done_with_a_reason() -> None:
    """A dead server is not climbed to the top: two rungs, then the reason, and nothing certified."""
    done, _, end = campaign(SETUP, MODELS["everything lost"])
    assert len(done) == 4
    assert end.reason == "all 4 answers of the climb were lost to service failures; nothing can be certified"
    assert not certified_threshold(certifying(done), QUICK).certified


def test_lost_generations_are_not_asked_again() -> None:
    """Losses make the sample smaller, never longer: no undeclared extension."""
    half = writer(lambda rng: rng.gauss(900, 100), loss=0.5)
    done, _, end = campaign(SETUP, half)
    sample = certifying(done)
    assert len(sample) in range(38, 153)
    assert any(g.failure for g in sample)
    assert end.reason == "the certifying sample is complete"


def test_early_ends_enlarge_the_sample_up_front() -> None:
    """Half the climb's long answers end before the onset: twice the planned sample, fixed at the start."""

    def ends_early(job: Job) -> Generation:
        if job.rung >= 3 and job.index == 0 and job.phase is Phase.CLIMB:
            return make(job, 500, units=8)
        if (job.units or 0) * 60 >= 800:
            return make(job, 860, 800, finish=None)
        return make(job, (job.units or 1) * 60, units=job.units)

    done: list[Generation] = []
    step = next_step(SETUP, done)
    while isinstance(step, ClimbStep):
        done += [ends_early(job) for job in step.jobs]
        step = next_step(SETUP, done)
    assert isinstance(step, CertifyStep)
    assert step.total == 76
    assert step.rung.target_tokens == 1200
    assert step.planned_at_risk == 38


@pytest.mark.parametrize("tighten", [False, True])
def test_a_sample_that_ends_before_the_suspected_onset_is_taken_again_where_it_does_not(
    tighten: bool,
) -> None:
    """9 units fail at 464 tokens, 21 end at 240: what was asked for 9 certifies, from a sample of its own."""
    done, steps, _ = campaign(replace(SETUP, tighten=tighten), shy)
    first, second = [s for s in steps if isinstance(s, CertifyStep)][:2]
    assert (first.rung.units, second.rung.units) == (21, 9)
    assert "ended on their own before the" in second.reason
    sample = certifying(done)
    assert {g.job.units for g in sample} == {second.rung.units}
    assert {g.job.seed for g in sample}.isdisjoint(
        g.job.seed for g in done if g.job.phase is Phase.CERTIFY and g not in sample
    )
    threshold = certified_threshold(sample, QUICK, tighten=tighten)
    assert threshold.tokens is not None
    assert 400 <= threshold.tokens <= 464


def test_where_no_climbed_length_reaches_the_onset_the_first_sample_stands() -> None:
    """Another sample that would end as early is not asked for: nothing is gained."""
    seen: list[Job] = []

    def once(job: Job) -> Generation:
        seen.append(job)
        if job.phase is Phase.CLIMB and job.rung == 1:
            return make(job, 300, 240, finish=None)
        return make(job, 201, units=8)

    _, steps, _ = campaign(replace(SETUP, max_units=5), once)
    assert sum(isinstance(s, CertifyStep) for s in steps) == 1


def test_another_sample_is_not_begun_when_the_budget_cannot_finish_it() -> None:
    """A budget for one sample: the first stands, and the run is complete."""
    done, steps, _ = campaign(SETUP, shy)
    spent = sum(g.output_tokens for g in done if g.job.phase is Phase.CLIMB)
    cap = next(s.rung.max_tokens for s in steps if isinstance(s, CertifyStep))
    _, steps, end = campaign(replace(SETUP, budget_tokens=spent + 22 * cap), shy)
    assert sum(isinstance(s, CertifyStep) for s in steps) == 1
    assert end.complete


def test_units_follow_the_measured_tokens_per_unit() -> None:
    """A unit of 120 tokens where 60 were guessed: the next rung asks for half as many."""
    first = next_step(SETUP, [])
    assert isinstance(first, ClimbStep)
    assert first.rung.units == 5
    done = [make(job, 480, units=4) for job in first.jobs]
    second = next_step(replace(SETUP, horizon=9000), done)
    assert isinstance(second, ClimbStep)
    assert second.rung.target_tokens in (1024, 2048)
    assert second.rung.units == -(-second.rung.target_tokens // 120)


def test_slow_alarms_get_more_room() -> None:
    """Where the climb's alarms came 1,000 tokens after the onset, the cap waits for such an alarm."""
    setup = replace(SETUP, horizon=16_384)
    first = next_step(setup, [])
    assert isinstance(first, ClimbStep)
    quick = [make(job, 300, 100) for job in first.jobs]
    slow = [replace(g, verdict=replace(g.verdict, alarm=1100)) for g in quick]
    caps = []
    for done in (quick, slow):
        step = next_step(setup, done)
        assert isinstance(step, CertifyStep)
        caps.append(step.rung.max_tokens)
    assert caps[0] == 150 + 256
    assert caps[1] == 150 + 1500


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(MODELS)),
    st.booleans(),
    st.booleans(),
    st.integers(1, 1_000_000),
    st.randoms(use_true_random=False),
)
def test_interrupted_and_shuffled_campaigns_end_alike(
    name: str, tighten: bool, fixed: bool, seed: int, rng: random.Random
) -> None:
    """Killed anywhere, stored in any order, resumed: the same jobs, generations and threshold."""
    setup = replace(SETUP, tighten=tighten, prompts_fixed=fixed, seed=seed)
    model = MODELS[name]
    whole, _, end = campaign(setup, model)
    done: list[Generation] = []
    for _ in range(3):
        step = next_step(setup, done)
        if isinstance(step, LadderDone):
            break
        arrived = rng.sample(step.jobs, rng.randint(0, len(step.jobs)))
        done += [model(job) for job in arrived]
        rng.shuffle(done)
        remaining = next_step(setup, done)
        if 0 < len(arrived) < len(step.jobs):
            assert not isinstance(remaining, LadderDone)
            assert set(remaining.jobs) == set(step.jobs) - set(arrived)
            assert (remaining.rung, remaining.total) == (step.rung, step.total)
    resumed, _, end_resumed = campaign(setup, model, done)
    assert {g.job for g in resumed} == {g.job for g in whole}
    assert end_resumed == end
    assert certified_threshold(certifying(resumed), QUICK, tighten=tighten) == certified_threshold(
        certifying(whole), QUICK, tighten=tighten
    )


def test_late_samples_do_not_change_decisions() -> None:
    """A window invalidated after the fact changes what is certified, not what is asked next."""
    done, steps, _ = campaign(SETUP, MODELS["fails at 700"])
    climbed = [g for g in done if g.job.phase is Phase.CLIMB]
    disturbed = [replace(g, invalid_from=1) for g in climbed]
    assert next_step(SETUP, disturbed) == next_step(SETUP, climbed) == steps[-1]


def test_looks_stop_when_nothing_is_gained() -> None:
    """--tighten on a fixed onset: the second look cannot gain and the declared rule stops there."""
    setup = replace(SETUP, tighten=True)
    done, steps, end = campaign(setup, writer(lambda rng: 700.0))
    looks = [s for s in steps if isinstance(s, CertifyStep)]
    assert [(s.look, s.looks, s.total, s.planned_at_risk) for s in looks] == [(1, 4, 38, 38), (2, 4, 38, 76)]
    assert "look 2 of 4" in end.reason
    indexes = sorted(g.job.index for g in certifying(done))
    assert indexes == list(range(76))
    assert certified_threshold(certifying(done), QUICK, tighten=True).tokens == 699
