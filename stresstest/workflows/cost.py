"""`cost`: the same batches with loops and without, in pairs, and what the difference costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stresstest import clock
from stresstest.economics.account import Prices, measured_cost
from stresstest.economics.paired import matched_lengths
from stresstest.economics.spans import span_of
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError, InterruptedEarlyError
from stresstest.model import DocumentKind, EndpointProfile, Generation, RunSettings
from stresstest.model.cost import Cost, CostArm, Span
from stresstest.report.cost import cost_document
from stresstest.report.progress import Progress
from stresstest.store.repository import Store
from stresstest.workflows.cost_bench import Bench, Workload
from stresstest.workflows.cost_watch import Watch
from stresstest.workflows.setting import Prompts, WorkFactory, ask_endpoint, horizon_for, load_source

ROOM = 0.4
"""A task's prompts ask for answers of about this share of the cap."""
STAND_INS = (
    "planted requests are stand-ins for loops: they are made to write on to their cap (ignore_eos), whatever "
    "they write"
)


ABORTED = (
    "the other arm aborts loops at their alarm instead of capping them at a healthy length: every ratio is "
    "letting loops run over aborting them"
)


@dataclass(frozen=True, slots=True)
class CostEnding:
    """How a measurement ended. document: its id in the store; None when there was nothing to keep."""

    cost: Cost
    document: str | None = None
    interrupted: bool = False
    over_budget: bool = False
    error: EndpointError | None = None


async def measure_cost(
    settings: RunSettings,
    workload: Workload,
    prices: Prices,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> CostEnding:
    """Drive pairs of batches and account for them. Each pair is stored as soon as it is complete.

    Raises UsageError or EndpointError when nothing could be started, InterruptedEarlyError when a stop came
    before the first batch was over; later trouble is returned beside what was measured.
    """
    prompts = load_source(settings)
    for note in prompts.notes:
        progress.note(note)
    stop = stop or asyncio.Event()
    async with Endpoint(settings.base_url, api_key=api_key, model=settings.subject.model or None) as endpoint:
        profile, settings = await ask_endpoint(endpoint, settings)
        cap = await horizon_for(endpoint, profile, prompts, settings)
        settings = replace(settings, horizon=cap)
        units = _units(workload, prompts, cap)
        factory = WorkFactory(endpoint, profile, prompts, settings, {})
        bench = Bench(settings, workload, cap, units, factory, endpoint, progress, stop)
        async with Watch(settings, profile, progress, api_key) as watch:
            return await _Measurement(bench, profile, prices, watch, store).play()


def _units(workload: Workload, prompts: Prompts, cap: int) -> int:
    return workload.units or max(1, round(ROOM * cap / prompts.tokens_per_unit))


@dataclass
class _Measurement:
    """One workload against an open endpoint."""

    bench: Bench
    profile: EndpointProfile
    prices: Prices
    watch: Watch
    store: Store
    spans: list[Span] = field(default_factory=list)
    healthy: dict[str, int] = field(default_factory=dict)
    id: str = field(default_factory=clock.new_id)
    began: float = field(default_factory=clock.now)

    async def play(self) -> CostEnding:
        bench = self.bench
        bench.progress.started(self.id, bench.settings, self.profile)
        bench.progress.note(self._plan())
        error: EndpointError | None = None
        over, pair = False, 0
        try:
            while pair < bench.workload.pairs and not bench.stop.is_set():
                over = self._over_budget()
                if over or not await self._pair(pair):
                    break
                pair += 1
                self._save(self._cost(complete=pair == bench.workload.pairs))
        except EndpointError as caught:
            error = caught
        except asyncio.CancelledError:
            bench.stop.set()
        complete = pair == bench.workload.pairs
        if not self.spans:
            if error is not None:
                raise error
            raise InterruptedEarlyError("Interrupted before a batch was over: nothing was measured.")
        cost = self._cost(complete=complete)
        return CostEnding(cost, self._save(cost), bench.stop.is_set(), over, error)

    async def _pair(self, pair: int) -> bool:
        """Both arms of a pair; False when a stop cut it short.

        Every other pair begins with the capped arm, so that a drift of the server is in neither. Which
        requests loop must then be known beforehand: a scout batch tells, unless the loops are planted.
        """
        if self.bench.workload.abort:
            return await self._aborting_pair(pair)
        planted = self.bench.planted(pair)
        capped_first = pair % 2 == 1
        if capped_first and planted:
            await self.bench.warm(pair)
            limits = self._lengths(pair, planted)
            return await self._batch(pair, CostArm.CAPPED, limits) and await self._batch(
                pair, CostArm.LOOPS, limits
            )
        if not capped_first:
            await self.bench.warm(pair)
        first = CostArm.SCOUT if capped_first else CostArm.LOOPS
        if not await self._batch(pair, first):
            return False
        seen = [s for s in self.spans if s.pair == pair]
        limits = self._lengths(pair, planted or {s.id for s in seen if s.loops})
        if capped_first and not limits:
            # Nothing loops: the scout is what the arm with loops would be.
            self.spans = [replace(s, arm=CostArm.LOOPS) if s.pair == pair else s for s in self.spans]
            return True
        if not limits:
            return True
        if not await self._batch(pair, CostArm.CAPPED, limits):
            return False
        return not capped_first or await self._batch(pair, CostArm.LOOPS, limits)

    async def _aborting_pair(self, pair: int) -> bool:
        """Both arms of a pair whose other arm aborts loops as they come: nobody must know them beforehand."""
        await self.bench.warm(pair)
        arms = (CostArm.LOOPS, CostArm.CAPPED) if pair % 2 == 0 else (CostArm.CAPPED, CostArm.LOOPS)
        return await self._batch(pair, arms[0]) and await self._batch(pair, arms[1])

    async def _batch(self, pair: int, arm: CostArm, limits: dict[str, int] | None = None) -> bool:
        bench = self.bench
        what = f"pair {pair + 1} of {bench.workload.pairs}: {self._words(arm)}"
        bench.progress.measuring(what, bench.workload.requests)
        found = await bench.batch(pair, arm, limits if arm is CostArm.CAPPED else None)
        if found is None:
            return False
        if arm is not CostArm.CAPPED:
            self._learn(found, bench.planted(pair))
        planted = bench.planted(pair)
        lengths = limits or self._lengths(pair, planted)
        self.spans += [
            span_of(
                g,
                batch=f"{pair}/{arm}",
                arm=arm,
                pair=pair,
                planted_at=lengths[str(g.job.index)] if str(g.job.index) in planted else None,
            )
            for g in found
        ]
        return True

    def _words(self, arm: CostArm) -> str:
        if arm is CostArm.SCOUT:
            return "finding out which requests loop"
        if arm is CostArm.LOOPS:
            return "loops run on to the cap"
        return "loops aborted at their alarm" if self.bench.workload.abort else "loops capped"

    def _learn(self, found: Sequence[Generation], planted: frozenset[str]) -> None:
        """The healthy lengths of the latest batch that let loops run."""
        healthy = {
            g.key: g.output_tokens
            for g in found
            if not g.verdict.degenerate and g.failure is None and str(g.job.index) not in planted
        }
        self.healthy = healthy or self.healthy

    def _lengths(self, pair: int, loopers: frozenset[str] | set[str]) -> dict[str, int]:
        seed = self.bench.settings.seed * 1000 + pair
        return matched_lengths(sorted(loopers), self.healthy, seed=seed, fallback=self.bench.cap // 4)

    def _cost(self, *, complete: bool) -> Cost:
        bench = self.bench
        windows = bench.windows
        cost = measured_cost(self.spans, prices=self.prices, joules=self.watch.joules(windows))
        notes = list(cost.notes)
        loops = self.watch.preempted(CostArm.LOOPS, windows)
        capped = self.watch.preempted(CostArm.CAPPED, windows)
        if loops or capped:
            notes.append(
                f"the server preempted {loops or 0:.0f} requests while loops ran and {capped or 0:.0f} while "
                "they were capped (its own count, all clients)"
            )
        if bench.lost:
            notes.append(f"{bench.lost} requests never got an answer and are in no number")
        if bench.workload.plant:
            notes.append(STAND_INS)
        if bench.workload.abort:
            notes.append(ABORTED)
        return replace(
            cost,
            notes=tuple(notes),
            subject=bench.settings.subject,
            source=self.profile.base_url,
            simulated=self.profile.simulated,
            kv_cache_tokens=self.profile.kv_cache_tokens,
            complete=complete,
        )

    def _save(self, cost: Cost) -> str:
        return self.store.save_document(
            DocumentKind.COST,
            cost_document(cost),
            complete=cost.complete,
            simulated=cost.simulated,
            id=self.id,
        )

    def _over_budget(self) -> bool:
        settings = self.bench.settings
        tokens, seconds = settings.budget_tokens, settings.budget_seconds
        over = tokens is not None and self.bench.spent >= tokens
        over = over or (seconds is not None and clock.now() - self.began >= seconds)
        if over:
            self.bench.progress.note("the budget is spent; no further pair is started")
        return over

    def _plan(self) -> str:
        load, cap = self.bench.workload, self.bench.cap
        batches = 2 * load.pairs if load.plant else 2 * load.pairs + load.pairs // 2
        asked = batches * load.requests
        how = f"{load.rate:g} requests/s" if load.rate else f"{self.bench.settings.concurrency} at once"
        return (
            f"plan: {load.pairs} pairs of batches of {load.requests} requests, {how}: at most {batches} "
            f"batches, {asked:,} requests and {asked * cap:,} output tokens"
        )
