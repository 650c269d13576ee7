"""The engine's part of the cost, and the scheduler's truth in virtual time through the same functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from benchmarks.cost_contagion import batch_pair, pool, step_truth, total, truth, worlds
from stresstest.economics.steps import step_ratio
from stresstest.model.cost import CostArm, RequestSpan

Speed = Callable[[int, bool], float]


def batch(
    pair: int, arm: CostArm, step: Speed, *, tokens: int = 300, loop_from: int | None = 100, size: int = 6
) -> list[RequestSpan]:
    """Requests that all begin together and get one token a step; step(running, looping) in seconds."""
    clock, marks = 0.0, []
    for token in range(1, 4 * tokens + 1):
        looping = loop_from is not None and token >= loop_from
        clock += step(size if token <= tokens else 1, looping)
        marks.append((token, clock))
    found = []
    for number in range(size):
        loops = number == 0 and loop_from is not None
        length = len(marks) if loops else tokens
        found.append(
            RequestSpan(
                id=str(number), submitted=0.0, start=0.0, first_token=marks[0][1], end=marks[length - 1][1],
                output_tokens=length, prompt_tokens=50, degenerate=loops, loops=loops,
                onset=loop_from if loops else None,
                onset_at=marks[(loop_from or 1) - 1][1] if loops else None,
                batch=f"{pair}/{arm}", arm=arm, pair=pair, marks=tuple(marks[:length]),
            )
        )  # fmt: skip
    return found


def measured(step: Speed, pairs: int = 4) -> list[RequestSpan]:
    found = []
    for pair in range(pairs):
        found += batch(pair, CostArm.LOOPS, step)
        found += batch(pair, CostArm.CAPPED, step, loop_from=None)
    return found


def test_a_step_that_loops_make_longer_is_seen_as_such() -> None:
    """Every step takes a third longer while a loop is alive, at the same load: the ratio is 4/3."""
    ratio = step_ratio(measured(lambda running, looping: 0.03 * (4 / 3 if looping else 1.0)))
    assert ratio is not None
    assert ratio.value == pytest.approx(4 / 3, rel=0.01)
    assert ratio.lo is not None
    assert ratio.hi is not None
    assert ratio.lo <= ratio.value <= ratio.hi


def test_a_step_that_depends_on_the_load_alone_gives_one() -> None:
    """Matching on the running count: a loop that merely outlives the batch slows nobody down."""
    ratio = step_ratio(measured(lambda running, looping: 0.01 * running))
    assert ratio is not None
    assert ratio.value == pytest.approx(1.0, rel=0.01)


def test_the_same_numbers_every_time() -> None:
    """The bootstrap is seeded: two analyses of one measurement agree to the last digit."""
    spans = measured(lambda running, looping: 0.03 + 0.005 * looping)
    assert step_ratio(spans) == step_ratio(spans)


def test_without_loops_or_without_healthy_company_nothing_is_measured() -> None:
    """No moment inside a loop, or nobody healthy in it: None, not one."""
    quiet = batch(0, CostArm.LOOPS, lambda running, looping: 0.01, loop_from=None)
    alone = batch(0, CostArm.LOOPS, lambda running, looping: 0.01, size=1)
    assert step_ratio(quiet) is None
    assert step_ratio(alone) is None


@pytest.mark.slow
def test_the_schedulers_truth_is_found_in_virtual_time() -> None:
    """Contagion in the scheduler: the ratio of paired batches is above one, and the step ratio is near the
    engine's own; without contagion both are one exactly."""
    _, crowded, still = worlds()
    spans = [s for n in range(5) for s in batch_pair(crowded, Random(f"test {n}"), n, stepping=True)]
    slow, step, true = total(spans), step_ratio(spans), step_truth(crowded, spans)
    assert slow is not None
    assert slow.value > 1.01
    assert step is not None
    assert true is not None
    assert true > 1.1
    assert step.value == pytest.approx(true, rel=0.05)
    calm = replace(still, size=30)
    assert truth(pool(calm, Random("calm"), 5))["healthy slowdown"] == pytest.approx(1.0, abs=1e-9)
