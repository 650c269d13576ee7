"""Measures on where fewer prompts fail than the tests of a diagnosis plan for, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from stresstest.campaign.execution.driver import GenerationTask
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.enough import more_prompts_words
from stresstest.diagnosis.intervention.forks import MAX_FORKS, select_failing
from stresstest.features.diagnose.intervention_runner import InterventionRunner
from stresstest.model import GenerationRecord, Job, Phase

MORE_FAILING_ARM = "more-failing"


@dataclass(slots=True)
class MoreAnswers:
    """Answers requested beyond the run's, so that enough prompts fail. They serve as forks only: the run's
    threshold does not change.

    budget: output tokens after which no further one is requested. run_tokens: of the run, the unit of
    `--more-answers`; before: tokens of the budget that earlier links have spent. answers, tokens: so far.
    ended: why they ended before `MAX_FORKS` prompts failed, None otherwise.
    """

    runner: InterventionRunner
    budget: int
    run_tokens: int
    before: int = 0
    answers: int = 0
    tokens: int = 0
    ended: str | None = None

    async def gather(self, generations: Sequence[GenerationRecord], needed: int) -> list[GenerationRecord]:
        """The run's generations and as many further ones as it takes, requested like its certifying sample.

        They are requested before the first intervention, until `MAX_FORKS` prompts fail, which is the last
        look that the tests plan. needed: the fewest failing prompts with which the tests can decide. Nothing
        is requested if at the observed rate the budget would not suffice for them.
        """
        every, jobs = list(generations), _extra_jobs(self.runner, generations)
        stored = [known for job in jobs if (known := self.runner.stored.get(job.key)) and not is_lost(known)]
        self._count(stored, sum(g.output_tokens for g in stored))
        lacking = needed - len(select_failing(every))
        prompts = self.runner.prompts.distinct
        if prompts < needed:
            self.ended = more_prompts_words(prompts, needed, _sampled(every))
            return [*every, *stored]
        if self._tokens_for(every, lacking) > self.budget:
            self.ended = self._too_dear(every, lacking)
            return [*every, *stored]
        every += stored
        jobs = [job for job in jobs if job.key not in {g.key for g in stored}]
        while len(select_failing(every)) < MAX_FORKS and self.ended is None:
            if not jobs:
                self.ended = f"all {self.runner.prompts.distinct} prompts are used"
            elif self.tokens >= self.budget:
                self.ended = self._spent(every, needed - len(select_failing(every)))
            else:
                expected = _expected_answers(every, MAX_FORKS - len(select_failing(every)))
                every += await self._request(every, jobs[:expected])
                jobs = jobs[expected:]
        return every

    async def _request(
        self, every: Sequence[GenerationRecord], jobs: Sequence[Job]
    ) -> list[GenerationRecord]:
        async def make(job: Job) -> GenerationTask:
            prompt = self.runner.prompts.prompt_at(job.prompt_index, job.units)
            return await self.runner.continued_task(
                job, prompt, self.runner.run.settings.decoding, (), job.max_tokens
            )

        def enough(found: Sequence[GenerationRecord]) -> bool:
            return len(select_failing([*every, *found])) >= MAX_FORKS

        spent = self.runner.spent
        try:
            found = await self.runner.run_missing(
                f"more answers: {len(select_failing(every))} of {MAX_FORKS} planned prompts fail; "
                f"{self.tokens:,} of at most {self.budget:,} tokens are spent, {len(jobs)} answers requested",
                {job.key: partial(make, job) for job in jobs},
                enough=enough,
                keep_tokens=False,
                limit=self.budget - self.tokens,
            )
        finally:
            self._count((), self.runner.spent - spent)
        self._count(found, 0)
        return found

    def _count(self, answers: Sequence[GenerationRecord], tokens: int) -> None:
        self.answers += len(answers)
        self.tokens += tokens

    def _tokens_for(self, every: Sequence[GenerationRecord], lacking: int) -> int:
        """Estimated output tokens until `lacking` more prompts fail."""
        certifying = [g.output_tokens for g in every if _is_sampled(g)]
        return _expected_answers(every, lacking) * sum(certifying) // max(1, len(certifying))

    def _too_dear(self, every: Sequence[GenerationRecord], lacking: int) -> str:
        if not self.budget:
            return f"no answers were added; {self._option(every, lacking)} would allow it"
        return (
            f"about {_expected_answers(every, lacking):,} more answers "
            f"({self._tokens_for(every, lacking):,} tokens) would be needed, more than the budget of "
            f"{self.budget:,}; {self._option(every, lacking)} allows them"
        )

    def _spent(self, every: Sequence[GenerationRecord], lacking: int) -> str:
        return (
            f"{self.answers} more answers took {self.tokens:,} tokens, and the budget is spent; "
            f"{self._option(every, lacking)} continues"
        )

    def _option(self, every: Sequence[GenerationRecord], lacking: int) -> str:
        total = self.before + self.tokens + self._tokens_for(every, max(1, lacking))
        return f"--more-answers {ceil(total / max(1, self.run_tokens))}"


def _expected_answers(generations: Sequence[GenerationRecord], lacking: int) -> int:
    """Estimated number of further answers until `lacking` more prompts fail, at the observed rate."""
    sampled = _sampled(generations)
    return max(0, ceil(lacking * len(sampled) / max(1, len(select_failing(sampled)))))


def _sampled(generations: Sequence[GenerationRecord]) -> list[GenerationRecord]:
    return [g for g in generations if _is_sampled(g)]


def _is_sampled(generation: GenerationRecord) -> bool:
    return generation.job.phase is not Phase.CLIMB and not is_lost(generation)


def _extra_jobs(runner: InterventionRunner, generations: Sequence[GenerationRecord]) -> list[Job]:
    """Jobs that extend the certifying sample, each with a prompt not used before."""
    certifying = [g.job for g in generations if g.job.phase is Phase.CERTIFY]
    if not certifying:
        return []
    last = max(certifying, key=lambda job: (job.rung, job.index))
    used = {job.prompt_index for job in certifying}
    prompts = [i for i in range(runner.prompts.distinct) if i not in used]
    jobs = []
    for number, prompt in enumerate(prompts, last.index + 1):
        seed = runner.job_seed(f"{MORE_FAILING_ARM}/{last.rung}/{number}")
        job = replace(last, phase=Phase.DIAGNOSE, arm=MORE_FAILING_ARM, seed=seed)
        jobs.append(replace(job, index=number, prompt_index=prompt))
    return jobs
