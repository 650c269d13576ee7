"""`cost`: measures pairs of the same batch with and without loops, and prices the difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stresstest import clock
from stresstest.campaign.campaign_setup import prepare_campaign
from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.foreign_answers import refuse_foreign
from stresstest.campaign.served_model import ReplacedServerError, same_server
from stresstest.diagnosis.evidence.capped import find_server_cap, server_cap_sentence
from stresstest.economics.account import Prices, measured_cost
from stresstest.economics.paired import matched_lengths
from stresstest.economics.timeline import generation_span
from stresstest.errors import EndpointError, InterruptedEarlyError, StoreError
from stresstest.features.cost.batches import BatchRunner, Workload
from stresstest.features.cost.document import cost_document
from stresstest.features.cost.monitoring import CostMonitor
from stresstest.model import DocumentKind, EndpointProfile, Generation, GenerationRecord, RunSettings
from stresstest.model.cost import Cost, CostArm, RequestSpan
from stresstest.model.server import UNCOUNTED_CHUNKS
from stresstest.store.repository import Store

ANSWER_SHARE_OF_CAP = 0.4
"""Length of the answers that a task's prompts request, as a share of the cap."""
PLANTED_NOTE = (
    "planted requests stand in for loops: they are forced to write to their cap (ignore_eos), "
    "whatever they write"
)
UNSEEDED_NOTE = (
    "no seeds were sent: the batches of a pair share their prompts only, and other requests may loop in each"
)
CHUNKS_NOTE = (
    "without logprobs, which are not requested here, the server does not say how many tokens a chunk has: "
    "lengths and caps of streams count words"
)
ABORTED_NOTE = (
    "the other arm aborts loops at their alarm instead of capping them at a healthy length: every ratio is "
    "letting loops run over aborting them"
)


@dataclass(frozen=True, slots=True)
class CostResult:
    """How a measurement ended. document: its id in the store; None when nothing was stored."""

    cost: Cost
    document: str | None = None
    interrupted: bool = False
    over_budget: bool = False
    error: EndpointError | StoreError | None = None


async def measure_cost(
    settings: RunSettings,
    workload: Workload,
    prices: Prices,
    store: Store,
    progress: Progress,
    *,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
) -> CostResult:
    """Run pairs of batches and compute their cost. Each pair is stored as soon as it is complete.

    Raises UsageError or EndpointError when the measurement cannot start, InterruptedEarlyError when it is
    stopped before the end of the first batch. A later error is returned beside the result.
    """
    # Production requests no logprobs. They quadruple what a token costs vLLM's API process, which is then
    # slower than a fast GPU, and would be what is measured.
    settings = replace(settings, logprobs=False)
    async with prepare_campaign(settings, on_note=progress.note, api_key=api_key) as prepared:
        answer = ANSWER_SHARE_OF_CAP * prepared.ladder.horizon
        units = workload.units or max(1, round(answer / prepared.prompts.tokens_per_unit))
        runner = BatchRunner(prepared, workload, units, progress, stop or asyncio.Event())
        profile = prepared.profile
        hide = prepared.endpoint.address.hide_secrets
        async with CostMonitor(prepared.settings, profile, progress, api_key, hide) as monitor:
            return await _CostMeasurement(runner, profile, prices, monitor, store).run()


@dataclass
class _CostMeasurement:
    """One measurement on an open endpoint. healthy: lengths of healthy answers, to match capped ones.
    answers: of all batches. cut: those that ended at a cap, of batches that let everything run. warnings:
    notes on the measurement."""

    runner: BatchRunner
    profile: EndpointProfile
    prices: Prices
    monitor: CostMonitor
    store: Store
    spans: list[RequestSpan] = field(default_factory=list)
    healthy: dict[str, int] = field(default_factory=dict)
    cut: list[GenerationRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    answers: list[GenerationRecord] = field(default_factory=list)
    id: str = field(default_factory=clock.new_id)
    began: float = field(default_factory=clock.now)

    async def run(self) -> CostResult:
        runner = self.runner
        runner.progress.started(self.id, runner.settings, self.profile)
        runner.progress.note(self._plan_line())
        error: EndpointError | StoreError | None = None
        over_budget, pair, cut_before = False, 0, 0
        try:
            while pair < runner.workload.pairs and not runner.stop.is_set():
                over_budget = self._over_budget()
                if over_budget:
                    break
                cut_before = len(self.cut)
                async with same_server(runner.prepared.endpoint, self.profile, runner.stop):
                    whole = await self._run_pair(pair)
                if not whole:
                    break
                pair += 1
                self._save(self._compute_cost(complete=pair == runner.workload.pairs))
        except ReplacedServerError as caught:
            error = caught
            self.spans = [span for span in self.spans if span.pair != pair]
            del self.cut[cut_before:]
            self.warnings.append(f"{caught} Pair {pair + 1}, in which that happened, is in no number.")
        except (EndpointError, StoreError) as caught:
            error = caught
        except asyncio.CancelledError:
            runner.stop.set()
        complete = pair == runner.workload.pairs
        if not self.spans:
            if error is not None:
                raise error
            raise InterruptedEarlyError("Interrupted before a batch was over: nothing was measured.")
        cost, document = self._compute_cost(complete=complete), None
        try:
            document = self._save(cost)
        except StoreError as lost:  # what was measured is printed even if a full disk keeps none of it
            error = error or lost
        return CostResult(cost, document, runner.stop.is_set(), over_budget, error)

    async def _run_pair(self, pair: int) -> bool:
        """Run both arms of a pair; False when it was stopped early.

        Every other pair begins with the capped arm, to cancel a drift of the server. Unless the loops are
        planted, a scout batch then finds out beforehand which requests loop.
        """
        if self.runner.workload.abort:
            return await self._run_aborting_pair(pair)
        planted = self.runner.planted_ids(pair)
        capped_first = pair % 2 == 1
        if capped_first and planted:
            await self.runner.warm_up(pair)
            limits = self._matched_lengths(pair, planted)
            return await self._run_batch(pair, CostArm.CAPPED, limits) and await self._run_batch(
                pair, CostArm.LOOPS, limits
            )
        if not capped_first:
            await self.runner.warm_up(pair)
        first = CostArm.SCOUT if capped_first else CostArm.LOOPS
        if not await self._run_batch(pair, first):
            return False
        seen = [s for s in self.spans if s.pair == pair]
        limits = self._matched_lengths(pair, planted or {s.id for s in seen if s.loops})
        if capped_first and not limits:
            # Nothing loops, so that the scout batch serves as the arm with loops.
            self.spans = [replace(s, arm=CostArm.LOOPS) if s.pair == pair else s for s in self.spans]
            return True
        if not limits:
            return True
        if not await self._run_batch(pair, CostArm.CAPPED, limits):
            return False
        return not capped_first or await self._run_batch(pair, CostArm.LOOPS, limits)

    async def _run_aborting_pair(self, pair: int) -> bool:
        """As `_run_pair`, where the capped arm aborts loops at their alarm, without known lengths."""
        await self.runner.warm_up(pair)
        arms = (CostArm.LOOPS, CostArm.CAPPED) if pair % 2 == 0 else (CostArm.CAPPED, CostArm.LOOPS)
        return await self._run_batch(pair, arms[0]) and await self._run_batch(pair, arms[1])

    async def _run_batch(self, pair: int, arm: CostArm, limits: dict[str, int] | None = None) -> bool:
        runner = self.runner
        stage = f"pair {pair + 1} of {runner.workload.pairs}: {self._stage_label(arm)}"
        runner.progress.measuring(stage, runner.workload.requests)
        found = await runner.run_batch(pair, arm, limits if arm is CostArm.CAPPED else None)
        if found is None:
            return False
        refuse_foreign(found, self.answers, self.profile.clock)
        self.answers += [g.to_record() for g in found]
        planted = runner.planted_ids(pair)
        if arm is not CostArm.CAPPED:
            _refuse_ended([g for g in found if str(g.job.index) in planted and g.failure is None])
            self._record_healthy_lengths(found, planted)
            self.cut += [g.to_record() for g in found if g.finish_reason == "length"]
        lengths = limits or self._matched_lengths(pair, planted)
        self.spans += [
            generation_span(
                g,
                batch=f"{pair}/{arm}",
                arm=arm,
                pair=pair,
                planted_at=lengths[str(g.job.index)] if str(g.job.index) in planted else None,
            )
            for g in found
        ]
        return True

    def _stage_label(self, arm: CostArm) -> str:
        if arm is CostArm.SCOUT:
            return "finding out which requests loop"
        if arm is CostArm.LOOPS:
            return "loops run to their cap"
        return "loops aborted at their alarm" if self.runner.workload.abort else "loops capped"

    def _record_healthy_lengths(self, found: Sequence[Generation], planted: frozenset[str]) -> None:
        """Keep the healthy lengths of the latest batch with running loops that has any."""
        healthy = {
            g.key: g.output_tokens
            for g in found
            if not g.verdict.degenerate and g.failure is None and str(g.job.index) not in planted
        }
        self.healthy = healthy or self.healthy

    def _matched_lengths(self, pair: int, loopers: frozenset[str] | set[str]) -> dict[str, int]:
        seed = self.runner.settings.seed * 1000 + pair
        return matched_lengths(sorted(loopers), self.healthy, seed=seed, fallback=self.runner.cap // 4)

    def _compute_cost(self, *, complete: bool) -> Cost:
        runner, monitor = self.runner, self.monitor
        windows = runner.windows
        cost = measured_cost(self.spans, prices=self.prices, joules=monitor.batch_energy(windows))
        notes = [*cost.notes, *self.warnings]
        loops = monitor.count_preemptions(CostArm.LOOPS, windows)
        capped = monitor.count_preemptions(CostArm.CAPPED, windows)
        if loops or capped:
            notes.append(
                f"the server preempted {loops or 0:.0f} requests while loops ran and {capped or 0:.0f} while "
                "they were capped (its own count, all clients)"
            )
        server_cap = find_server_cap(self.cut, self.profile)
        if server_cap is not None:
            notes.append(server_cap_sentence(server_cap))
        if runner.lost:
            notes.append(f"{runner.lost} requests never got an answer and are in no number")
        if again := sum(g.attempts > 1 for g in self.answers):
            notes.append(
                f"{again} requests were refused or failed, and sent again: the time before their last "
                f"attempt, in which loops may have held the places, is in no number, so that loops cost more "
                f"than this. Measure where requests wait in the server's own queue"
            )
        if self.profile.gap(UNCOUNTED_CHUNKS) is not None:
            notes.append(CHUNKS_NOTE)
        if not runner.settings.send_seed:
            notes.append(UNSEEDED_NOTE)
        if runner.workload.plant:
            notes.append(PLANTED_NOTE)
        if runner.workload.abort:
            notes.append(ABORTED_NOTE)
        return replace(
            cost,
            notes=tuple(notes),
            subject=runner.settings.subject,
            decoding=runner.settings.decoding,
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
        settings = self.runner.settings
        tokens, seconds = settings.budget_tokens, settings.budget_seconds
        over = tokens is not None and self.runner.spent >= tokens
        over = over or (seconds is not None and clock.now() - self.began >= seconds)
        if over:
            self.runner.progress.note("the budget is spent; no further pair is started")
        return over

    def _plan_line(self) -> str:
        load, cap = self.runner.workload, self.runner.cap
        batches = 2 * load.pairs if load.plant else 2 * load.pairs + load.pairs // 2
        requests = batches * load.requests
        how = (
            f"{load.rate:g} requests/s"
            if load.rate
            else f"{min(self.runner.settings.concurrency, load.requests)} at once"
        )
        return (
            f"plan: {load.pairs} pairs of batches of {load.requests} requests, {how}: at most {batches} "
            f"batches, {requests:,} requests and {requests * cap:,} output tokens"
        )


def _refuse_ended(stand_ins: Sequence[Generation]) -> None:
    """EndpointError where stand-ins ended by themselves: they stand for no loop."""
    ended = [g for g in stand_ins if g.finish_reason == "stop"]
    if ended:
        longest = max(g.output_tokens for g in ended)
        raise EndpointError(
            f"{len(ended)} of {len(stand_ins)} stand-ins ended by themselves, after at most {longest:,} of "
            f"{ended[0].job.max_tokens:,} tokens: the server ignores ignore_eos, so they stand for no loops.",
            hint="Ask vLLM itself, without a gateway that drops the field, or omit --plant.",
        )
