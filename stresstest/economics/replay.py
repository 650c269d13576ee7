"""A workload scheduled again in the virtual-time engine: how long it takes with other lengths and sizes.

The engine is the simulator's (continuous batching over a paged KV cache, after vLLM's scheduler), its step
time fitted to the server. Only lengths count, no text is written. What comes out is modelled, never measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.economics.modelled import closed_loop, in_flight
from stresstest.economics.timeline import batches
from stresstest.model.cost import Span
from stresstest.simulation.engine import Engine, EngineSpec, ModelSpec, Scenario, SimRequest, run_virtual
from stresstest.simulation.engine.scenario import BLOCK

UNBOUNDED = 1 << 20
"""Sequences that run at once where nobody said how many may."""


@dataclass(frozen=True, slots=True)
class Work:
    """One request: tokens of its prompt, tokens that it writes, and the second at which it arrives."""

    prompt_tokens: int
    output_tokens: int
    arrival: float = 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """durations: seconds of each request from its arrival, in order, None for one that the engine refused.
    seconds: of the whole. peak_kv: largest share of the KV cache in use, 0-1."""

    durations: tuple[float | None, ...]
    seconds: float
    peak_kv: float


def replay(spec: EngineSpec, work: Sequence[Work], concurrency: int | None) -> Replayed:
    """Run a workload through the engine. concurrency: so many clients; None: each at its own arrival."""
    longest = max((each.prompt_tokens + each.output_tokens for each in work), default=0) + BLOCK
    if spec.kv_cache_tokens < longest:
        spec = replace(spec, kv_cache_tokens=longest)
    scenario = Scenario("replay", "a workload scheduled again", ModelSpec(max_model_len=longest), spec)
    requests = [
        SimRequest((n,) + (0,) * (each.prompt_tokens - 1), each.output_tokens, silent=each.output_tokens)
        for n, each in enumerate(work)
    ]
    arrivals = [each.arrival for each in work] if concurrency is None else None
    run = run_virtual(Engine(scenario), requests, concurrency=concurrency, arrivals=arrivals)
    ended = [s.finished - s.arrived if s.finished is not None else None for s in run.sequences]
    return Replayed(tuple(ended), run.seconds, run.peak_kv)


def work_of(span: Span) -> Work:
    """A recorded request as work; one without a known prompt length counts as one token."""
    return Work(max(1, span.prompt_tokens or 1), max(1, span.output_tokens), span.submitted)


def clients(spans: Sequence[Span]) -> int | None:
    """How many clients sent these requests, each the next one when the last was over; None for arrivals
    that did not wait for that."""
    return in_flight(spans) if closed_loop(spans) else None


def groups_of(spans: Sequence[Span]) -> list[list[Span]]:
    """Requests in batches: by their labels where there are several, else by busy periods."""
    labelled = batches(spans)
    if len(labelled) > 1:
        return [sorted(group, key=lambda span: span.submitted) for group in labelled.values()]
    return busy_periods(spans)


def busy_periods(spans: Sequence[Span]) -> list[list[Span]]:
    """Requests in groups, between which nothing was running for longer than a typical request takes."""
    ordered = sorted(spans, key=lambda span: span.submitted)
    durations = sorted(span.duration for span in ordered)
    pause = durations[len(durations) // 2] if durations else 0.0
    found: list[list[Span]] = []
    until = 0.0
    for span in ordered:
        if not found or span.submitted > until + pause:
            found.append([])
            until = span.end
        found[-1].append(span)
        until = max(until, span.end)
    return found
