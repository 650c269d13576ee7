"""Runs the batches of `cost`: the same requests, with loops left running or capped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from stresstest import clock
from stresstest.campaign.campaign_setup import PreparedCampaign
from stresstest.campaign.execution.driver import GenerationTask, drive
from stresstest.campaign.execution.openloop import drive_open_loop
from stresstest.campaign.execution.task_factory import TaskFactory
from stresstest.campaign.ladder import derive_seed
from stresstest.campaign.progress import Progress
from stresstest.errors import UsageError
from stresstest.model import Generation, Job, Phase, RunSettings
from stresstest.model.cost import CostArm


@dataclass(frozen=True, slots=True)
class Workload:
    """The load of a measurement.

    requests: per batch. pairs: of batches. rate: requests per second of an open loop with Poisson arrivals,
    None for a closed loop. plant: share of the requests that are forced to run to their cap, as stand-ins for
    loops. units: requested by a task's prompts, None for a length that fits the cap. abort: the other arm
    aborts loops at their alarm instead of capping them.
    """

    requests: int = 32
    pairs: int = 8
    rate: float | None = None
    plant: float = 0.0
    units: int | None = None
    abort: bool = False


MOST_REQUESTS = 1_000_000
"""Requests of all pairs together, each of which is sent twice."""


def check_workload(workload: Workload) -> None:
    """Raise UsageError for a load that cannot be measured."""
    if workload.requests < 2:
        raise UsageError("--requests must be at least 2: a loop costs somebody else.")
    if workload.pairs < 1:
        raise UsageError("--pairs must be at least 1.")
    if workload.requests * workload.pairs > MOST_REQUESTS:
        raise UsageError(
            f"--requests times --pairs must be at most {MOST_REQUESTS:,}: all are kept in memory."
        )
    if workload.rate is not None and not 0 < workload.rate < math.inf:
        raise UsageError("--rate must be above zero: requests a second.")
    if not 0.0 <= workload.plant <= 0.5:
        raise UsageError("--plant must be between 0 % and 50 %: the rest is what the loops cost.")
    if workload.abort and (workload.plant or workload.rate is not None):
        raise UsageError("--abort-loops needs natural loops and --concurrency: no --plant, no --rate.")
    if workload.units is not None and workload.units < 1:
        raise UsageError("--units must be at least 1.")


@dataclass
class BatchRunner:
    """Runs batches against an open endpoint.

    units: requested of each answer. spent: output tokens so far. lost: requests that got no answer.
    windows: start and end of each batch in clock seconds, by "pair/arm".
    """

    prepared: PreparedCampaign
    workload: Workload
    units: int
    progress: Progress
    stop: asyncio.Event
    spent: int = 0
    lost: int = 0
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)
    _factory: TaskFactory = field(init=False)

    def __post_init__(self) -> None:
        self._factory = self.prepared.task_factory()

    @property
    def settings(self) -> RunSettings:
        return self.prepared.settings

    @property
    def cap(self) -> int:
        """Output tokens of a request without an earlier limit."""
        return self.prepared.ladder.horizon

    def planted_ids(self, pair: int) -> frozenset[str]:
        """Ids of a pair's stand-ins for loops, the same in both arms."""
        share, size = self.workload.plant, self.workload.requests
        if share <= 0:
            return frozenset()
        count = min(size, max(1, round(share * size)))
        drawn = Random(f"plant {self.settings.seed} {pair}").sample(range(size), count)
        return frozenset(str(i) for i in drawn)

    async def run_batch(
        self, pair: int, arm: CostArm, limits: Mapping[str, int] | None = None
    ) -> list[Generation] | None:
        """The generations of one batch in the order of its requests; None when it was stopped early.

        limits: cap in output tokens by request id, for requests capped below `cap`. Raises EndpointError.
        """
        tasks = await self._batch_tasks(pair, arm, limits or {})
        began = clock.now()
        abort = self.workload.abort and arm is CostArm.CAPPED
        found = {g.job.index: g async for g in self._drive(tasks, pair, abort=abort)}
        self.windows[f"{pair}/{arm}"] = (began, clock.now())
        self.spent += sum(g.output_tokens for g in found.values())
        if self.stop.is_set():
            return None
        self.lost += len(tasks) - len(found)
        return [found[index] for index in sorted(found)]

    async def warm_up(self, pair: int) -> None:
        """Send a pair's prompts once, so that both arms find them in the server's prefix cache."""
        limits = {str(index): 1 for index in range(self.workload.requests)}
        tasks = await self._batch_tasks(pair, CostArm.SCOUT, limits)
        async for _ in drive(
            self.prepared.endpoint, tasks, concurrency=self.settings.concurrency, abort=False, stop=self.stop
        ):
            pass

    def _drive(
        self, tasks: list[GenerationTask], pair: int, *, abort: bool
    ) -> AsyncGenerator[Generation, None]:
        if self.workload.rate is None:
            return drive(
                self.prepared.endpoint,
                tasks,
                concurrency=self.settings.concurrency,
                abort=abort,
                keep_after=0,
                on_event=self.progress.event,
                stop=self.stop,
            )
        random = Random(f"arrivals {self.settings.seed} {pair}")
        at, arrivals = 0.0, []
        for _ in tasks:
            arrivals.append(at)
            at += random.expovariate(self.workload.rate)
        return drive_open_loop(
            self.prepared.endpoint, tasks, arrivals, on_event=self.progress.event, stop=self.stop
        )

    async def _batch_tasks(self, pair: int, arm: CostArm, limits: Mapping[str, int]) -> list[GenerationTask]:
        jobs = [self._batch_job(pair, arm, i, limits) for i in range(self.workload.requests)]
        planted = self.planted_ids(pair)
        tasks = await self._factory.create_tasks(jobs)
        return [
            replace(task, request=replace(task.request, ignore_eos=True))
            if str(task.job.index) in planted
            else task
            for task in tasks
        ]

    def _batch_job(self, pair: int, arm: CostArm, index: int, limits: Mapping[str, int]) -> Job:
        return Job(
            phase=Phase.COST,
            rung=pair,
            index=index,
            units=self.units,
            prompt_index=pair * self.workload.requests + index,
            seed=derive_seed(f"{self.settings.seed}/cost/{pair}/{index}"),
            max_tokens=min(self.cap, limits.get(str(index), self.cap)),
            arm=str(arm),
        )
