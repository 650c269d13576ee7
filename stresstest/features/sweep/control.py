"""Asks prompts of the first cell again after the last one: are its failures still there?"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from stresstest.campaign.campaign_setup import PreparedCampaign, prepare_campaign
from stresstest.campaign.execution.driver import drive
from stresstest.campaign.ladder import derive_seed
from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.foreign_answers import ForeignAnswersError, refuse_foreign
from stresstest.campaign.served_model import ReplacedServerError, same_server
from stresstest.diagnosis.answers import still_fails
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.errors import InterruptedEarlyError
from stresstest.model import GenerationRecord, Job, Phase, RunSettings
from stresstest.model.result import certifying_sample
from stresstest.model.sweep import SWEEP_CONTROL, SweepCell, SweepControl
from stresstest.store.repository import Store

_FIRST_LOOK = 8


async def run_control(
    cells: Sequence[SweepCell],
    working: Sequence[SweepCell],
    settings: RunSettings,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None,
    stop: asyncio.Event,
) -> SweepControl:
    """Repeat eight answers of the first cell's certifying sample, and the others if these do not decide.

    working: the cells that are said to keep its failure away. settings: of the first cell. Answers are stored
    beside its run and not requested again for the same cells. Raises EndpointError, and InterruptedEarlyError
    after a stop.
    """
    run_id = cells[0].run_id
    jobs = _jobs(store, cells, settings.seed)
    found = {g.key: g for g in store.arm_records(run_id) if not is_lost(g)}
    with store.claim(run_id):
        async with prepare_campaign(settings, api_key=api_key) as prepared:
            for asked in (jobs[:_FIRST_LOOK], jobs):
                missing = [job for job in asked if job.key not in found]
                if missing:
                    progress.measuring(
                        f"control: {len(missing)} prompts of the first cell again", len(missing)
                    )
                    answers = await _request(prepared, run_id, missing, store, progress, stop)
                    found |= {g.key: g for g in answers}
                answered = [found[job.key] for job in asked if job.key in found]
                control = _control(answered, cells[0], working)
                if control.confirms:
                    break
    return control


def _jobs(store: Store, cells: Sequence[SweepCell], seed: int) -> list[Job]:
    """The jobs of the first cell's sample, under a name that belongs to these cells."""
    name = sha256(" ".join(sorted(each.run_id for each in cells)).encode()).hexdigest()[:12]
    sample = [g.job for g in certifying_sample(store.records(cells[0].run_id)) if not is_lost(g)]
    return [
        replace(
            job,
            phase=Phase.DIAGNOSE,
            arm=f"{SWEEP_CONTROL}-{name}",
            seed=derive_seed(f"{seed}/{SWEEP_CONTROL}/{job.key}"),
        )
        for job in sample
    ]


async def _request(
    prepared: PreparedCampaign,
    run_id: str,
    jobs: Sequence[Job],
    store: Store,
    progress: Progress,
    stop: asyncio.Event,
) -> list[GenerationRecord]:
    tasks = await prepared.task_factory().create_tasks(jobs)
    found: list[GenerationRecord] = []
    try:
        async with same_server(prepared.endpoint, prepared.profile, stop):
            async for generation in drive(
                prepared.endpoint,
                tasks,
                concurrency=prepared.settings.concurrency,
                abort=prepared.settings.abort,
                keep_failed=True,
                on_event=progress.event,
                stop=stop,
            ):
                await asyncio.to_thread(store.add_generation, run_id, generation)
                found.append(generation.to_record())
        refuse_foreign(found, store.records(run_id), prepared.profile.clock)
    except (ReplacedServerError, ForeignAnswersError):
        await asyncio.to_thread(store.remove_generations, run_id, [g.key for g in found])
        raise
    if stop.is_set():
        raise InterruptedEarlyError("The sweep was interrupted; the results so far are kept.")
    return [g for g in found if not is_lost(g)]


def _control(
    answers: Sequence[GenerationRecord], first: SweepCell, working: Sequence[SweepCell]
) -> SweepControl:
    kinds = Counter(str(g.verdict.symptom) for g in answers if g.verdict.symptom is not None)
    return SweepControl(
        n=len(answers),
        kinds=dict(kinds.most_common()),
        tokens=sum(g.output_tokens for g in answers),
        confirms=still_fails(kinds, len(answers), first, working),
    )
