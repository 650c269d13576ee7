"""The state of the live view: counters updated by events, and immutable snapshots of them.

Events arrive from the event loop; the display's thread takes snapshots. An event must cost no more than
a few additions, as it delays the streams.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stresstest.campaign.execution.events import GenerationEvent, GenerationFinished
from stresstest.campaign.execution.under_way import UnderWay
from stresstest.campaign.ladder import CertifyStep, ClimbStep, PlanSummary
from stresstest.detectors.registry import symptom_info
from stresstest.model import (
    Generation,
    GenerationLoader,
    GenerationRecord,
    GpuSample,
    Observation,
    Phase,
    RunSettings,
    ServerSample,
)
from stresstest.render.live.snapshot import LiveSnapshot, OnsetExcerpt, RecentValues, RungProgress
from stresstest.render.text import answer_name, excerpt
from stresstest.statistics import observations

RATE_WINDOW_S = 10.0
_STEP_S = 2.0
_KEPT = 60
_LATEST = 3


class _BucketSeries:
    """Values in buckets of two seconds; a bucket holds their sum or their maximum."""

    def __init__(self, *, summed: bool) -> None:
        self._summed = summed
        self._buckets: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def add(self, now: float, value: float) -> None:
        bucket = int(now // _STEP_S)
        if self._buckets and self._buckets[-1][0] == bucket:
            before = self._buckets.pop()[1]
            value = before + value if self._summed else max(before, value)
        self._buckets.append((bucket, value))

    def values(self, now: float) -> tuple[float | None, ...]:
        """The completed buckets up to `now`; an incomplete sum would look like a drop."""
        if not self._buckets:
            return ()
        known = dict(self._buckets)
        last = int(now // _STEP_S) - 1
        first = max(self._buckets[0][0], last - _KEPT + 1)
        absent = 0.0 if self._summed else None
        return tuple(known.get(bucket, absent) for bucket in range(first, last + 1))


class LiveState:
    """The counters of the live view. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._settings: RunSettings | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: list[RungProgress] = []
        self._targets: dict[int, int] = {}
        self._expected_tokens: int | None = None
        self._under_way = UnderWay()
        self._cuts: Mapping[str, int] = {}
        self._onsets: deque[OnsetExcerpt] = deque(maxlen=_LATEST)
        self._ticks: deque[tuple[float, int]] = deque()
        self._speed, self._kv, self._gpu = (
            _BucketSeries(summed=True),
            _BucketSeries(summed=False),
            _BucketSeries(summed=False),
        )
        self._server: ServerSample | None = None
        self._gpus: Sequence[GpuSample] = ()
        self._tokens = 0
        self._certifying: list[Observation] = []
        self._climbing: int | None = None
        self._planned_at_risk: int | None = None
        self._sample_size: int | None = None

    def started(self, settings: RunSettings) -> None:
        """A campaign begins; the state of a previous one is cleared."""
        with self._lock:
            self._clear()
            self._settings = settings

    def planned(self, plan: PlanSummary) -> None:
        with self._lock:
            self._targets = {rung.number: rung.target_tokens for rung in plan.rungs}
            self._expected_tokens = plan.expected_tokens

    def resumed(self, finished: Sequence[GenerationRecord], load: GenerationLoader) -> None:
        """Add the generations of earlier sessions to the ladder.

        load: called for the latest onsets, to show their text.
        """
        ordered = sorted(finished, key=lambda g: (g.job.phase is Phase.CERTIFY, g.job.rung))
        latest = [load(each) for each in [g for g in ordered if g.verdict.degenerate][-_LATEST:]]
        with self._lock:
            for generation in ordered:
                job = generation.job
                climb = job.phase is Phase.CLIMB
                name = f"rung {job.rung}" if climb else "certify"
                self._select_row(
                    f"{job.phase}/{job.rung}", name, 0, self._targets.get(job.rung) if climb else None
                )
                self._count(generation)
                self._tokens += generation.output_tokens
            for whole in latest:
                self._add_onset(whole)

    def stage(self, step: ClimbStep | CertifyStep) -> None:
        with self._lock:
            climb = isinstance(step, ClimbStep)
            self._climbing = step.rung.number if climb else None
            self._cuts = {}
            name = f"rung {step.rung.number}" if climb else "certify"
            if isinstance(step, CertifyStep):
                self._planned_at_risk, self._sample_size = step.planned_at_risk, step.total
                name = f"look {step.look}/{step.looks}" if step.looks > 1 else name
            key = f"{Phase.CLIMB if climb else Phase.CERTIFY}/{step.rung.number}"
            self._select_row(key, name, step.total, step.rung.target_tokens)

    def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
        """Begin a stage that is not a rung: an arm of a diagnosis. cuts: see `Progress.measuring`."""
        with self._lock:
            self._cuts = cuts or {}
            self._under_way.clear()  # an arm that is decided drops the requests that are still in flight
            name = what.partition(":")[0]
            self._rows.append(RungProgress(f"{name}/{len(self._rows)}", name, total))
            self._climbing = self._planned_at_risk = self._sample_size = None

    def event(self, event: GenerationEvent) -> None:
        with self._lock:
            self._count_tokens(self._under_way.follow(event))
            if isinstance(event, GenerationFinished):
                self._count(event.generation)
                self._add_onset(event.generation)

    def sample(self, sample: ServerSample) -> None:
        with self._lock:
            self._server = sample
            if sample.kv_usage is not None:
                self._kv.add(self._clock(), sample.kv_usage)

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        """readings: the sampler's list, which grows while the campaign runs."""
        with self._lock:
            self._gpus = readings

    def snapshot(self) -> LiveSnapshot:
        """The current state."""
        with self._lock:
            now = self._clock()
            gpu, memory = _latest_gpu(self._gpus)
            if gpu is not None:
                self._gpu.add(now, gpu)
            settings, rate = self._settings, self._rate(now)
            return LiveSnapshot(
                rows=tuple(self._rows),
                upcoming_targets=self._upcoming_targets(),
                onsets=tuple(self._onsets),
                speed=RecentValues(rate, self._speed.values(now)),
                kv=RecentValues(self._server.kv_usage if self._server else None, self._kv.values(now)),
                gpu=RecentValues(gpu, self._gpu.values(now)),
                gpu_memory=memory,
                running=len(self._under_way.tokens),
                certain=len(self._under_way.degenerate),
                server=self._server,
                tokens=self._tokens,
                elapsed=now - self._began,
                eta=self._eta(rate),
                run_eta=self._run_eta(rate),
                expected_tokens=self._expected_tokens,
                budget_tokens=settings.budget_tokens if settings else None,
                budget_seconds=settings.budget_seconds if settings else None,
                planned_at_risk=self._planned_at_risk,
                sample_size=self._sample_size,
                certifying=tuple(self._certifying),
            )

    def _upcoming_targets(self) -> tuple[int, ...]:
        if self._climbing is None:
            return ()
        return tuple(target for number, target in self._targets.items() if number > self._climbing)

    def _select_row(self, key: str, name: str, total: int, target: int | None) -> None:
        """Make this the last row, keeping its counts if it already is."""
        if not self._rows or self._rows[-1].key != key:
            self._rows.append(RungProgress(key, name, total, target))
        self._rows[-1] = replace(self._rows[-1], name=name, total=total, target=target)

    def _count(self, generation: GenerationRecord) -> None:
        if self._rows:
            self._rows[-1] = self._rows[-1].with_generation(generation, self._cuts.get(generation.key, 0))
        if generation.job.phase is Phase.CERTIFY:
            self._certifying += observations([generation])

    def _add_onset(self, generation: Generation) -> None:
        verdict = generation.verdict
        if verdict.onset is not None and verdict.symptom is not None:
            before, after = excerpt(generation, before=30, after=40)
            word = symptom_info(verdict.symptom).label
            onset = self._cuts.get(generation.key, 0) + verdict.onset
            self._onsets.append(OnsetExcerpt(answer_name(generation.job), word, onset, before, after))

    def _count_tokens(self, tokens: int) -> None:
        if tokens <= 0:
            return
        now = self._clock()
        self._tokens += tokens
        self._speed.add(now, tokens)
        self._ticks.append((now, tokens))
        while self._ticks[0][0] < now - RATE_WINDOW_S:
            self._ticks.popleft()

    def _rate(self, now: float) -> float | None:
        """Tokens per second over the last ten seconds, or since the first token if that is less."""
        recent = [(at, n) for at, n in self._ticks if at >= now - RATE_WINDOW_S]
        if not recent:
            return None if not self._tokens else 0.0
        return sum(n for _, n in recent) / max(now - recent[0][0], 1.0)

    def _eta(self, rate: float | None) -> float | None:
        """Seconds to the stage's end, assuming that the remaining answers have the mean length so far."""
        row = self._rows[-1] if self._rows else None
        if row is None or not rate or row.done >= row.total:
            return None
        each = row.tokens / row.done if row.done else float(row.target or 0)
        if not each:
            return None
        in_flight = sum(min(tokens, each) for tokens in self._under_way.tokens.values())
        return max((row.total - row.done) * each - in_flight, 0.0) / rate

    def _run_eta(self, rate: float | None) -> float | None:
        """Seconds to the end of a run in which nothing fails, while it climbs.

        The sample that follows runs at the full concurrency."""
        if self._climbing is None or self._expected_tokens is None or self._settings is None:
            return None
        if not rate or not self._under_way.tokens:
            return None
        speedup = max(1.0, self._settings.concurrency / len(self._under_way.tokens))
        return max(self._expected_tokens - self._tokens, 0) / (rate * speedup)


def _latest_gpu(readings: Sequence[GpuSample]) -> tuple[float | None, float | None]:
    """(utilisation, share of memory used) of the latest readings, averaged over the GPUs; None if not
    measured."""
    latest: dict[str, GpuSample] = {}
    for reading in reversed(readings[-64:]):
        if reading.gpu in latest:
            break
        latest[reading.gpu] = reading
    used = [r.utilisation for r in latest.values() if r.utilisation is not None]
    memory = [r.memory_used / r.memory_total for r in latest.values() if r.memory_used and r.memory_total]
    return (
        sum(used) / len(used) if used else None,
        sum(memory) / len(memory) if memory else None,
    )
