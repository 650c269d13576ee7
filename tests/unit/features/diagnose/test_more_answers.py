"""When measuring on begins, when it ends, and what is said where it ends too early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from stresstest.features.diagnose.intervention_runner import InterventionRunner
from stresstest.features.diagnose.more_prompts import MoreAnswers
from stresstest.model import GenerationRecord
from tests.support.generations import make, make_job

_TOKENS = 100


@dataclass
class _Runner:
    """Answers every prompt with 100 tokens; every `fails`-th answer fails, none for 0."""

    fails: int
    distinct: int = 200
    spent: int = 0
    stored: dict[str, GenerationRecord] = field(default_factory=dict)
    concurrency: int = 8
    asked: int = 0

    @property
    def prompts(self) -> Any:
        return SimpleNamespace(distinct=self.distinct)

    def job_seed(self, place: str) -> int:
        return 0

    async def run_missing(
        self, what: str, factories: dict[str, Any], *, enough: Any, keep_tokens: bool, limit: int
    ) -> list[GenerationRecord]:
        found: list[GenerationRecord] = []
        for make_task in factories.values():
            if len(found) * _TOKENS >= limit or enough(found):
                break
            self.asked += 1
            [job] = make_task.args
            failed = bool(self.fails) and self.asked % self.fails == 0
            found.append(make(job, _TOKENS, 50 if failed else None).to_record())
        self.spent += len(found) * _TOKENS
        return found


def _run(failing: int, healthy: int) -> list[GenerationRecord]:
    onsets = [50] * failing + [None] * healthy
    return [make(make_job(index=i), _TOKENS, onset).to_record() for i, onset in enumerate(onsets)]


def _gathered(
    runner: _Runner, generations: Sequence[GenerationRecord], budget: int
) -> tuple[MoreAnswers, list[GenerationRecord]]:
    more = MoreAnswers(cast(InterventionRunner, runner), budget, len(generations) * _TOKENS)
    return more, asyncio.run(more.gather(generations, 15))


def test_a_run_with_enough_failing_prompts_costs_nothing() -> None:
    """Two looks are planned, the last at 24 prompts; with 24 there is nothing to ask for."""
    runner = _Runner(fails=1)
    more, every = _gathered(runner, _run(24, 14), 10_000)
    assert (runner.asked, more.answers, more.ended, len(every)) == (0, 0, None, 38)


def test_answers_are_added_until_24_prompts_fail() -> None:
    """As many as the observed rate suggests, in rounds."""
    more, every = _gathered(_Runner(fails=2), _run(8, 8), 10_000)
    assert sum(g.verdict.onset is not None for g in every) == 24
    assert (more.ended, more.tokens) == (None, more.answers * _TOKENS)


def test_a_budget_that_ends_first_is_told_with_what_it_gave_and_what_continues() -> None:
    """The rate was better in the run than after it, so the budget ends before the 15th failing prompt."""
    more, _ = _gathered(_Runner(fails=10), _run(8, 8), 2_000)
    assert more.ended == (
        "20 more answers took 2,000 tokens, and the budget is spent; --more-answers 3 continues"
    )


def test_a_budget_that_cannot_suffice_is_not_spent() -> None:
    """Two of 38 fail: 13 more failing prompts are about 247 answers away. Nothing is asked for."""
    runner = _Runner(fails=19)
    more, every = _gathered(runner, _run(2, 36), 11_400)
    assert (runner.asked, len(every)) == (0, 38)
    assert more.ended == (
        "about 247 more answers (24,700 tokens) would be needed, more than the budget of 11,400; "
        "--more-answers 7 allows them"
    )


def test_prompts_that_run_out_are_named() -> None:
    """No option helps then."""
    more, _ = _gathered(_Runner(fails=0, distinct=20), _run(8, 8), 10_000)
    assert (more.ended, more.answers) == ("all 20 prompts are used", 4)


def test_prompts_that_are_too_few_whatever_is_added_are_told_at_once() -> None:
    """With two prompts, --more-answers was named first, and then that all two prompts were used."""
    runner = _Runner(fails=1, distinct=2)
    more, _ = _gathered(runner, _run(2, 36), 100)
    assert more.ended == (
        "the run has only 2 prompts in all: measure again with more (about 285 if as large a share fails)"
    )
    assert runner.asked == 0
    assert "--more-answers" not in more.ended
