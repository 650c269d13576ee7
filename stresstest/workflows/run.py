"""`run`: climb, certify, judge, store. A short story told in calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from stresstest import __version__, clock
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, InterruptedEarlyError, UsageError
from stresstest.execution.driver import drive
from stresstest.execution.events import Event
from stresstest.ladder import Certify, Climb, Done, LadderSetup, next_step, worst_case
from stresstest.model import (
    EndpointProfile,
    Generation,
    Phase,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
    ServerSample,
)
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.telemetry.gpus import GpuWatch
from stresstest.telemetry.sampler import MetricsSampler, metrics_url
from stresstest.workflows.conclude import conclude, conclude_again, find_run, save_result
from stresstest.workflows.setting import (
    Prompts,
    WorkFactory,
    ask_endpoint,
    horizon_for,
    ladder_setup,
    load_source,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a campaign ended: its result, and the error that cut it short, if one did."""

    result: RunResult
    interrupted: bool = False
    error: EndpointError | None = None


async def run_campaign(
    settings: RunSettings,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Ending:
    """Measure one subject from the first rung to the certified threshold.

    Raises UsageError or EndpointError when nothing could be started; once a run exists, trouble with
    the endpoint is returned in the `Ending` beside what was measured.
    """
    prompts = load_source(settings)
    for note in prompts.notes:
        progress.note(note)
    async with Endpoint(settings.base_url, api_key=api_key, model=settings.subject.model or None) as endpoint:
        profile, settings = await _unless(stop, ask_endpoint(endpoint, settings))
        horizon = await _unless(stop, horizon_for(endpoint, profile, prompts, settings))
        gpus = await _watch_gpus(settings, stop)
        profile = replace(profile, missing=(*profile.missing, *gpus.missing))
        run = Run(
            id=clock.new_id(),
            settings=replace(settings, horizon=horizon),
            profile=profile,
            status=RunStatus.RUNNING,
            created=clock.now(),
            tool_version=__version__,
            prompts_digest=prompts.digest(),
        )
        store.create_run(run)
        return await _Campaign(run, store, progress, endpoint, prompts, gpus, api_key, stop).play()


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
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> Ending:
    """Go on with a stored run: what finished is not repeated; a run that is done is only concluded again.

    Budgets and GPUs, when given, replace the stored ones. Raises UsageError when the served model or the
    prompts are no longer those that the run began with.
    """
    run = find_run(store, run_id)
    settings = replace(
        run.settings,
        base_url=base_url or run.settings.base_url,
        budget_tokens=budget_tokens or run.settings.budget_tokens,
        budget_seconds=budget_seconds or run.settings.budget_seconds,
        gpus=gpus or run.settings.gpus,
        gpu_exporter=gpu_exporter or run.settings.gpu_exporter,
    )
    if run.status is RunStatus.DONE:
        progress.note(f"run {run.id} is already complete; nothing is sent")
        return Ending(conclude_again(store, run.id))
    prompts = load_source(settings)
    refuse_changed_prompts(
        run,
        prompts,
        "going on would mix two samples",
        hint="Restore the task or prompts file, or start a new run.",
    )
    async with Endpoint(settings.base_url, api_key=api_key, model=settings.subject.model) as endpoint:
        profile, _ = await _unless(stop, ask_endpoint(endpoint, settings))
        refuse_another_model(run, profile)
        run = replace(run, settings=_with_declared_budget(store, run, settings))
        watch = await _watch_gpus(settings, stop)
        store.update_run(run.id, status=RunStatus.RUNNING, ended=None, note=None, settings=run.settings)
        return await _Campaign(run, store, progress, endpoint, prompts, watch, api_key, stop).play()


class _Campaign:
    """One session of a run against an open endpoint."""

    def __init__(
        self,
        run: Run,
        store: Store,
        progress: Progress,
        endpoint: Endpoint,
        prompts: Prompts,
        gpus: GpuWatch,
        api_key: str | None,
        stop: asyncio.Event | None,
    ) -> None:
        self.run = run
        self.store = store
        self.progress = progress
        self.endpoint = endpoint
        self.prompts = prompts
        self.gpus = gpus
        self.api_key = api_key
        self.stop = stop or asyncio.Event()
        self.setup: LadderSetup = ladder_setup(run.settings, prompts, run.settings.horizon or 0)
        stored = store.generations(run.id)
        # Where nothing was measured at all, the service failed and not the plan: everything is asked again.
        self.done = [] if _all_lost(stored) else stored
        self.samples: list[ServerSample] = store.samples(run.id)
        self.samples_stored = len(self.samples)
        self.gpu_samples_stored = 0
        self.spent = sum(g.output_tokens for g in stored)
        self.session_started = clock.now()
        self.seconds_before = store.wall_seconds(run.id)
        self.over_budget = False
        self.complete = False

    async def play(self) -> Ending:
        settings = self.run.settings
        self.progress.started(self.run.id, settings, self.run.profile)
        self.progress.gpus(self.gpus.samples)
        self.progress.planned(worst_case(self.setup))
        if self.done:
            self.progress.resumed(self.done)
        session = self.store.add_session(self.run.id, self.session_started)
        error: EndpointError | None = None
        try:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(self.gpus.stop)
                await self._watch_metrics(stack)
                await self._climb_and_certify()
        except EndpointError as caught:
            error = caught
        except asyncio.CancelledError:
            # The second Ctrl-C: nothing is waited for any more, but what was measured is still told.
            self.stop.set()
        finally:
            await self._store_samples()
            self.store.end_session(session, clock.now())
        return self._finish(error)

    async def _climb_and_certify(self) -> None:
        works = WorkFactory(self.endpoint, self.run.profile, self.prompts, self.run.settings, {})
        while not self.stop.is_set():
            step = next_step(self.setup, self.done)
            if isinstance(step, Done):
                self.progress.note(step.reason)
                if _all_lost(self.done):
                    raise _nothing_measured(self.done)
                self.complete, self.over_budget = step.complete, not step.complete
                return
            if self._budget_spent():
                return
            self.progress.stage(step)
            await self._stage(step, works)

    async def _stage(self, step: Climb | Certify, works: WorkFactory) -> None:
        generations = drive(
            self.endpoint,
            await works.works(step.jobs),
            concurrency=self.run.settings.concurrency,
            abort=self.run.settings.abort,
            on_event=self._on_event,
            stop=self.stop,
            should_stop=self._budget_spent,
        )
        async for generation in generations:
            await asyncio.to_thread(self.store.add_generation, self.run.id, generation)
            await self._store_samples()
            self.done.append(generation)
            self.spent += generation.output_tokens

    def _on_event(self, event: Event) -> None:
        self.progress.event(event)

    async def _watch_metrics(self, stack: AsyncExitStack) -> None:
        if not self.run.profile.metrics:
            return
        sampler = MetricsSampler(
            metrics_url(self.run.settings.base_url),
            model=self.run.profile.model,
            api_key=self.api_key,
            on_sample=self._on_sample,
        )
        sampler.start()
        stack.push_async_callback(sampler.stop)

    def _on_sample(self, sample: ServerSample) -> None:
        self.samples.append(sample)
        self.progress.sample(sample)

    async def _store_samples(self) -> None:
        """In batches with each generation, so that a killed run loses at most the last few seconds."""
        fresh = self.samples[self.samples_stored :]
        if fresh:
            await asyncio.to_thread(self.store.add_samples, self.run.id, fresh)
            self.samples_stored += len(fresh)
        readings = self.gpus.samples[self.gpu_samples_stored :]
        if readings:
            await asyncio.to_thread(self.store.add_gpu_samples, self.run.id, readings)
            self.gpu_samples_stored += len(readings)

    def _budget_spent(self) -> bool:
        settings = self.run.settings
        seconds = self.seconds_before + clock.now() - self.session_started
        tokens_over = settings.budget_tokens is not None and self.spent >= settings.budget_tokens
        time_over = settings.budget_seconds is not None and seconds >= settings.budget_seconds
        if (tokens_over or time_over) and not self.over_budget:
            self.over_budget = True
            what = f"{self.spent:,} tokens" if tokens_over else f"{seconds:.0f} s"
            self.progress.note(f"the budget is spent ({what}); no further generation is started")
        return self.over_budget

    def _finish(self, error: EndpointError | None) -> Ending:
        status, note = RunStatus.DONE, None
        if error is not None:
            status, note = RunStatus.FAILED, str(error)
        elif not self.complete:
            status = RunStatus.INTERRUPTED
            note = "the budget was spent before the plan was complete" if self.over_budget else "interrupted"
        result = conclude(self.store, self.run.id, status=status)
        if status is RunStatus.DONE:
            # Before the status: a run that is DONE has its threshold, whenever it is killed.
            save_result(self.store, result)
        self.store.update_run(self.run.id, status=status, ended=clock.now(), note=note)
        interrupted = status is RunStatus.INTERRUPTED and not self.over_budget
        return Ending(result, interrupted=interrupted, error=error)


def _all_lost(generations: Sequence[Generation]) -> bool:
    return bool(generations) and all(g.failure is not None for g in generations)


def _nothing_measured(lost: Sequence[Generation]) -> EndpointError:
    """The end of a campaign that got no whole answer; a resume asks for all of them again."""
    last = next((g.failure.message for g in reversed(lost) if g.failure is not None), "unknown")
    return EndpointError(
        f"All {len(lost)} generations were lost to service failures. Last: {last}",
        hint="Look into the server's log. A resume asks for them again.",
    )


async def _watch_gpus(settings: RunSettings, stop: asyncio.Event | None) -> GpuWatch:
    """The endpoint's GPUs, being sampled from now on where that is possible."""
    gpus = GpuWatch(settings.gpus, settings.gpu_exporter, settings.base_url)
    await _unless(stop, gpus.start())
    return gpus


async def _unless(stop: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """`work`'s result; InterruptedEarlyError when a stop is asked for first."""
    if stop is None:
        return await work
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise InterruptedEarlyError("Interrupted before anything was measured.")
        return task.result()
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def _with_declared_budget(store: Store, run: Run, settings: RunSettings) -> RunSettings:
    """A new token budget may change the sample's size only before the certifying sample has begun."""
    begun = any(g.job.phase is Phase.CERTIFY for g in store.generations(run.id, tokens=False))
    return replace(settings, budget_tokens=run.settings.budget_tokens) if begun else settings


def refuse_changed_prompts(run: Run, prompts: Prompts, because: str, *, hint: str) -> None:
    """UsageError when the prompts are no longer those that the run began with."""
    if prompts.digest() != run.prompts_digest:
        raise UsageError(f"The prompts of run {run.id} have changed since it began; {because}.", hint=hint)


def refuse_another_model(run: Run, profile: EndpointProfile) -> None:
    """UsageError when what answers now is not what the run began with."""
    changed = changed_server(run, profile)
    if changed is not None:
        raise UsageError(
            f"Not what run {run.id} began with: {changed}.",
            hint="Start a new run; a mixture of the two would certify neither.",
        )


def changed_server(run: Run, profile: EndpointProfile) -> str | None:
    """What answers otherwise than when the run began, in words; None where nothing does."""
    before, now = run.profile, profile
    for name, old, new in (
        ("model", before.model, now.model),
        ("root", before.root, now.root),
        ("vLLM version", before.version, now.version),
        ("maximum length", before.max_model_len, now.max_model_len),
        ("stresstest version", run.tool_version, __version__),
    ):
        if old != new:
            return f"{name} was {old}, is {new}"
    return None
