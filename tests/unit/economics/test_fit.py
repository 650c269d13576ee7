"""The fitted engine: it recovers a known one, and predicts workloads that it has not seen."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from stresstest.economics.fit import MIN_REQUESTS, FittedEngine, fit_engine
from stresstest.economics.replay import group_by_batch, replay_request, replay_workload
from stresstest.economics.timeline import wall_clock
from stresstest.model.cost import RequestSpan
from stresstest.simulation.engine import EngineSpec, StepTime, load_scenario
from tests.support.cost_logs import spans
from tests.support.paths import DATA

CAP = 3_000
TRUE = replace(load_scenario("contagion").engine, prefix_caching=False)


def workload(requests: int, rate: float, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    loops = set(rng.sample(range(requests), round(rate * requests)))
    return [
        (rng.randint(50, 400), CAP if n in loops else min(CAP - 1, int(rng.lognormvariate(6.2, 0.4))))
        for n in range(requests)
    ]


@pytest.fixture(scope="module")
def fitted() -> FittedEngine:
    known, _ = spans(workload(100, 0.04, 1), 12, TRUE, cap=CAP)
    found = fit_engine(known)
    assert found is not None
    return found


def test_a_known_step_time_is_recovered(fitted: FittedEngine) -> None:
    """From spans alone, without marks: base, per-sequence and KV time come out near the engine's own."""
    true, found = TRUE.step_ms, fitted.spec.step_ms
    assert fitted.concurrency == 12
    assert found.base == pytest.approx(true.base, rel=0.15)
    assert found.per_1k_kv_tokens == pytest.approx(true.per_1k_kv_tokens, rel=0.10)
    twelve = true.base + 12 * true.per_sequence
    assert found.base + 12 * found.per_sequence == pytest.approx(twelve, rel=0.05)
    assert fitted.error < 0.02
    assert abs(fitted.wall_error) < 0.03


@pytest.mark.parametrize(("clients", "rate"), [(4, 0.0), (12, 0.15), (32, 0.05)])
def test_a_held_back_batch_is_predicted(fitted: FittedEngine, clients: int, rate: float) -> None:
    """Other loads and other shares of loops than were fitted: the wall clock is right within 5 %."""
    unseen, seconds = spans(workload(80, rate, 7), clients, TRUE, cap=CAP)
    predicted = replay_workload(fitted.spec, [replay_request(span) for span in unseen], clients)
    assert predicted.seconds == pytest.approx(seconds, rel=0.05)


def test_arrivals_of_their_own_are_kept() -> None:
    """An open loop far below capacity: the engine is fitted, and the wall clock is that of the arrivals."""
    from stresstest.simulation.engine import Engine, ModelSpec, Scenario, SimRequest, run_virtual

    rng = random.Random(3)
    engine = Engine(Scenario("open", "", ModelSpec(max_model_len=4_096), TRUE))
    at, arrivals = 0.0, []
    for _ in range(60):
        at += rng.expovariate(1.5)
        arrivals.append(at)
    asked = [SimRequest((n,) * 50, 2_000, silent=rng.randint(100, 400)) for n in range(60)]
    run = run_virtual(engine, asked, arrivals=arrivals)
    known = [
        RequestSpan(str(s.id), s.arrived, s.finished or 0.0, s.written, prompt_tokens=50, degenerate=False)
        for s in run.sequences
    ]
    found = fit_engine(known)
    assert found is not None
    assert found.concurrency is None
    assert found.error < 0.05
    again = replay_workload(found.spec, [replay_request(span) for span in known], found.concurrency)
    assert again.seconds == pytest.approx(arrivals[-1], rel=0.25)


def test_tokens_that_arrive_in_heaps_do_not_mislead() -> None:
    """A client short of processor time sees all tokens at the end: durations still tell enough."""
    known, seconds = spans(workload(60, 0.05, 4), 8, TRUE, cap=CAP)
    heaped = [
        replace(
            span,
            first_token=span.end - 0.002,
            marks=((1, span.end - 0.002), (span.output_tokens, span.end)),
        )
        for span in known
    ]
    found = fit_engine(heaped)
    assert found is not None
    assert found.error < 0.05
    again = replay_workload(found.spec, [replay_request(span) for span in known], 8)
    assert again.seconds == pytest.approx(seconds, rel=0.03)


def recorded(name: str) -> tuple[list[RequestSpan], int]:
    """(requests, KV cache tokens) of a measurement on real vLLM."""
    found = json.loads((DATA / "cost_vllm_0_32.json").read_text("utf-8"))[name]
    spans = [
        RequestSpan(
            id=str(n),
            submitted=submitted,
            first_token=first,
            end=end,
            prompt_tokens=prompt,
            output_tokens=output,
            degenerate=False,
            planted=bool(planted),
            batch=f"{pair}/{arm}",
            arm=arm,
            pair=pair,
        )
        for n, (pair, arm, submitted, first, end, prompt, output, planted) in enumerate(found["requests"])
    ]
    return spans, found["kv_cache_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", ["twelve_at_once", "six_at_once"])
def test_held_back_batches_of_real_vllm_are_predicted(name: str, half: int) -> None:
    """Fitted to every second pair of batches on real vLLM, the engine predicts the others within 20 %."""
    spans, kv = recorded(name)
    found = fit_engine([s for s in spans if (s.pair or 0) % 2 == half], kv_cache_tokens=kv)
    assert found is not None
    unseen = group_by_batch([s for s in spans if (s.pair or 0) % 2 != half])
    measured = sum(wall_clock(group) for group in unseen)
    assert len(unseen) >= 2
    predicted = sum(
        replay_workload(found.spec, [replay_request(s) for s in group], found.concurrency).seconds
        for group in unseen
    )
    assert predicted == pytest.approx(measured, rel=0.20)


def test_prompts_of_millions_of_tokens_take_no_more_steps_than_answers() -> None:
    """A fit replays a log dozens of times: 275 KB whose prompts have 9.9 million tokens each took minutes."""
    known, _ = spans(workload(40, 0.1, 1), 8, TRUE, cap=CAP)
    usual = fit_engine(known)
    assert usual is not None
    assert usual.spec.max_num_batched_tokens == 8_192
    huge = fit_engine([replace(span, prompt_tokens=9_900_000) for span in known])
    assert huge is not None
    assert 40 * 9_900_000 / huge.spec.max_num_batched_tokens <= 20_000


def test_too_few_requests_fit_nothing() -> None:
    """Below the floor there is no engine, rather than a bad one."""
    known, _ = spans(workload(MIN_REQUESTS - 1, 0.0, 1), 4, EngineSpec())
    assert fit_engine(known) is None


def test_slower_steps_are_slower() -> None:
    """The fit follows the server: the same batch on an engine half as fast gives twice the step time."""
    slow = replace(TRUE, step_ms=StepTime(*(2 * each for each in _numbers(TRUE.step_ms))))
    one = fit_engine(spans(workload(30, 0.05, 2), 8, TRUE, cap=CAP)[0])
    two = fit_engine(spans(workload(30, 0.05, 2), 8, slow, cap=CAP)[0])
    assert one is not None
    assert two is not None
    at_eight = [f.spec.step_ms.base + 8 * f.spec.step_ms.per_sequence for f in (one, two)]
    assert at_eight[1] == pytest.approx(2 * at_eight[0], rel=0.05)


def _numbers(step: StepTime) -> tuple[float, float, float, float]:
    return step.base, step.per_sequence, step.per_1k_kv_tokens, step.per_1k_prefill_tokens
