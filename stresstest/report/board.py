"""What the live view knows: counters that events change, and a frozen picture of them to draw.

Events come from the event loop, pictures are taken by the display's thread. Nothing is drawn here, and
nothing costs more than a few additions a token batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from stresstest.execution.events import Advanced, Alarmed, Event, Finished, Started
from stresstest.ladder import Certify, Climb, PlanSummary
from stresstest.model import Generation, GpuSample, Phase, RunSettings, ServerSample
from stresstest.report.picture import Onset, Picture, Row, Strip
from stresstest.report.text import SYMPTOM_WORDS, excerpt

RATE_WINDOW_S = 10.0
_STEP_S = 2.0
_KEPT = 60
_LATEST = 3


class _Series:
    """Values by two-second bucket: summed where they add up, else the largest."""

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
        """Up to the bucket before this one: a sum that still grows would look like a drop."""
        if not self._buckets:
            return ()
        known = dict(self._buckets)
        last = int(now // _STEP_S) - 1
        first = max(self._buckets[0][0], last - _KEPT + 1)
        absent = 0.0 if self._summed else None
        return tuple(known.get(bucket, absent) for bucket in range(first, last + 1))


class Board:
    """The counters. Safe to use from two threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._settings: RunSettings | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: list[Row] = []
        self._targets: dict[int, int] = {}
        self._running: dict[str, int] = {}
        self._certain: set[str] = set()
        self._onsets: deque[Onset] = deque(maxlen=_LATEST)
        self._ticks: deque[tuple[float, int]] = deque()
        self._speed, self._kv, self._gpu = _Series(summed=True), _Series(summed=False), _Series(summed=False)
        self._server: ServerSample | None = None
        self._gpus: Sequence[GpuSample] = ()
        self._tokens = 0
        self._certifying: list[Generation] = []
        self._climbing: int | None = None
        self._planned_at_risk: int | None = None
        self._sample_size: int | None = None

    def started(self, settings: RunSettings) -> None:
        """A campaign begins; what another one left is wiped off."""
        with self._lock:
            self._clear()
            self._settings = settings

    def planned(self, plan: PlanSummary) -> None:
        with self._lock:
            self._targets = {rung.number: rung.target_tokens for rung in plan.rungs}

    def resumed(self, finished: Sequence[Generation]) -> None:
        """What an earlier session measured stands on the ladder from the start."""
        with self._lock:
            for generation in sorted(finished, key=lambda g: (g.job.phase is Phase.CERTIFY, g.job.rung)):
                job = generation.job
                climb = job.phase is Phase.CLIMB
                name = f"rung {job.rung}" if climb else "certify"
                self._row(f"{job.phase}/{job.rung}", name, 0, self._targets.get(job.rung) if climb else None)
                self._note(generation)
                self._tokens += generation.output_tokens

    def stage(self, step: Climb | Certify) -> None:
        with self._lock:
            climb = isinstance(step, Climb)
            self._climbing = step.rung.number if climb else None
            name = f"rung {step.rung.number}" if climb else "certify"
            if isinstance(step, Certify):
                self._planned_at_risk, self._sample_size = step.planned_at_risk, step.total
                name = f"look {step.look}/{step.looks}" if step.looks > 1 else name
            key = f"{Phase.CLIMB if climb else Phase.CERTIFY}/{step.rung.number}"
            self._row(key, name, step.total, step.rung.target_tokens)

    def measuring(self, what: str, total: int) -> None:
        """A stage that is no rung: an arm of a diagnosis."""
        with self._lock:
            name = what.partition(":")[0]
            self._rows.append(Row(f"{name}/{len(self._rows)}", name, total))
            self._climbing = self._planned_at_risk = self._sample_size = None

    def event(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, Advanced):
                self._tick(event.tokens - self._running.get(event.key, 0))
                self._running[event.key] = event.tokens
            elif isinstance(event, Started):
                self._running[event.key] = 0
            elif isinstance(event, Alarmed):
                self._certain.add(event.key)
            elif isinstance(event, Finished):
                generation = event.generation
                self._tick(generation.output_tokens - self._running.pop(generation.key, 0))
                self._certain.discard(generation.key)
                self._note(generation)

    def sample(self, sample: ServerSample) -> None:
        with self._lock:
            self._server = sample
            if sample.kv_usage is not None:
                self._kv.add(self._clock(), sample.kv_usage)

    def gpus(self, readings: Sequence[GpuSample]) -> None:
        """readings: grows while the campaign runs."""
        with self._lock:
            self._gpus = readings

    def picture(self) -> Picture:
        """Everything as it is now."""
        with self._lock:
            now = self._clock()
            gpu, memory = _latest_gpu(self._gpus)
            if gpu is not None:
                self._gpu.add(now, gpu)
            settings, rate = self._settings, self._rate(now)
            return Picture(
                rows=tuple(self._rows),
                ahead=self._ahead(),
                onsets=tuple(self._onsets),
                speed=Strip(rate, self._speed.values(now)),
                kv=Strip(self._server.kv_usage if self._server else None, self._kv.values(now)),
                gpu=Strip(gpu, self._gpu.values(now)),
                gpu_memory=memory,
                running=len(self._running),
                certain=len(self._certain),
                server=self._server,
                tokens=self._tokens,
                elapsed=now - self._began,
                eta=self._eta(rate),
                budget_tokens=settings.budget_tokens if settings else None,
                budget_seconds=settings.budget_seconds if settings else None,
                planned_at_risk=self._planned_at_risk,
                sample_size=self._sample_size,
                certifying=tuple(self._certifying),
            )

    def _ahead(self) -> tuple[int, ...]:
        if self._climbing is None:
            return ()
        return tuple(target for number, target in self._targets.items() if number > self._climbing)

    def _row(self, key: str, name: str, total: int, target: int | None) -> None:
        """The last row is this one from now on, with what is done of it already."""
        if not self._rows or self._rows[-1].key != key:
            self._rows.append(Row(key, name, total, target))
        self._rows[-1] = replace(self._rows[-1], name=name, total=total, target=target)

    def _note(self, generation: Generation) -> None:
        if self._rows:
            self._rows[-1] = self._rows[-1].with_one(generation)
        verdict = generation.verdict
        if verdict.onset is not None and verdict.symptom is not None:
            before, after = excerpt(generation, before=30, after=40)
            word = SYMPTOM_WORDS[verdict.symptom]
            self._onsets.append(Onset(generation.key, word, verdict.onset, before, after))
        if generation.job.phase is Phase.CERTIFY:
            self._certifying.append(generation)

    def _tick(self, tokens: int) -> None:
        if tokens <= 0:
            return
        now = self._clock()
        self._tokens += tokens
        self._speed.add(now, tokens)
        self._ticks.append((now, tokens))
        while self._ticks[0][0] < now - RATE_WINDOW_S:
            self._ticks.popleft()

    def _rate(self, now: float) -> float | None:
        """Tokens a second over the last ten, or as long as there is something to count."""
        recent = [(at, n) for at, n in self._ticks if at >= now - RATE_WINDOW_S]
        if not recent:
            return None if not self._tokens else 0.0
        return sum(n for _, n in recent) / max(now - recent[0][0], 1.0)

    def _eta(self, rate: float | None) -> float | None:
        """Seconds to the stage's end, as if what is left took as many tokens as what is done."""
        row = self._rows[-1] if self._rows else None
        if row is None or not rate or row.done >= row.total:
            return None
        each = row.tokens / row.done if row.done else float(row.target or 0)
        if not each:
            return None
        in_flight = sum(min(tokens, each) for tokens in self._running.values())
        return max((row.total - row.done) * each - in_flight, 0.0) / rate


def _latest_gpu(readings: Sequence[GpuSample]) -> tuple[float | None, float | None]:
    """(utilisation, share of memory used) now, the mean over the GPUs; None where not measured."""
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
