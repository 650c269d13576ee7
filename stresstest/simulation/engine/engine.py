"""The simulated engine: requests in, steps that take time, tokens out. Knows nothing of HTTP or clocks."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from stresstest.simulation.engine.composing import AnswerComposer, ComposedAnswer
from stresstest.simulation.engine.hazards import ArmedHazard, draw_service_failures
from stresstest.simulation.engine.request import SimRequest, SimRequestError
from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS, Scenario
from stresstest.simulation.engine.scheduling.scheduler import ScheduledBatch, Scheduler
from stresstest.simulation.engine.scheduling.sequence import (
    EngineCounters,
    EngineStats,
    EngineStep,
    Sequence,
    ServiceFault,
)
from stresstest.simulation.engine.stopping import RepetitionStop, StopStringMatcher
from stresstest.simulation.engine.vocabulary import EOS

_ATTEMPTS_KEPT = 65_536


class Engine:
    """One server's engine in virtual time: the caller says when each step begins.

    Same scenario, same requests at the same times: same steps. The text of an answer depends on its own
    request alone, except where a hazard asks for the load.
    """

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        """seed: of answers whose request has none. ValueError when the KV cache cannot hold one context."""
        if scenario.engine.blocks * KV_BLOCK_TOKENS < scenario.model.max_model_len:
            raise ValueError("the KV cache must hold one sequence of max_model_len tokens")
        self.scenario = scenario
        self._scheduler = Scheduler(scenario.engine)
        self._composer = AnswerComposer(scenario)
        self._rng = random.Random(seed)
        self._counters = EngineCounters()
        self._attempts: OrderedDict[int, int] = OrderedDict()
        self._slow_hazards: dict[int, list[ArmedHazard]] = {}
        self._composed: dict[int, ComposedAnswer] = {}
        self._next_id = 0
        self.last: EngineStep | None = None
        """The latest step that did anything."""

    @property
    def stats(self) -> EngineStats:
        s, c = self._scheduler, self._counters
        return EngineStats(
            running=len(s.running),
            waiting=len(s.waiting),
            kv_usage=self.kv_usage,
            preemptions=c.preemptions,
            prompt_tokens=c.prompt_tokens,
            generation_tokens=c.generation_tokens,
            finished=dict(c.finished),
            prefix_queries=s.prefix_queries,
            prefix_hits=s.prefix_hits,
        )

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache's blocks that sequences hold, 0-1."""
        return self._scheduler.pool.used / self._scheduler.pool.total

    @property
    def alive(self) -> int:
        """Sequences that are not over: running and waiting."""
        return len(self._scheduler.running) + len(self._scheduler.waiting)

    @property
    def running(self) -> list[Sequence]:
        """Sequences in the batch, the first scheduled first."""
        return list(self._scheduler.running)

    @property
    def idle(self) -> bool:
        return not self._scheduler.running and not self._scheduler.waiting

    def submit(self, request: SimRequest, at: float) -> Sequence:
        """Queue a request that arrived at `at` (engine seconds).

        Raises SimRequestError: 400 when it cannot fit into the context, 500 when a hazard says so.
        """
        room = self._max_output_tokens(request)
        seed = self._rng.getrandbits(62) if request.seed is None else request.seed
        own: list[Sequence] = []  # filled below; a gate is asked while the text is written
        composed = self._composer.compose(request, seed, partial(self._load_gate, own))
        faults = draw_service_failures(
            self.scenario, composed.key, self._next_attempt(composed.key), composed.conditions
        )
        self._refuse_if_failing(faults)
        sequence = Sequence(
            id=self._next_id,
            request=request,
            answer=composed.answer,
            arrived=at,
            max_tokens=min(request.max_tokens, room),
            prompt_tokens=len(request.prompt_ids),
            tokens=len(request.prompt_ids),
        )
        self._next_id += 1
        own.append(sequence)
        self._prepare(sequence, faults)
        self._composed[sequence.id] = composed
        self._scheduler.add(sequence)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """The client went away. Harmless when the sequence is over already."""
        if not sequence.is_done:
            self._scheduler.remove(sequence)
            self._finish_sequence(sequence, "abort")

    def step(self, now: float) -> float:
        """One engine step that begins at `now`; returns its duration in seconds, 0.0 with nothing to do.

        Each sequence in `last.emitted` has got one token, which appears at now + duration.
        """
        scheduler = self._scheduler
        batch = scheduler.schedule(now)
        self._counters.preemptions += batch.preempted
        if not batch.sequences:
            return 0.0
        scheduler.resident += batch.tokens
        duration = self._duration(batch)
        then = now + duration
        emitted, finished = [], []
        for sequence in batch.sequences:
            sequence.computed += sequence.planned
            if sequence.computed < sequence.tokens:
                continue  # a chunk of a prompt: no token yet
            if sequence.first_token is None:
                self._counters.prompt_tokens += sequence.prompt_tokens
                scheduler.publish(sequence)
            if self._emit(sequence, then):
                sequence.finished = then
                finished.append(sequence)
            emitted.append(sequence)
        self._counters.generation_tokens += len(emitted)
        if finished:
            scheduler.drop(finished)
            for sequence in finished:
                self._finish_sequence(sequence, sequence.finish_reason or "stop")
        self.last = EngineStep(now, duration, emitted, finished, batch.tokens, batch.preempted)
        return duration

    def advance_uniform_steps(self, now: float, until: float) -> float:
        """Many equal steps at once while only silent sequences run; returns their seconds, 0.0 for none.

        No step begins at or after `until`. What comes out is what so many calls of `step` give.
        """
        scheduler = self._scheduler
        running = scheduler.running
        if self._slow_hazards or not running or any(s.request.silent is None for s in running):
            return 0.0
        most = min(min(s.request.silent or 0, s.max_tokens) - s.written for s in running) - 1
        if most < 2:
            return 0.0
        spec, n = self.scenario.engine, len(running)
        scale = 1000.0 * spec.speed
        growth = spec.step_ms.per_1k_kv_tokens * n / 1000.0 / scale
        first = (
            spec.step_ms.base
            + spec.step_ms.per_sequence * n
            + spec.step_ms.per_1k_kv_tokens * (scheduler.resident + n) / 1000.0
        ) / scale
        if until < math.inf:
            most = min(most, _count_steps_within(until - now, first, growth))
        steps = scheduler.advance_uniform_steps(most)
        if not steps:
            return 0.0
        duration = steps * first + growth * steps * (steps - 1) / 2.0
        for sequence in running:
            sequence.last_token = now + duration
            sequence.gap = first + growth * (steps - 1)
        self._counters.generation_tokens += steps * n
        return duration

    def _max_output_tokens(self, request: SimRequest) -> int:
        """Output tokens that fit; the refusals and their words are vLLM 0.32's."""
        longest, prompt = self.scenario.model.max_model_len, len(request.prompt_ids)
        if request.max_tokens > longest:
            raise SimRequestError(
                400,
                f"max_tokens={request.max_tokens} cannot be greater than max_model_len={longest}. "
                "Please request fewer output tokens.",
            )
        if prompt >= longest:
            raise SimRequestError(
                400,
                f"This model's maximum context length is {longest} tokens. However, your prompt contains "
                f"{prompt} input tokens, which exceeds this limit even without any output tokens. "
                "Please reduce the length of the input prompt.",
            )
        return longest - prompt

    def _next_attempt(self, key: int) -> int:
        attempt = self._attempts.pop(key, 0) + 1
        self._attempts[key] = attempt
        if len(self._attempts) > _ATTEMPTS_KEPT:
            self._attempts.popitem(last=False)
        return attempt

    def _refuse_if_failing(self, faults: list[ArmedHazard]) -> None:
        arriving = len(self._scheduler.running) + len(self._scheduler.waiting) + 1
        for fault in faults:
            if fault.hazard.symptom == "http_500" and self._load_met(fault, concurrency=arriving):
                self._counters.refused += 1
                raise SimRequestError(500, "Internal server error (simulated)")

    def _prepare(self, sequence: Sequence, faults: list[ArmedHazard]) -> None:
        request = sequence.request
        if request.stop:
            sequence.stop_watch = StopStringMatcher(request.stop)
        if request.repetition_detection is not None:
            sequence.repetition = RepetitionStop(request.repetition_detection)
        cut = [f for f in faults if f.hazard.symptom in ("disconnect", "stall")]
        if cut:
            first = min(cut, key=lambda f: f.at)
            sequence.fault = ServiceFault(first.hazard.symptom, first.at, first.hazard.seconds)
        slow = [f for f in faults if f.hazard.symptom == "slow"]
        if slow:
            self._slow_hazards[sequence.id] = slow

    def _load_gate(self, own: list[Sequence], armed: ArmedHazard) -> Callable[[], bool] | None:
        """The condition that is checked at the onset of a hazard that depends on the load."""
        if not armed.hazard.depends_on_load:
            return None
        return lambda: self._load_met(armed, preemptions=sum(sequence.preemptions for sequence in own))

    def _load_met(self, armed: ArmedHazard, *, concurrency: int | None = None, preemptions: int = 0) -> bool:
        scheduler = self._scheduler
        given = {
            "concurrency": len(scheduler.running) if concurrency is None else concurrency,
            "kv_usage": self.kv_usage,
            "preemptions": preemptions,
        }
        return all(condition.is_met(given[condition.key]) for condition in armed.hazard.depends_on_load)

    def _duration(self, batch: ScheduledBatch) -> float:
        """Seconds of a step; slow hazards multiply it while a sequence that carries one is past its onset."""
        spec = self.scenario.engine
        cost = spec.step_ms
        ms = (
            cost.base
            + cost.per_sequence * len(batch.sequences)
            + cost.per_1k_kv_tokens * self._scheduler.resident / 1000.0
            + cost.per_1k_prefill_tokens * batch.prefill / 1000.0
        )
        if self._slow_hazards:
            factors = [
                armed.hazard.factor
                for sequence in batch.sequences
                for armed in self._slow_hazards.get(sequence.id, ())
                if sequence.written + 1 >= armed.at
                and self._load_met(armed, preemptions=sequence.preemptions)
            ]
            ms *= max(factors, default=1.0)
        return ms / 1000.0 / spec.speed

    def _emit(self, sequence: Sequence, at: float) -> bool:
        """One token of a sequence; True when that was its last. The order of checks is vLLM's."""
        if sequence.first_token is None:
            sequence.first_token = at
        elif sequence.last_token is not None:
            sequence.gap = at - sequence.last_token
        sequence.last_token = at
        sequence.written += 1
        sequence.tokens += 1
        request, written = sequence.request, sequence.written
        if request.silent is not None:
            sequence.finish_reason = (
                "stop" if written >= request.silent else "length" if written >= sequence.max_tokens else None
            )
            return sequence.finish_reason is not None
        token = sequence.answer.next_token()
        if token is None:
            raise RuntimeError("an answer that had ended was asked for more")
        sequence.output.append(token)
        enough = written >= request.min_tokens
        reason: str | None = None
        if token.id == EOS and not request.ignore_eos:
            reason = "stop"
        elif token.id in request.stop_token_ids and enough:
            reason, sequence.stop_reason = "stop", token.id
        elif written >= sequence.max_tokens:
            reason = "length"
        repeated = sequence.repetition is not None and sequence.repetition.update(token.id)
        if repeated and enough and reason is None:
            reason, sequence.stop_reason = "repetition", "repetition_detected"
        watch = sequence.stop_watch
        if watch is not None and reason != "stop" and watch.update(token.id) and enough:
            reason, sequence.stop_reason, sequence.stop_at = "stop", watch.found, watch.found_at
        sequence.finish_reason = reason
        return reason is not None

    def _finish_sequence(self, sequence: Sequence, reason: str) -> None:
        sequence.finish_reason = reason
        finished = self._counters.finished
        finished[reason] = finished.get(reason, 0) + 1
        self._slow_hazards.pop(sequence.id, None)
        composed = self._composed.pop(sequence.id)
        self._composer.remember(composed, [token.id for token in sequence.output])


def _count_steps_within(seconds: float, first: float, growth: float) -> int:
    """How many steps fit wholly into a time, when the first takes `first` and each one `growth` more."""
    if growth <= 0.0:
        return int(seconds / first)
    half = first - growth / 2.0
    return int((math.sqrt(half * half + 2.0 * growth * seconds) - half) / growth)


def with_speed(scenario: Scenario, speed: float) -> Scenario:
    """The same scenario with its engine's time running `speed` times as fast."""
    return replace(scenario, engine=replace(scenario.engine, speed=speed))
