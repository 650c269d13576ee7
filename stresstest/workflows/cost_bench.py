"""Where the batches of `cost` are run: the same requests, with loops let run or capped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random

from stresstest import clock
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.execution.driver import Work, drive
from stresstest.execution.openloop import drive_at
from stresstest.model import Generation, Job, Phase, RunSettings
from stresstest.model.cost import CostArm
from stresstest.report.progress import Progress
from stresstest.workflows.setting import WorkFactory


@dataclass(frozen=True, slots=True)
class Workload:
    """What is driven. requests: of one batch; pairs: of batches; rate: requests a second of an open loop
    (Poisson arrivals), None for a closed one; plant: share of the requests that are made to run to their cap,
    as stand-ins for loops; units: asked for by a task's prompts, None for a length that fits the cap. abort:
    the other arm aborts loops at their alarm, instead of capping them."""

    requests: int = 32
    pairs: int = 8
    rate: float | None = None
    plant: float = 0.0
    units: int | None = None
    abort: bool = False


def check_workload(workload: Workload) -> None:
    """Raises UsageError for numbers that make no measurement."""
    if workload.requests < 2:
        raise UsageError("--requests must be at least 2: a loop costs somebody else.")
    if workload.pairs < 1:
        raise UsageError("--pairs must be at least 1.")
    if workload.rate is not None and not 0 < workload.rate < math.inf:
        raise UsageError("--rate must be above zero: requests a second.")
    if not 0.0 <= workload.plant <= 0.5:
        raise UsageError("--plant must lie between 0 % and 50 %: the rest is what the loops cost.")
    if workload.abort and (workload.plant or workload.rate is not None):
        raise UsageError("--abort-loops needs natural loops and --concurrency: no --plant, no --rate.")
    if workload.units is not None and workload.units < 1:
        raise UsageError("--units must be at least 1.")


@dataclass
class Bench:
    """Runs batches against an open endpoint. cap: output tokens of a request that nobody caps earlier.

    spent: output tokens so far. windows: clock seconds of each batch. lost: requests without any answer.
    """

    settings: RunSettings
    workload: Workload
    cap: int
    units: int
    factory: WorkFactory
    endpoint: Endpoint
    progress: Progress
    stop: asyncio.Event
    spent: int = 0
    lost: int = 0
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)

    def planted(self, pair: int) -> frozenset[str]:
        """Ids of a pair's stand-ins: drawn once, the same in both arms."""
        share, size = self.workload.plant, self.workload.requests
        if share <= 0:
            return frozenset()
        count = min(size, max(1, round(share * size)))
        drawn = Random(f"plant {self.settings.seed} {pair}").sample(range(size), count)
        return frozenset(str(i) for i in drawn)

    async def batch(
        self, pair: int, arm: CostArm, limits: Mapping[str, int] | None = None
    ) -> list[Generation] | None:
        """One batch in the order of its requests; None when a stop cut it short.

        limits: id → cap of the requests that are capped earlier than the rest. Raises EndpointError.
        """
        works = await self._works(pair, arm, limits or {})
        began = clock.now()
        abort = self.workload.abort and arm is CostArm.CAPPED
        found = {g.job.index: g async for g in self._driven(works, pair, abort=abort)}
        self.windows[f"{pair}/{arm}"] = (began, clock.now())
        self.spent += sum(g.output_tokens for g in found.values())
        if self.stop.is_set():
            return None
        self.lost += len(works) - len(found)
        return [found[index] for index in sorted(found)]

    async def warm(self, pair: int) -> None:
        """Have the server read a pair's prompts, so that no arm profits from the other's prefix cache."""
        works = await self._works(pair, CostArm.SCOUT, {str(i): 1 for i in range(self.workload.requests)})
        async for _ in drive(
            self.endpoint, works, concurrency=self.settings.concurrency, abort=False, stop=self.stop
        ):
            pass

    def _driven(self, works: list[Work], pair: int, *, abort: bool) -> AsyncGenerator[Generation, None]:
        if self.workload.rate is None:
            return drive(
                self.endpoint,
                works,
                concurrency=self.settings.concurrency,
                abort=abort,
                keep_after=0,
                on_event=self.progress.event,
                stop=self.stop,
            )
        random = Random(f"arrivals {self.settings.seed} {pair}")
        at, arrivals = 0.0, []
        for _ in works:
            arrivals.append(at)
            at += random.expovariate(self.workload.rate)
        return drive_at(self.endpoint, works, arrivals, on_event=self.progress.event, stop=self.stop)

    async def _works(self, pair: int, arm: CostArm, limits: Mapping[str, int]) -> list[Work]:
        jobs = [self._job(pair, arm, i, limits) for i in range(self.workload.requests)]
        planted = self.planted(pair)
        works = await self.factory.works(jobs)
        return [
            replace(work, request=replace(work.request, ignore_eos=True))
            if str(work.job.index) in planted
            else work
            for work in works
        ]

    def _job(self, pair: int, arm: CostArm, index: int, limits: Mapping[str, int]) -> Job:
        name = f"{self.settings.seed}/cost/{pair}/{index}".encode()
        return Job(
            phase=Phase.COST,
            rung=pair,
            index=index,
            units=self.units,
            prompt_index=pair * self.workload.requests + index,
            seed=int.from_bytes(blake2b(name, digest_size=4).digest(), "big") & 0x7FFF_FFFF,
            max_tokens=min(self.cap, limits.get(str(index), self.cap)),
            arm=str(arm),
        )
