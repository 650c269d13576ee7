"""Continuing an interrupted run: what is stored is not measured again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from stresstest.campaign.campaign_setup import ContinuedRun, prepare_campaign
from stresstest.campaign.conclusion.conclude import find_run, update_conclusion
from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.age import is_recent
from stresstest.campaign.provenance.restart import RESTARTED, was_restarted
from stresstest.campaign.run import run_campaign
from stresstest.campaign.session import CampaignResult, CampaignSession, watch_gpus
from stresstest.errors import UsageError
from stresstest.model import GenerationRecord, Phase, Run, RunSettings, RunStatus
from stresstest.model.address import clean_url
from stresstest.store.repository import Store


async def resume_campaign(
    run_id: str,
    store: Store,
    progress: Progress,
    *,
    base_url: str | None = None,
    budget_tokens: int | None = None,
    budget_seconds: float | None = None,
    gpus: str | None = None,
    gpu_exporter: str | None = None,
    stall_timeout: float | None = None,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
    keep_time_budget: bool = True,
) -> CampaignResult:
    """Continue a stored run: what finished is not repeated; a run that is done is only concluded again.

    Budgets, GPUs and the stall timeout, when given, replace the stored ones; without `keep_time_budget`,
    `budget_seconds` does so even if it is None. Raises UsageError when the served model or the prompts are no
    longer those that the run began with, StoreError while another process measures it; the stored run is then
    left as it is.
    """
    run = find_run(store, run_id)
    if run.status is RunStatus.DONE:
        progress.note(f"run {run.id} is already complete; nothing is sent")
        return CampaignResult(update_conclusion(store, run.id))
    with store.claim(run.id):
        run = store.run(run.id)
        done = store.records(run.id)
        settings = replace(
            run.settings,
            base_url=base_url or run.settings.base_url,
            earlier_urls=_earlier_urls(run.settings, base_url, done),
            continued_after=len(done),
            budget_tokens=_declared_budget(run, done, budget_tokens),
            budget_seconds=budget_seconds or (run.settings.budget_seconds if keep_time_budget else None),
            gpus=gpus or run.settings.gpus,
            gpu_exporter=gpu_exporter or run.settings.gpu_exporter,
            stall_timeout=stall_timeout or run.settings.stall_timeout,
        )
        continued = ContinuedRun(run)
        async with prepare_campaign(settings, continued=continued, api_key=api_key, stop=stop) as prepared:
            run = replace(run, settings=prepared.settings)
            watch = await watch_gpus(settings, stop)
            store.update_run(run.id, status=RunStatus.RUNNING, ended=None, note=None, settings=run.settings)
            session = CampaignSession(
                run, prepared, store, progress, watch, api_key, stop or asyncio.Event(), list(done)
            )
            return await session.run_to_end()


async def resume_or_start(
    wanted: RunSettings,
    earlier: Run | None,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None,
    stop: asyncio.Event,
    created: Callable[[Run], None],
) -> CampaignResult:
    """Measure with the `wanted` settings. earlier: an interrupted run with these settings. created: called
    with the run that is measured, before its first request.

    A run that cannot be continued (it is old, another model is served, the server was restarted, the prompts
    changed) is left as it is, and a new one is started. Raises as `run_campaign` does.
    """
    if earlier is not None and not is_recent(earlier):
        progress.note(
            f"run {earlier.id} was begun over twelve hours ago and left unfinished; a new one is started (to "
            f"finish the old one: stresstest run --resume {earlier.id})"
        )
    elif earlier is not None and await was_restarted(store, earlier, wanted.base_url, api_key=api_key):
        progress.note(f"run {earlier.id} was left unfinished; a new one is started, because {RESTARTED}")
    elif earlier is not None:
        progress.note(f"continuing run {earlier.id}, which an earlier check started")
        created(earlier)
        try:
            # A spent time budget must not end it again; a token budget has fixed the sample's size.
            return await resume_campaign(
                earlier.id,
                store,
                progress,
                base_url=wanted.base_url,
                budget_tokens=wanted.budget_tokens,
                budget_seconds=wanted.budget_seconds,
                keep_time_budget=False,
                api_key=api_key,
                stop=stop,
            )
        except UsageError as error:
            progress.note(f"it cannot be continued, so a new one is started: {error}")
    return await run_campaign(wanted, store, progress, api_key=api_key, stop=stop, created=created)


def _earlier_urls(
    settings: RunSettings, base_url: str | None, done: Sequence[GenerationRecord]
) -> tuple[str, ...]:
    """The other addresses that answers of the run came from, now that it goes on at `base_url`."""
    used = [*settings.earlier_urls, *([settings.base_url] if done else [])]
    return tuple(url for url in dict.fromkeys(used) if url != clean_url(base_url or settings.base_url))


def _declared_budget(run: Run, done: Sequence[GenerationRecord], budget_tokens: int | None) -> int | None:
    """A new token budget may change the sample's size only before the certifying sample has begun."""
    begun = any(g.job.phase is Phase.CERTIFY for g in done)
    return run.settings.budget_tokens if begun else budget_tokens or run.settings.budget_tokens
