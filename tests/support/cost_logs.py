"""Logs of requests with a known truth: text and times of the simulated engine in virtual time."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from stresstest.model.cost import RequestSpan
from stresstest.simulation.engine import (
    Engine,
    EngineSpec,
    ModelSpec,
    Scenario,
    SimRequest,
    load_scenario,
    run_virtual,
    vocabulary,
)
from stresstest.simulation.engine.scenario.distribution import LognormalDistribution

CAP = 700


def small_contagion(share: float = 0.12) -> Scenario:
    """The contagion scenario with short answers and many loops, so that a log of it is quickly written."""
    known = load_scenario("contagion")
    [hazard] = known.hazards
    return replace(
        known,
        model=replace(known.model, max_model_len=2_048, answer_tokens=LognormalDistribution(110.0, 0.35)),
        hazards=(replace(hazard, onset=LognormalDistribution(70.0, 0.3), probability=share),),
    )


@lru_cache(maxsize=4)
def rows(requests: int = 48, concurrency: int = 8, share: float = 0.12) -> tuple[dict[str, Any], ...]:
    """Plain lines of a log: a batch sent by so many clients, some of it looping to the cap."""
    engine = Engine(small_contagion(share))
    asked = [
        SimRequest(
            tuple(vocabulary.encode_chat([("user", f"Write about the river and the town number {n}.")])),
            CAP,
            seed=n,
        )
        for n in range(requests)
    ]
    run = run_virtual(engine, asked, concurrency=concurrency)
    found = []
    for sequence in run.sequences:
        ids = [written.id for written in sequence.output if written.id != vocabulary.EOS]
        found.append(
            {
                "id": f"r{sequence.id}",
                "response": vocabulary.decode(ids),
                "finish_reason": sequence.finish_reason,
                "max_tokens": CAP,
                "prompt_tokens": sequence.prompt_tokens,
                "completion_tokens": sequence.written,
                "start": 1_795_291_200.0 + sequence.arrived,
                "end": 1_795_291_200.0 + (sequence.finished or 0.0),
                "onset": sequence.onset,
            }
        )
    return tuple(found)


def spans(
    lengths: list[tuple[int, int]], concurrency: int, spec: EngineSpec, *, cap: int | None = None
) -> tuple[list[RequestSpan], float]:
    """(requests, seconds of the whole) of a batch of (prompt tokens, output tokens) on a known engine.

    What reaches the cap is a loop.
    """
    longest = max(sum(pair) for pair in lengths) + 64
    engine = Engine(Scenario("known", "", ModelSpec(max_model_len=longest), spec))
    asked = [SimRequest((n, *[0] * (prompt - 1)), out, silent=out) for n, (prompt, out) in enumerate(lengths)]
    run = run_virtual(engine, asked, concurrency=concurrency)
    found = []
    for sequence, (prompt, out) in zip(run.sequences, lengths, strict=True):
        loops = cap is not None and out >= cap
        assert sequence.finished is not None
        span = RequestSpan(
            id=str(sequence.id),
            submitted=sequence.arrived,
            end=sequence.finished,
            output_tokens=out,
            first_token=sequence.first_token,
            prompt_tokens=prompt,
            max_tokens=cap,
            degenerate=loops,
            loops=loops,
            onset=out // 4 if loops else None,
            capped=loops,
        )
        found.append(span)
    return found, run.seconds
