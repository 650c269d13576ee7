"""The scheduler's arithmetic, and an engine whose answers depend on nothing but their request."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.model import Plane
from stresstest.simulation.engine import (
    Engine,
    Hazard,
    RepetitionDetection,
    Scenario,
    Sequence,
    SimRequest,
    SimRequestError,
    StepTime,
    load_scenario,
    vocabulary,
    with_speed,
)
from stresstest.simulation.engine.scenario.distribution import FixedDistribution, UniformDistribution
from stresstest.simulation.engine.scenario.spec import KV_BLOCK_TOKENS, parse_condition
from stresstest.simulation.engine.scheduling.kv_cache import BlockPool, block_keys
from stresstest.simulation.engine.stopping import StopStringMatcher
from stresstest.simulation.engine.virtual import VirtualRunResult, run_virtual
from tests.support.sim_prompts import alone, asking, ids, silent, sized, text

HEALTHY = load_scenario("healthy")


def _steps(engine: Engine) -> float:
    """Step by step to the end; returns the seconds it took."""
    now = 0.0
    while not engine.idle:
        now += engine.step(now)
    return now


def _timed(**ms: float) -> Scenario:
    return replace(HEALTHY, engine=replace(HEALTHY.engine, step_ms=StepTime(**ms)))


def test_step_time_is_the_formula() -> None:
    """base + per sequence + per 1,000 tokens of KV + per 1,000 prompt tokens, and nothing else."""
    engine = Engine(_timed(base=10, per_sequence=1, per_1k_kv_tokens=2, per_1k_prefill_tokens=100))
    engine.submit(silent(3, prompt=500), 0.0)
    engine.submit(silent(3, prompt=300), 0.0)
    assert engine.step(0.0) == pytest.approx((10 + 2 * 1 + 2 * 0.8 + 100 * 0.798) / 1000)
    assert engine.step(1.0) == pytest.approx((10 + 2 * 1 + 2 * 0.802) / 1000)
    assert engine.step(2.0) == pytest.approx((10 + 2 * 1 + 2 * 0.804) / 1000)
    assert engine.step(3.0) == 0.0


def test_speed_divides_every_step() -> None:
    """`speed` makes the engine's time run faster and changes nothing else."""
    usual, quick = Engine(HEALTHY), Engine(with_speed(HEALTHY, 4.0))
    for engine in (usual, quick):
        engine.submit(silent(50), 0.0)
    assert _steps(usual) == pytest.approx(4.0 * _steps(quick))


def test_prompts_are_computed_in_chunks_beside_decoding() -> None:
    """A long prompt shares the token budget: others get a token each step, it after its last chunk."""
    engine = Engine(sized(HEALTHY, max_num_batched_tokens=512))
    short = engine.submit(silent(20, prompt=10), 0.0)
    engine.step(0.0)
    long = engine.submit(silent(5, prompt=1_200), 1.0)
    waited = 0
    while long.first_token is None:
        before = short.written
        engine.step(1.0)
        waited += 1
        assert short.written == before + 1
    assert waited == 3


def test_first_come_first_served_within_the_limit_of_sequences() -> None:
    """`max_num_seqs` run, the others wait in the order of their arrival."""
    engine = Engine(sized(HEALTHY, max_num_seqs=2))
    sequences = [engine.submit(silent(4 + i), 0.0) for i in range(5)]
    engine.step(0.0)
    assert (engine.stats.running, engine.stats.waiting) == (2, 3)
    _steps(engine)
    starts = [sequence.scheduled for sequence in sequences]
    assert starts == sorted(starts, key=lambda at: at or 0.0)
    assert engine.stats.finished == {"stop": 5}


def test_the_last_scheduled_is_preempted_and_computed_again() -> None:
    """When blocks run out the newest loses its cache, comes first in the queue, and still ends whole."""
    engine = Engine(sized(HEALTHY, kv_cache_tokens=1_024, prefix_caching=False))
    first, second = (engine.submit(silent(480, prompt=200), 0.0) for _ in range(2))
    while not second.preemptions:
        engine.step(0.0)
    assert first.preemptions == 0
    assert (engine.stats.running, engine.stats.waiting) == (1, 1)
    assert engine.stats.kv_usage == pytest.approx(-(-first.computed // KV_BLOCK_TOKENS) / 64)
    third = engine.submit(silent(5, prompt=10), 0.0)
    _steps(engine)
    assert (first.written, second.written, third.written) == (480, 480, 5)
    assert second.scheduled is not None
    assert third.scheduled is not None
    assert engine.stats.preemptions == second.preemptions == 1
    assert engine.stats.kv_usage == 0.0


def test_a_loop_slows_its_neighbours_by_its_cache_alone() -> None:
    """Contagion: a request takes longer beside a sequence with a large cache, by the formula's share."""
    scenario = _timed(base=5, per_sequence=0, per_1k_kv_tokens=1, per_1k_prefill_tokens=0)
    spans = []
    for neighbour in (100, 6_000):
        engine = Engine(scenario)
        beside = engine.submit(silent(2_000, prompt=neighbour), 0.0)
        while beside.written < 10:
            engine.step(0.0)
        run = run_virtual(engine, [silent(100, prompt=100)], arrivals=[0.0])
        (sequence,) = run.sequences
        assert sequence.finished is not None
        spans.append(sequence.finished - (sequence.first_token or 0.0))
    assert spans[1] - spans[0] == pytest.approx(99 * 5.9 / 1000, rel=1e-6)


_WORK = st.lists(
    st.tuples(st.integers(1, 400), st.integers(1, 300), st.floats(0, 3)), min_size=1, max_size=25
)


def _run(
    scenario: Scenario, work: list[tuple[int, int, float]], clients: int | None, leap: bool
) -> VirtualRunResult:
    engine = Engine(scenario) if leap else _Stepping(scenario)
    requests = [silent(tokens, prompt) for tokens, prompt, _ in work]
    if clients is not None:
        return run_virtual(engine, requests, concurrency=clients)
    return run_virtual(engine, requests, arrivals=sorted(at for _, _, at in work))


class _Stepping(Engine):
    def advance_uniform_steps(self, now: float, until: float) -> float:
        return 0.0


@settings(max_examples=40, deadline=None)
@given(work=_WORK, clients=st.one_of(st.none(), st.integers(1, 12)), blocks=st.integers(50, 120))
def test_leaping_is_stepping(work: list[tuple[int, int, float]], clients: int | None, blocks: int) -> None:
    """Many steps at once give the times, preemptions and totals of single steps, also on a full cache."""
    scenario = sized(HEALTHY, kv_cache_tokens=blocks * KV_BLOCK_TOKENS, max_num_seqs=8)
    leapt, stepped = (_run(scenario, work, clients, leap) for leap in (True, False))
    assert leapt.seconds == pytest.approx(stepped.seconds)
    for one, other in zip(leapt.sequences, stepped.sequences, strict=True):
        assert (one.written, one.preemptions) == (other.written, other.preemptions)
        assert one.finished == pytest.approx(other.finished)
        assert one.first_token == pytest.approx(other.first_token)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(work=_WORK, blocks=st.integers(50, 200), cut=st.integers(0, 30))
def test_blocks_are_never_lost_nor_lent_twice(
    work: list[tuple[int, int, float]], blocks: int, cut: int
) -> None:
    """Usage stays within the pool, and an idle engine holds nothing, whatever was preempted or cancelled."""
    engine = Engine(sized(HEALTHY, kv_cache_tokens=blocks * KV_BLOCK_TOKENS))
    sequences = [engine.submit(silent(tokens, prompt), 0.0) for tokens, prompt, _ in work]
    count = 0
    while not engine.idle:
        engine.step(0.0)
        count += 1
        assert 0.0 <= engine.kv_usage <= 1.0
        if count == cut:
            engine.cancel(sequences[-1])
    assert engine.kv_usage == 0.0
    assert all(sequence.is_done for sequence in sequences)


def test_prefix_caching_shares_the_blocks_of_equal_prompts() -> None:
    """A prompt seen before costs no computing but its last block, and its blocks are held once."""
    request = asking(5)
    prompt = len(request.prompt_ids)
    engine = Engine(HEALTHY)
    first = engine.submit(request, 0.0)
    engine.step(0.0)
    held = engine.kv_usage
    second = engine.submit(replace(request, seed=9), 0.0)
    engine.step(0.0)
    assert (first.cached_tokens, second.cached_tokens) == (
        0,
        (prompt - 1) // KV_BLOCK_TOKENS * KV_BLOCK_TOKENS,
    )
    assert engine.kv_usage - held <= 2 / HEALTHY.engine.blocks
    assert (engine.stats.prefix_queries, engine.stats.prefix_hits) == (2 * prompt, second.cached_tokens)


def test_cached_blocks_give_way() -> None:
    """What nobody holds is forgotten, the longest unused first, when its place is needed."""
    pool = BlockPool(4)
    keys = block_keys(tuple(range(64)))
    assert pool.allocate(4)
    pool.publish(keys)
    pool.release(0, keys)
    assert (pool.used, pool.count_cached(keys)) == (0, 4)
    assert pool.allocate(1)
    assert pool.count_cached(keys) == 3
    assert pool.acquire_cached(keys[:3])
    assert not pool.allocate(1)
    assert block_keys(tuple(range(63))) == keys[:3]


def test_the_same_request_is_answered_the_same_whatever_else_runs() -> None:
    """Same prompt and seed, same text: alone, among others, on a crowded engine, in another process."""
    request = asking(12, index=3, max_tokens=4_000)
    quiet = alone(HEALTHY, request)
    crowd = [asking(10, index=i, max_tokens=4_000) for i in range(8)]
    run = run_virtual(Engine(sized(HEALTHY, kv_cache_tokens=4_096), seed=5), [*crowd, request], concurrency=9)
    assert ids(run.sequences[-1]) == ids(quiet)
    assert ids(alone(HEALTHY, replace(request, seed=4))) != ids(quiet)


def test_temperature_zero_knows_no_seed() -> None:
    """Greedy decoding gives one answer; without a seed and above zero answers differ."""
    greedy = [ids(alone(HEALTHY, asking(3, seed=seed, temperature=0.0))) for seed in (1, 2)]
    assert greedy[0] == greedy[1]
    engine = Engine(HEALTHY)
    run = run_virtual(engine, [asking(3, seed=None)] * 2, concurrency=2)
    assert ids(run.sequences[0]) != ids(run.sequences[1])


def test_an_answer_ends_with_eos_after_the_units_asked_for() -> None:
    """A healthy answer is complete, numbered to its end, and says "stop"."""
    sequence = alone(HEALTHY, asking(12))
    assert (sequence.finish_reason, sequence.onset) == ("stop", None)
    assert ids(sequence)[-1] == vocabulary.EOS
    assert [f"Paragrafo {n}." in text(sequence) for n in (1, 12, 13)] == [True, True, False]


def test_max_tokens_and_the_context_end_an_answer_by_length() -> None:
    """The cap counts output tokens; a context that is full ends the answer just so."""
    assert len(alone(HEALTHY, asking(30, max_tokens=77)).output) == 77
    small = replace(HEALTHY, model=replace(HEALTHY.model, max_model_len=300))
    sequence = alone(small, asking(30, max_tokens=300))
    assert sequence.prompt_tokens + len(sequence.output) == 300
    assert sequence.finish_reason == "length"


def test_ignore_eos_goes_on_with_further_units() -> None:
    """After its natural end an answer is continued up to the cap, healthily."""
    sequence = alone(HEALTHY, asking(3, ignore_eos=True, max_tokens=900))
    assert (sequence.finish_reason, len(sequence.output), sequence.onset) == ("length", 900, None)
    assert "Paragrafo 4." in text(sequence)
    assert vocabulary.EOS not in ids(sequence)


def test_min_tokens_puts_the_end_off() -> None:
    """No EOS before `min_tokens`; then the answer ends by itself."""
    short = alone(HEALTHY, asking(3))
    sequence = alone(HEALTHY, asking(3, min_tokens=600))
    assert len(short.output) < 600 <= len(sequence.output) < 800
    assert sequence.finish_reason == "stop"
    assert vocabulary.EOS not in ids(sequence)[:-1]


def test_stop_strings_end_the_answer_where_they_stand() -> None:
    """A stop string across tokens is found at once; `stop_at` says where the text is to be cut."""
    sequence = alone(HEALTHY, asking(12, stop=("never", "afo 4.")))
    assert (sequence.finish_reason, sequence.stop_reason) == ("stop", "afo 4.")
    assert sequence.stop_at is not None
    data = b"".join(vocabulary.token_bytes(i) for i in ids(sequence))
    assert data[sequence.stop_at :].startswith(b"afo 4.")
    assert data.endswith(b"Paragrafo 4.")


@given(words=st.text("ab", max_size=30), stop=st.text("ab", min_size=1, max_size=5))
def test_a_stop_string_is_found_as_soon_as_it_is_there(words: str, stop: str) -> None:
    """The watch agrees with a search in the whole text, byte by byte."""
    watch = StopStringMatcher((stop,))
    found = next((i for i, byte in enumerate(words.encode()) if watch.update(byte)), None)
    at = words.find(stop)
    assert (found, watch.found_at) == ((None, None) if at < 0 else (at + len(stop) - 1, at))


def test_json_is_written_as_it_is() -> None:
    """A ready answer arrives unchanged, whatever the scenario does to text."""
    scenario = load_scenario("loop-at-900")
    sequence = alone(scenario, asking(3, json_text='{"città": ["Roma", "Bari"], "n": 3}'))
    assert text(sequence) == '{"città": ["Roma", "Bari"], "n": 3}'
    assert sequence.finish_reason == "stop"


def test_requests_that_do_not_fit_are_refused_as_by_vllm() -> None:
    """400, in vLLM's words, for a prompt or a cap beyond the context."""
    small = replace(HEALTHY, model=replace(HEALTHY.model, max_model_len=128))
    for request, words in (
        (SimRequest((7,) * 200, 10), "maximum context length is 128 tokens"),
        (SimRequest((7,) * 20, 200), "max_tokens=200 cannot be greater than max_model_len=128"),
    ):
        with pytest.raises(SimRequestError, match=words) as caught:
            Engine(small).submit(request, 0.0)
        assert caught.value.status == 400


def test_repetition_detection_ends_a_loop() -> None:
    """A looping answer stops with "repetition" soon after its third copy; without it, it runs to the cap."""
    scenario = load_scenario("loop-at-900")
    request = asking(75, max_tokens=3_000)
    endless = alone(scenario, request)
    assert (endless.finish_reason, endless.symptom) == ("length", "loop")
    stopped = alone(scenario, replace(request, repetition_detection=RepetitionDetection(600, 1, 3)))
    assert stopped.finish_reason == "repetition"
    assert stopped.onset == endless.onset
    assert stopped.onset is not None
    assert stopped.onset < len(stopped.output) < 3_000
    assert ids(stopped) == ids(endless)[: len(stopped.output)]


def _service(symptom: str, **options: object) -> Scenario:
    hazard = Hazard(symptom, Plane.SYSTEM, **options)  # type: ignore[arg-type]
    return replace(HEALTHY, hazards=(hazard,))


def test_errors_come_at_their_rate_and_a_retry_draws_again() -> None:
    """http_500 takes its share of requests; the same request tried again is not bound to fail again."""
    engine = Engine(_service("http_500", probability=0.3))
    outcomes = []
    for index in range(60):
        tries = 0
        while tries < 20:
            tries += 1
            with contextlib.suppress(SimRequestError):
                engine.cancel(engine.submit(asking(3, index=index), 0.0))
                break
        outcomes.append(tries)
    assert 8 <= sum(tries > 1 for tries in outcomes) <= 30
    assert max(outcomes) < 20


def test_errors_under_load_only() -> None:
    """A condition on concurrency counts the arriving request: alone it never fails."""
    scenario = load_scenario("errors-under-load")
    requests = [asking(6, index=index, max_tokens=60) for index in range(40)]
    assert not run_virtual(Engine(scenario), requests, concurrency=6).refused
    assert run_virtual(Engine(scenario), requests, concurrency=12).refused


@pytest.mark.parametrize("symptom", ["disconnect", "stall"])
def test_cut_and_stalled_streams_are_left_at_their_token(symptom: str) -> None:
    """The fault is known to the server by its token; in virtual time the client goes away there."""
    scenario = _service(symptom, onset=UniformDistribution(20, 60), probability=0.5)
    run = run_virtual(Engine(scenario), [asking(6, index=index) for index in range(24)], concurrency=8)
    lost = [sequence for sequence in run.sequences if sequence.fault is not None]
    assert 4 <= len(lost) <= 20
    for sequence in run.sequences:
        fault = sequence.fault
        assert sequence.finish_reason == ("stop" if fault is None else "abort")
        if fault is not None:
            assert (fault.kind, fault.at_token) == (symptom, len(sequence.output))


def test_slow_multiplies_steps_from_its_onset_on() -> None:
    """`slow` stretches the steps of everybody while a request that carries it is past the onset."""
    scenario = _service("slow", onset=FixedDistribution(50.0), factor=5.0)
    engine = Engine(scenario)
    sequence = engine.submit(asking(9, max_tokens=100), 0.0)
    gaps, now = [], 0.0
    while not engine.idle:
        now += engine.step(now)
        gaps.append(sequence.gap or 0.0)
    assert gaps[49] / gaps[48] == pytest.approx(5.0, rel=0.01)
    assert gaps[40] == pytest.approx(gaps[48], rel=0.01)


def test_load_decides_at_the_onset() -> None:
    """A failure of concurrency alone is there at eight at once and gone alone: same requests, same seeds."""
    scenario = load_scenario("concurrency-only")
    requests = [asking(30, index=index, max_tokens=1_500) for index in range(8)]
    crowd = run_virtual(Engine(scenario), requests, concurrency=8).sequences
    assert [sequence.symptom for sequence in crowd] == ["flooding"] * 8
    assert all(alone(scenario, request).onset is None for request in requests[:3])


def test_clients_that_leave() -> None:
    """`leave` closes a stream; the engine counts it as aborted and frees its cache."""

    def after_ten(sequence: Sequence) -> bool:
        return len(sequence.output) >= 10

    engine = Engine(HEALTHY)
    run = run_virtual(engine, [asking(6, index=i) for i in range(3)], concurrency=2, leave=after_ten)
    assert [len(sequence.output) for sequence in run.sequences] == [10, 10, 10]
    assert (engine.stats.finished, engine.kv_usage) == ({"abort": 3}, 0.0)


def test_a_cache_too_small_for_one_context_does_not_start() -> None:
    """As vLLM: an engine that could stand still for ever is refused at the start."""
    short = replace(HEALTHY, engine=replace(HEALTHY.engine, kv_cache_tokens=HEALTHY.model.max_model_len - 1))
    with pytest.raises(ValueError, match="max_model_len"):
        Engine(short)


def test_give_concurrency_or_arrivals() -> None:
    """A workload is closed-loop or open-loop, never both or none."""
    with pytest.raises(ValueError, match="either"):
        run_virtual(Engine(HEALTHY), [])


def test_conditions_on_load_read_as_said() -> None:
    """`requires` on kv_usage arms at a full cache and not below."""
    condition = parse_condition("kv_usage", ">=0.9")
    assert condition.depends_on_load
    assert [condition.is_met(share) for share in (0.89, 0.9, 1.0)] == [False, True, True]


def test_a_hazard_can_wait_for_a_preemption_of_its_own_sequence() -> None:
    """`requires` on preemptions counts those of the sequence that writes, not of the whole engine."""
    after = Hazard(
        "gibberish", Plane.SYSTEM, FixedDistribution(100), requires=(parse_condition("preemptions", ">=1"),)
    )
    full = sized(replace(HEALTHY, hazards=(after,)), kv_cache_tokens=2_048)
    single = alone(full, asking(max_tokens=1_200))
    assert (single.preemptions, single.onset) == (0, None)
    requests = [asking(index=i, max_tokens=1_200) for i in range(6)]
    crowd = run_virtual(Engine(full), requests, concurrency=6).sequences
    assert any(sequence.onset is not None for sequence in crowd)
    assert all(sequence.preemptions for sequence in crowd if sequence.onset is not None)
