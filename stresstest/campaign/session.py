"""One session of a campaign: one stage after the other, each generation stored as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace

from stresstest import clock
from stresstest.campaign.campaign_setup import PreparedCampaign
from stresstest.campaign.conclusion.conclude import conclude, save_result
from stresstest.campaign.execution.driver import drive
from stresstest.campaign.execution.eventloop import run_unless_stopped
from stresstest.campaign.execution.events import (
    AlarmRaised,
    AttemptRetried,
    AttemptUnanswered,
    GenerationEvent,
)
from stresstest.campaign.execution.task_factory import TaskFactory
from stresstest.campaign.execution.under_way import UnderWay
from stresstest.campaign.ladder import CertifyStep, ClimbStep, LadderDone, next_step, worst_case_plan
from stresstest.campaign.progress import Progress
from stresstest.campaign.served_model import ReplacedServerError, same_server
from stresstest.errors import EndpointError, StoreError
from stresstest.model import (
    Generation,
    GenerationRecord,
    Run,
    RunResult,
    RunSettings,
    RunStatus,
    ServerSample,
)
from stresstest.store.repository import Store
from stresstest.telemetry.gpu.watch import GpuWatch
from stresstest.telemetry.prometheus import MetricsSampler, metrics_url


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """How a campaign ended: its result, and the error that cut it short, if one did."""

    result: RunResult
    interrupted: bool = False
    error: EndpointError | None = None


@dataclass
class CampaignSession:
    """One session of a run against an open endpoint.

    done: records of what earlier sessions measured, then of this one too. Only records are kept in memory;
    the tokens of a generation are stored when it ends.
    """

    run: Run
    prepared: PreparedCampaign
    store: Store
    progress: Progress
    gpus: GpuWatch
    api_key: str | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    done: list[GenerationRecord] = field(default_factory=list)
    _unstored_samples: list[ServerSample] = field(default_factory=list, init=False)
    _gpu_samples_stored: int = field(default=0, init=False)
    _over_budget: bool = field(default=False, init=False)
    _complete: bool = field(default=False, init=False)
    _under_way: UnderWay = field(default_factory=UnderWay, init=False)
    _alarms: asyncio.Queue[Generation] = field(default_factory=asyncio.Queue, init=False)

    def __post_init__(self) -> None:
        self._interrupted = self.store.interrupted(self.run.id)
        self._spent = sum(g.output_tokens for g in self.done)
        if _is_all_lost(self.done):
            # If every answer was lost, the service failed: everything is requested again.
            self.done = []
        self._began = clock.now()
        self._seconds_before = self.store.wall_seconds(self.run.id)

    async def run_to_end(self) -> CampaignResult:
        """Measure until the ladder is done, the budget is spent or a stop is requested; then conclude.

        Raises StoreError when the store cannot be written, for example to a full disk.
        """
        try:
            return await self._measure()
        except StoreError as lost:
            raise self._leave_failed(lost) from None

    async def _measure(self) -> CampaignResult:
        self.progress.started(self.run.id, self.run.settings, self.run.profile)
        self.progress.gpus(self.gpus.samples)
        self.progress.planned(worst_case_plan(self.prepared.ladder))
        if self.done:
            self.progress.resumed(self.done, self.store.loader(self.run.id))
        session = self.store.add_session(self.run.id, self._began)
        error: EndpointError | None = None
        try:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(self.gpus.stop)
                alarms = asyncio.create_task(self._store_alarms())
                stack.callback(alarms.cancel)
                stack.push_async_callback(self._alarms.join)
                await self._watch_metrics(stack)
                await self._climb_and_certify()
        except EndpointError as caught:
            error = caught
            if isinstance(caught, ReplacedServerError):
                # No resume goes on with it, whichever of the two answers then.
                self.store.update_run(self.run.id, profile=caught.profile)
        except asyncio.CancelledError:
            # The second Ctrl-C: generations in flight are dropped, what was measured is still reported.
            self.stop.set()
        finally:
            await self._store_samples()
            self.store.end_session(session, clock.now())
        return self._finish(error)

    async def _climb_and_certify(self) -> None:
        tasks = self.prepared.task_factory()
        while not self.stop.is_set():
            step = next_step(self.prepared.ladder, self.done)
            if isinstance(step, LadderDone):
                self.progress.note(step.reason)
                if _is_all_lost(self.done):
                    raise _no_answer_error(self.done, self.prepared.endpoint.likely_death)
                self._complete, self._over_budget = step.complete, not step.complete
                return
            if self._budget_spent():
                return
            self.progress.stage(step)
            async with same_server(self.prepared.endpoint, self.run.profile, self.stop):
                await self._run_stage(step, tasks)

    async def _run_stage(self, step: ClimbStep | CertifyStep, tasks: TaskFactory) -> None:
        generations = drive(
            self.prepared.endpoint,
            await tasks.create_tasks(step.jobs),
            concurrency=self.run.settings.concurrency,
            abort=self.run.settings.abort,
            keep_failed=True,
            on_event=self._on_event,
            stop=self.stop,
            should_stop=self._budget_spent,
        )
        async with aclosing(generations):
            async for generation in generations:
                await self._alarms.join()  # what is kept of an answer would replace it
                generation = _after_interruption(self._interrupted.get(generation.key), generation)
                await asyncio.to_thread(self.store.add_generation, self.run.id, generation)
                await self._store_samples()
                self.done.append(generation.to_record())
                self._spent += generation.output_tokens

    async def _store_alarms(self) -> None:
        """Store each answer when its failure is certain, or an attempt at it has come to nothing: a process
        that is killed loses what is under way, a resume asks for it again, and where seeds are ignored
        another answer would come in its place."""
        while True:
            failed = await self._alarms.get()
            with suppress(StoreError):  # a disk that is full stays so until the answer ends
                await asyncio.to_thread(self.store.add_generation, self.run.id, failed)
            self._alarms.task_done()

    def _on_event(self, event: GenerationEvent) -> None:
        self._under_way.follow(event)
        known = (
            event.generation if isinstance(event, AlarmRaised | AttemptRetried | AttemptUnanswered) else None
        )
        # What an earlier process knew of an answer is not replaced by less.
        is_less = not isinstance(event, AlarmRaised) and known is not None and known.key in self._interrupted
        if known is not None and not is_less:
            self._alarms.put_nowait(known)
        self.progress.event(event)

    async def _watch_metrics(self, stack: AsyncExitStack) -> None:
        if not self.run.profile.metrics:
            return
        sampler = MetricsSampler(
            metrics_url(self.run.settings.base_url),
            model=self.run.profile.model,
            api_key=self.api_key,
            on_sample=self._on_sample,
            hide=self.prepared.endpoint.address.hide_secrets,
        )
        sampler.start()
        stack.push_async_callback(sampler.stop)

    def _on_sample(self, sample: ServerSample) -> None:
        self._unstored_samples.append(sample)
        self.progress.sample(sample)

    async def _store_samples(self) -> None:
        """Store new samples with each generation, so that a killed run loses only the last few seconds."""
        fresh, self._unstored_samples = self._unstored_samples, []
        if fresh:
            await asyncio.to_thread(self.store.add_samples, self.run.id, fresh)
        readings = self.gpus.samples[self._gpu_samples_stored :]
        if readings:
            await asyncio.to_thread(self.store.add_gpu_samples, self.run.id, readings)
            self._gpu_samples_stored += len(readings)

    def _budget_spent(self) -> bool:
        settings = self.run.settings
        seconds = self._seconds_before + clock.now() - self._began
        tokens_over = settings.budget_tokens is not None and self._spent >= settings.budget_tokens
        time_over = settings.budget_seconds is not None and seconds >= settings.budget_seconds
        if (tokens_over or time_over) and not self._over_budget:
            self._over_budget = True
            what = f"{self._spent:,} tokens" if tokens_over else f"{seconds:.0f} s"
            self.progress.note(f"the budget is spent ({what}); no more answers are requested")
        return self._over_budget

    def _finish(self, error: EndpointError | None) -> CampaignResult:
        status, note = RunStatus.DONE, None
        if error is not None:
            status, note = RunStatus.FAILED, str(error)
        elif not self._complete:
            status = RunStatus.INTERRUPTED
            note = "the budget was spent before the plan was complete" if self._over_budget else "interrupted"
        result = conclude(self.store, self.run.id, status=status)
        if status is RunStatus.DONE:
            # Before the status: a run that is DONE has its threshold, whenever it is killed.
            save_result(self.store, result)
        self.store.update_run(self.run.id, status=status, ended=clock.now(), note=note)
        interrupted = status is RunStatus.INTERRUPTED and not self._over_budget
        dropped = self._under_way.dropped() if interrupted else None
        if dropped is not None:
            result = replace(result, notes=(*result.notes, dropped))
        return CampaignResult(result, interrupted=interrupted, error=error)

    def _leave_failed(self, lost: StoreError) -> StoreError:
        """The error to end with. The run is marked as failed, if the store still takes that much."""
        state = "is marked as failed"
        try:
            self.store.update_run(
                self.run.id, status=RunStatus.FAILED, ended=clock.now(), note="the store could not be written"
            )
        except StoreError:
            state = "still has the status running, because the status could not be written either"
        hint = f"{lost.hint or ''} Run {self.run.id} {state}; --resume continues it."
        return StoreError(str(lost), hint=hint.lstrip())


async def watch_gpus(settings: RunSettings, stop: asyncio.Event | None) -> GpuWatch:
    """Start sampling the GPUs of the endpoint where that is possible."""
    gpus = GpuWatch(settings.gpus, settings.gpu_exporter, settings.base_url)
    await run_unless_stopped(stop, gpus.start())
    return gpus


def _after_interruption(earlier: GenerationRecord | None, generation: Generation) -> Generation:
    """The generation with what an earlier process knew of it: that it had failed, or attempts of which
    nothing came."""
    if earlier is None:
        return generation
    if earlier.verdict.degenerate:
        return generation if generation.verdict.degenerate else replace(generation, redrawn=True)
    return replace(
        generation,
        attempts=earlier.attempts + generation.attempts,
        unanswered_s=max(earlier.unanswered_s, generation.unanswered_s),
    )


def _is_all_lost(generations: Sequence[GenerationRecord]) -> bool:
    return bool(generations) and all(g.failure is not None for g in generations)


def _no_answer_error(lost: Sequence[GenerationRecord], cause: str) -> EndpointError:
    """The end of a campaign without a complete answer; a resume requests all of them again. cause: the likely
    one, after a blank, or nothing."""
    last = next((g.failure.message for g in reversed(lost) if g.failure is not None), "unknown")
    return EndpointError(
        f"All {len(lost)} answers were lost to service failures. Last: {last}{cause}",
        hint="Check the server's log. Resuming sends these requests again.",
    )
