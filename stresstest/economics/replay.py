"""Replays a workload in the virtual-time engine, to estimate its duration with other output lengths.

The engine is that of the simulator (continuous batching over a paged KV cache, modelled on vLLM's scheduler),
with a step time fitted to the server. Only lengths matter; no text is generated. Results are modelled, never
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stresstest.economics.modelled import is_closed_loop, peak_in_flight
from stresstest.economics.timeline import group_spans_by_batch
from stresstest.model.cost import RequestSpan
from stresstest.simulation.engine import Engine, EngineSpec, ModelSpec, Scenario, SimRequest, run_virtual
from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS

UNBOUNDED_SEQUENCES = 1 << 20
"""max_num_seqs of an engine without a limit on concurrent sequences."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One request: prompt tokens, output tokens and arrival time in seconds."""

    prompt_tokens: int
    output_tokens: int
    arrival: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """durations: seconds from arrival to end, in order of the requests; None if the engine rejected one.
    seconds: for the whole workload."""

    durations: tuple[float | None, ...]
    seconds: float


def replay_workload(spec: EngineSpec, work: Sequence[ReplayRequest], concurrency: int | None) -> ReplayResult:
    """Run a workload through the engine. concurrency: number of clients in a closed loop; None: an open loop
    with the requests' own arrival times."""
    longest = max((each.prompt_tokens + each.output_tokens for each in work), default=0) + KV_BLOCK_TOKENS
    if spec.kv_cache_tokens < longest:
        spec = replace(spec, kv_cache_tokens=longest)
    scenario = Scenario("replay", "a workload scheduled again", ModelSpec(max_model_len=longest), spec)
    # A range takes the same memory whatever its length, and only the length of a silent prompt matters.
    requests = [
        SimRequest(range(each.prompt_tokens), each.output_tokens, silent=each.output_tokens) for each in work
    ]
    arrivals = [each.arrival for each in work] if concurrency is None else None
    run = run_virtual(Engine(scenario), requests, concurrency=concurrency, arrivals=arrivals)
    ended = [s.finished - s.arrived if s.finished is not None else None for s in run.sequences]
    return ReplayResult(tuple(ended), run.seconds)


def replay_request(span: RequestSpan) -> ReplayRequest:
    """A recorded request for the replay; an unknown prompt length counts as one token."""
    return ReplayRequest(max(1, span.prompt_tokens or 1), max(1, span.output_tokens), span.submitted)


def count_clients(spans: Sequence[RequestSpan]) -> int | None:
    """Number of clients that sent these requests in a closed loop; None for an open loop."""
    return peak_in_flight(spans) if is_closed_loop(spans) else None


def group_by_batch(spans: Sequence[RequestSpan]) -> list[list[RequestSpan]]:
    """Requests grouped by batch label if there are several labels, otherwise by busy period."""
    labelled = group_spans_by_batch(spans)
    if len(labelled) > 1:
        return [sorted(group, key=lambda span: span.submitted) for group in labelled.values()]
    return busy_periods(spans)


def busy_periods(spans: Sequence[RequestSpan]) -> list[list[RequestSpan]]:
    """Requests grouped into busy periods, separated by idle gaps longer than the median duration."""
    ordered = sorted(spans, key=lambda span: span.submitted)
    durations = sorted(span.duration for span in ordered)
    pause = durations[len(durations) // 2] if durations else 0.0
    found: list[list[RequestSpan]] = []
    until = 0.0
    for span in ordered:
        if not found or span.submitted > until + pause:
            found.append([])
            until = span.end
        found[-1].append(span)
        until = max(until, span.end)
    return found
