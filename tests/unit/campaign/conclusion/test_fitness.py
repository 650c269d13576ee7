"""A limit without room for one unit of the task is no advice: the model is unfit, and no cap is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.conclusion.fitness import judge_fitness
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.model import Generation, Run, RunStatus, Subject, Threshold
from stresstest.statistics import safe_max_tokens
from tests.support.reported_runs import healthy, looping
from tests.support.stored_data import make_run

FAILING = tuple(looping(i, 9, 60, period=4) for i in range(40))


def run_of(*, task: str = "narrative", status: RunStatus = RunStatus.DONE) -> Run:
    """A finished run of a shipped task in Italian, whose prompts are as they were."""
    made = replace(make_run(subject=Subject("m", task, "it")), status=status)
    made = replace(made, settings=replace(made.settings, task_source=task))
    return replace(made, prompts_digest=load_prompt_source(made.settings).digest())


def certified(tokens: int, *, onsets: int = 1) -> Threshold:
    return Threshold(0.1, 0.9, tokens, n=40, onsets=onsets, certified=True)


def answer(units: int, tokens: int) -> Generation:
    """A healthy answer of so many complete units and tokens."""
    made = healthy(1, tokens)
    return replace(made, verdict=replace(made.verdict, units=units))


def judged(threshold: Threshold, *answers: Generation, run: Run | None = None) -> Threshold:
    return judge_fitness(threshold, [*FAILING, *answers], FAILING, run or run_of())


def test_a_limit_of_seven_tokens_is_no_advice() -> None:
    """No unit was ever completed: the task says how long one is, and 8 tokens are less."""
    found = judged(certified(8))
    assert found.unfit
    assert found.certified, "that T is certified stays true"
    assert safe_max_tokens(found, 0.1) is None
    assert found.withheld == (
        "the limit would be 7 tokens, and one unit takes about 70 (the task's estimate)"
    )


def test_a_horizon_without_room_for_a_unit_speaks_against_no_model() -> None:
    """`run --horizon 100` called a model unfit that failed nowhere, and a good limit of an earlier run no
    longer held."""
    found = judged(replace(certified(60, onsets=0), censored_at=60))
    assert not found.unfit
    assert safe_max_tokens(found, 0.1) is None
    assert found.withheld is not None
    assert found.withheld.endswith("Nothing failed; the answers are too short to show more")


def test_the_models_own_units_count_before_the_tasks_estimate() -> None:
    """Of healthy answers, by their median: a model of short units is fit below the estimate."""
    short = [answer(4, 120), answer(5, 150), answer(2, 400)]
    found = judged(certified(40), *short)
    assert (found.unit_tokens, found.unfit) == (30, False)
    assert judged(certified(33), *short).unfit, "the margin makes it 29"
    assert judged(certified(33), *short).withheld == (
        "the limit would be 29 tokens, and one unit takes about 30 (the median of its own answers)"
    )


def test_one_number_over_a_whole_story_is_no_unit() -> None:
    """A model that writes one heading and goes on would have units as long as its answers."""
    found = judged(certified(288), answer(1, 600))
    assert (found.unit_tokens, found.unfit) == (70, False)


@pytest.mark.parametrize(
    "run",
    [run_of(task="narrative:open"), replace(run_of(), prompts_digest="other")],
    ids=["no units are asked for", "the task has changed since"],
)
def test_where_no_unit_is_known_a_short_sentence_is_one(run: Run) -> None:
    """Of answers that fail at once nothing is left; short answers that do not fail are no failure."""
    assert not judged(certified(18), run=run).unfit
    found = judged(certified(17), run=run)
    assert (found.unit_tokens, found.unfit) == (None, True)
    assert found.withheld == "the limit would be 15 tokens, and a short sentence takes 16"
    assert judged(certified(1), run=run).unfit, "the margin leaves nothing"
    short = replace(certified(3, onsets=0), censored_at=3)
    assert judged(short, run=run) == short
    lacking = Threshold(0.1, 0.9, n=40, onsets=24, lacking="24 of 40 answers at risk degenerate")
    assert judged(lacking, run=run).unfit


def test_failing_at_the_first_token_is_unfit_too() -> None:
    """Nothing is certified then, but not for lack of data: 24 of 40 fail at once, as surely as stated."""
    lacking = Threshold(0.1, 0.9, n=40, onsets=24, lacking="24 of 40 answers at risk degenerate")
    assert judged(lacking).unfit
    assert not judged(replace(lacking, onsets=5)).unfit, "5 of 40 may be 10 %"
    assert not judged(lacking, run=run_of(status=RunStatus.INTERRUPTED)).unfit
    assert not judged(Threshold(0.1, 0.9, n=3, onsets=0, lacking="too few")).unfit
