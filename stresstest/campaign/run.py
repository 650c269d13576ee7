"""`run`: a new campaign, from the first rung to the certified threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from stresstest import __version__, clock
from stresstest.campaign.campaign_setup import PreparedCampaign, prepare_campaign
from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.doubts import load_notes
from stresstest.campaign.session import CampaignResult, CampaignSession, watch_gpus
from stresstest.model import Run, RunSettings, RunStatus
from stresstest.store.repository import Store
from stresstest.telemetry.gpu.watch import GpuWatch


async def run_campaign(
    settings: RunSettings,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
    created: Callable[[Run], None] | None = None,
) -> CampaignResult:
    """Measure one subject from the first rung to the certified threshold.

    created: called with the run once it is stored, before its first request. Raises UsageError or
    EndpointError when nothing could be started; once a run exists, trouble with the endpoint is returned in
    the `CampaignResult` beside what was measured.
    """
    async with prepare_campaign(settings, on_note=progress.note, api_key=api_key, stop=stop) as prepared:
        for note in load_notes(settings):
            progress.note(note)
        gpus = await watch_gpus(prepared.settings, stop)
        run = _new_run(prepared, gpus)
        with store.claim(run.id):
            store.create_run(run)
            if created is not None:
                created(run)
            session = CampaignSession(run, prepared, store, progress, gpus, api_key, stop or asyncio.Event())
            return await session.run_to_end()


def _new_run(prepared: PreparedCampaign, gpus: GpuWatch) -> Run:
    profile = prepared.profile
    return Run(
        id=clock.new_id(),
        settings=prepared.settings,
        profile=replace(profile, missing=(*profile.missing, *gpus.missing)),
        status=RunStatus.RUNNING,
        created=clock.now(),
        tool_version=__version__,
        prompts_digest=prepared.prompts.digest(),
    )
