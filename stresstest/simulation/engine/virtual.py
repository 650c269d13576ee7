"""Whole workloads in virtual time: no HTTP, no waiting, thousands of times faster than real time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from stresstest.simulation.engine.engine import Engine
from stresstest.simulation.engine.request import SimRequest, SimRequestError
from stresstest.simulation.engine.scheduling.sequence import Sequence


@dataclass(slots=True)
class VirtualRunResult:
    """What came of a workload. sequences: in the order submitted; refused: requests with their refusal.
    seconds: engine seconds from the first arrival to the end. peak_kv: largest share of the KV cache, 0-1."""

    sequences: list[Sequence] = field(default_factory=list)
    refused: list[tuple[SimRequest, SimRequestError]] = field(default_factory=list)
    seconds: float = 0.0
    peak_kv: float = 0.0


def run_virtual(
    engine: Engine,
    requests: Iterable[SimRequest],
    *,
    concurrency: int | None = None,
    arrivals: Iterable[float] | None = None,
    leave: Callable[[Sequence], bool] | None = None,
) -> VirtualRunResult:
    """Drive requests through an engine until all are over.

    concurrency: closed loop, so many clients that each send the next request when the last one is over.
    arrivals: open loop, the engine second at which each request arrives, not decreasing. Just one of the
    two must be given (ValueError). leave: a client's rule for going away, asked after every token of each
    sequence. A client also goes away where a hazard cuts or stalls its stream.
    """
    if (concurrency is None) == (arrivals is None):
        raise ValueError("give either concurrency or arrivals")
    run = VirtualRunResult()
    if concurrency is not None:
        source: Iterator[tuple[float, SimRequest]] = ((0.0, request) for request in requests)
    else:
        assert arrivals is not None
        source = zip(arrivals, requests, strict=False)
    _drive(engine, source, math.inf if concurrency is None else concurrency, leave, run)
    return run


def _drive(
    engine: Engine,
    source: Iterator[tuple[float, SimRequest]],
    clients: float,
    leave: Callable[[Sequence], bool] | None,
    run: VirtualRunResult,
) -> None:
    upcoming = next(source, None)
    began = now = upcoming[0] if upcoming is not None else 0.0
    while upcoming is not None or not engine.idle:
        while upcoming is not None and upcoming[0] <= now and engine.alive < clients:
            _submit(engine, upcoming[1], now, run)
            upcoming = next(source, None)
        if engine.idle:
            if upcoming is None:
                break
            now = max(now, upcoming[0])
            continue
        until = upcoming[0] if upcoming is not None and engine.alive < clients else math.inf
        now += engine.advance_uniform_steps(now, until) or _step(engine, now, leave)
        run.peak_kv = max(run.peak_kv, engine.kv_usage)
    run.seconds = now - began


def _submit(engine: Engine, request: SimRequest, now: float, run: VirtualRunResult) -> None:
    try:
        run.sequences.append(engine.submit(request, now))
    except SimRequestError as refusal:
        run.refused.append((request, refusal))


def _step(engine: Engine, now: float, leave: Callable[[Sequence], bool] | None) -> float:
    duration = engine.step(now)
    if duration == 0.0:
        raise RuntimeError("the simulated engine cannot go on: nothing fits into its KV cache")
    assert engine.last is not None
    for sequence in engine.last.emitted:
        fault = sequence.fault
        lost = fault is not None and sequence.written >= fault.at_token
        if not sequence.is_done and (lost or (leave is not None and leave(sequence))):
            engine.cancel(sequence)
    return duration
