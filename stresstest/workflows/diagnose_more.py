"""More failing prompts for a diagnosis, where the run has fewer than its tests need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import MOST_FORKS, failing
from stresstest.execution.driver import Work
from stresstest.model import Generation, Job, Phase
from stresstest.workflows.diagnose_bench import Bench

ARM = "more-failing"


async def more_failing(bench: Bench, generations: Sequence[Generation], most: int) -> list[Generation]:
    """The run's generations and up to `most` further ones, asked as its certifying sample was.

    They end once enough prompts fail, or the task's prompts are used up. They serve as forks only: the run's
    threshold is not touched.
    """
    every = list(generations)
    jobs = _jobs(bench, generations, most)

    async def make(job: Job) -> Work:
        prompt = bench.prompts.get(job.prompt_index, job.units)
        return await bench.continued(job, prompt, bench.run.settings.decoding, (), job.max_tokens)

    def enough(found: Sequence[Generation]) -> bool:
        return len(failing([*every, *found])) >= MOST_FORKS

    wanted = {job.key: partial(make, job) for job in jobs}
    found = await bench.once("more answers that may fail", wanted, enough=enough)
    bench.progress.note(f"{len(found)} more answers: {len(failing([*every, *found]))} prompts fail now")
    return [*every, *found]


def missing(generations: Sequence[Generation], needed: int) -> int:
    """About so many more answers give `needed` failing prompts, at the rate at which they have failed."""
    told = [g for g in generations if g.job.phase is Phase.CERTIFY and not lost(g)]
    failed = failing(told)
    if not failed:
        return 0
    lacking = needed - len(failing(generations))
    return max(0, -(-lacking * len(told) // len(failed)))


def _jobs(bench: Bench, generations: Sequence[Generation], most: int) -> list[Job]:
    """Jobs behind those of the certifying sample, each with a prompt that it has not used."""
    certifying = [g.job for g in generations if g.job.phase is Phase.CERTIFY]
    if not certifying:
        return []
    last = max(certifying, key=lambda job: (job.rung, job.index))
    used = {job.prompt_index for job in certifying}
    prompts = [i for i in range(bench.prompts.distinct) if i not in used][:most]
    jobs = []
    for number, prompt in enumerate(prompts, last.index + 1):
        seed = bench.seed(f"{ARM}/{last.rung}/{number}")
        at = replace(last, phase=Phase.DIAGNOSE, arm=ARM, index=number, prompt_index=prompt, seed=seed)
        jobs.append(at)
    return jobs
