"""Go on with an interrupted run where there is one, else begin a new one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stresstest.errors import UsageError
from stresstest.model import Run, RunSettings
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.workflows.run import Ending, resume_campaign, run_campaign


async def go_on_or_begin(
    wanted: RunSettings,
    earlier: Run | None,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None,
    stop: asyncio.Event,
) -> Ending:
    """Measure what is wanted. earlier: an interrupted run with these settings.

    One that cannot go on (another model answers now, the prompts changed) is left as it is. Raises as
    `run_campaign` does.
    """
    if earlier is not None:
        progress.note(f"run {earlier.id}, which an earlier check began, goes on")
        # A budget that was spent must not end it again; a token budget has fixed the sample's size.
        again = replace(earlier.settings, budget_seconds=wanted.budget_seconds)
        store.update_run(earlier.id, settings=again)
        try:
            return await resume_campaign(
                earlier.id,
                store,
                progress,
                base_url=wanted.base_url,
                budget_tokens=wanted.budget_tokens,
                api_key=api_key,
                stop=stop,
            )
        except UsageError as error:
            progress.note(f"it cannot go on, and another is begun: {error}")
    return await run_campaign(wanted, store, progress, api_key=api_key, stop=stop)
