"""The candidate of a check, measured now: the baseline's campaign with another model, endpoint and seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stresstest.campaign.campaign_setup import ladder_without_server
from stresstest.campaign.ladder import ALARM_HEADROOM, certified_length
from stresstest.campaign.progress import Progress
from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.campaign.provenance.age import RESUME_WINDOW_S
from stresstest.campaign.resume import resume_or_start
from stresstest.campaign.served_model import refuse_changed_prompts
from stresstest.campaign.session import CampaignResult
from stresstest.features.check.differences import refuse_other_decoding
from stresstest.features.check.settings import CheckSettings
from stresstest.features.check.sides.campaign_match import find_matching_run
from stresstest.features.check.sides.sample import CheckSample, sample_of_run
from stresstest.model import Run, RunSettings
from stresstest.model.address import clean_url
from stresstest.store.repository import Store

SECOND_LOOK_SEED_OFFSET = 7919
"""Added to the candidate's seed for --extend: other requests, and an interrupted check finds them again."""


class CampaignInterruptedError(Exception):
    """The candidate's campaign did not come to its end."""

    def __init__(self, ending: CampaignResult) -> None:
        super().__init__(ending.result.run.id)
        self.ending = ending


@dataclass
class CandidateCampaign:
    """Measures a candidate, or resumes what an interrupted check has begun.

    created: called with each run that is begun. tokens, seconds: spent so far, by all of its runs.
    """

    settings: CheckSettings
    store: Store
    progress: Progress
    api_key: str | None
    stop: asyncio.Event
    created: Callable[[Run], None]
    tokens: int = 0
    seconds: float = 0.0

    async def first_look(self, baseline: Run, model: str) -> CheckSample:
        """The candidate's sample. UsageError if its prompts or decoding would not be the baseline's."""
        wanted = self.settings_for(baseline, model)
        refuse_other_decoding(baseline.settings, wanted, self.settings.allow)
        refuse_other_prompts(baseline)
        if "horizon" not in self.settings.changed:
            wanted = replace(wanted, horizon=self._baseline_length(baseline))
        return await self._measure(wanted)

    def earlier_second_look(self, first: Run) -> Run | None:
        """The finished run of an earlier check's second look, if it was made right after this first one."""
        found = find_matching_run(self.store, self._second_look_settings(first), done=True)
        since = first.ended or first.created
        if found is None or not first.created <= found.created <= since + RESUME_WINDOW_S:
            return None
        return found

    async def second_look(self, first: Run) -> CheckSample:
        """As many answers again, to other requests."""
        return await self._measure(self._second_look_settings(first))

    def settings_for(self, baseline: Run, model: str) -> RunSettings:
        """The baseline's, with the candidate's model, endpoint and seed."""
        settings = baseline.settings
        reset: dict[str, Any] = {
            "seed": settings.seed + 1,
            "parent": None,
            "tighten": False,
            "budget_tokens": None,
            "budget_seconds": None,
        }
        return replace(
            settings,
            subject=replace(settings.subject, model=model),
            base_url=self.settings.base_url or settings.base_url,
            decoding=replace(settings.decoding, **self.settings.sampling),
            **{**reset, **self.settings.changed},
        )

    def _second_look_settings(self, first: Run) -> RunSettings:
        return replace(
            first.settings,
            base_url=self.settings.base_url or first.settings.base_url,
            seed=first.settings.seed + SECOND_LOOK_SEED_OFFSET,
        )

    def _baseline_length(self, baseline: Run) -> int | None:
        """Output tokens that the baseline's sample was asked for; at least its T and room for an alarm.

        A candidate that fails nowhere would else climb to the end of its context, and nothing past T decides.
        """
        ladder = ladder_without_server(baseline.settings)
        asked = certified_length(ladder, [g.to_record() for g in self.store.generations(baseline.id)])
        if asked is None:
            return baseline.settings.horizon
        saved = next(row.threshold for row in self.store.runs() if row.id == baseline.id)
        reach = saved.tokens if saved is not None and saved.tokens is not None else 0
        return min(ladder.horizon, max(asked, reach + ALARM_HEADROOM))

    async def _measure(self, wanted: RunSettings) -> CheckSample:
        ending = await self._campaign(wanted)
        self.tokens += ending.result.tokens_spent
        self.seconds += ending.result.seconds
        if ending.error is not None or ending.interrupted:
            raise CampaignInterruptedError(ending)
        return sample_of_run(self.store, ending.result.run.id, measured_now=True)

    async def _campaign(self, wanted: RunSettings) -> CampaignResult:
        earlier = find_matching_run(self.store, wanted, done=False)
        if earlier is None:
            what = wanted.subject.model or "the model served there"
            length = f", with up to {wanted.horizon:,} tokens an answer" if wanted.horizon else ""
            self.progress.note(f"measuring {what} now at {clean_url(wanted.base_url)}{length} (--horizon)")
        return await resume_or_start(
            wanted,
            earlier,
            self.store,
            self.progress,
            api_key=self.api_key,
            stop=self.stop,
            created=self.created,
        )


def refuse_other_prompts(run: Run) -> None:
    """UsageError before prompts are sent that are not the run's: the answers could not be compared.

    A store may have come with somebody else's folder: what its runs name as their prompts is sent only if
    whoever made the store knew the text.
    """
    refuse_changed_prompts(
        run,
        load_prompt_source(run.settings).digest(),
        consequence="answers to others could not be compared",
        hint="Restore the task or prompts file, or measure a new baseline.",
    )
