"""Preparing a campaign: one step from the user's settings to everything that a campaign needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from stresstest.campaign.execution.eventloop import run_unless_stopped
from stresstest.campaign.execution.task_factory import TaskFactory
from stresstest.campaign.horizon import DEFAULT_HORIZON, horizon_for
from stresstest.campaign.ladder import LadderSetup
from stresstest.campaign.prompt_source import PromptSource, load_prompt_source
from stresstest.campaign.served_model import refuse_changed_prompts, refuse_changed_server
from stresstest.endpoint.capabilities import profile_endpoint, read_generation_config
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.parameters import missing_reading, unread_parameters
from stresstest.endpoint.probe import refuse_cache
from stresstest.model import RIGORS, EndpointProfile, Run, RunSettings


@dataclass(frozen=True, slots=True)
class PreparedCampaign:
    """Everything that is settled before the first generation is requested.

    settings: the user's, with the served model's name and the horizon filled in. profile: of the endpoint; of
    the run, where a stored run is continued. endpoint: open as long as `prepare_campaign`'s context lasts.
    """

    settings: RunSettings
    profile: EndpointProfile
    prompts: PromptSource
    ladder: LadderSetup
    endpoint: Endpoint

    def task_factory(self) -> TaskFactory:
        """Turns jobs into requests to this endpoint."""
        return TaskFactory(self.endpoint, self.profile, self.prompts, self.settings)


@dataclass(frozen=True, slots=True)
class ContinuedRun:
    """A stored run to measure more of, under unchanged conditions.

    consequence, hint: of the error that is raised when its prompts have changed.
    """

    run: Run
    consequence: str = "continuing would mix two samples"
    hint: str = "Restore the task or prompts file, or start a new run."


@asynccontextmanager
async def prepare_campaign(
    settings: RunSettings,
    *,
    continued: ContinuedRun | None = None,
    on_note: Callable[[str], None] | None = None,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncIterator[PreparedCampaign]:
    """Load the prompts, open and profile the endpoint, and fix horizon and ladder.

    continued: the run that `settings` belong to; it keeps its horizon. on_note: receives remarks on the
    prompts and the horizon. stop: ends the preparation early with InterruptedEarlyError.
    Raises UsageError for an unknown task or language, a bad prompts file, a context without room for an
    answer, or when prompts or server are not those of the continued run; EndpointError when the endpoint is
    unusable.
    """
    prompts = load_prompt_source(settings)
    if on_note is not None:
        for note in prompts.notes:
            on_note(note)
    if continued is not None:
        refuse_changed_prompts(
            continued.run, prompts.digest(), consequence=continued.consequence, hint=continued.hint
        )
    async with Endpoint(
        settings.base_url,
        api_key=api_key,
        model=settings.subject.model or None,
        stall_timeout=settings.stall_timeout,
        send_seed=settings.send_seed,
        logprobs=settings.logprobs,
    ) as endpoint:
        profile = await run_unless_stopped(stop, _fetch_profile(endpoint, settings.subject.model or None))
        if continued is None:
            await run_unless_stopped(stop, refuse_cache(endpoint, profile, settings.decoding))
            settings = replace(settings, subject=replace(settings.subject, model=profile.model))
            horizon = await run_unless_stopped(stop, horizon_for(endpoint, profile, prompts, settings))
            if on_note is not None and settings.horizon and settings.horizon > horizon:
                on_note(
                    f"--horizon {settings.horizon:,} is lowered to {horizon:,}: the context of "
                    f"{profile.model} ({profile.max_model_len or 0:,} tokens) has no room for more"
                )
            settings = replace(settings, horizon=horizon)
            asked = unread_parameters(endpoint, profile, settings.decoding.sent())
            unread = await run_unless_stopped(stop, asked)
            profile = replace(profile, missing=(*profile.missing, *missing_reading(unread)))
        else:
            refuse_changed_server(continued.run, profile)
            profile = continued.run.profile
        yield PreparedCampaign(settings, profile, prompts, _ladder_setup(settings, prompts), endpoint)


def ladder_without_server(settings: RunSettings) -> LadderSetup:
    """The ladder as far as it is known before the endpoint is profiled: the context's room is not considered.

    Raises UsageError for an unknown task or language, or a bad prompts file.
    """
    horizon = settings.horizon or DEFAULT_HORIZON
    return _ladder_setup(replace(settings, horizon=horizon), load_prompt_source(settings))


async def _fetch_profile(endpoint: Endpoint, model: str | None) -> EndpointProfile:
    """The endpoint's profile; with its sampling defaults, if the model's folder is on this machine."""
    found = await profile_endpoint(endpoint, model)
    return replace(found, defaults=read_generation_config(found.root) or {})


def _ladder_setup(settings: RunSettings, prompts: PromptSource) -> LadderSetup:
    rigor = RIGORS[settings.rigor]
    if settings.parent is not None:
        rigor = replace(rigor, planned=settings.smallest_sample)
    return LadderSetup(
        rigor=rigor,
        horizon=settings.horizon or 0,
        tokens_per_unit=prompts.tokens_per_unit,
        distinct_prompts=prompts.distinct,
        prompts_fixed=not prompts.asks_units,
        tighten=settings.tighten,
        seed=settings.seed,
        abort=settings.abort,
        budget_tokens=settings.budget_tokens,
    )
