"""Hazards: who carries them, where they strike, and what happens to them when an answer is continued."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stresstest.model import Plane, SymptomKind
from stresstest.simulation.engine import (
    Engine,
    Hazard,
    ModelSpec,
    Scenario,
    Sequence,
    load_scenario,
    vocabulary,
)
from stresstest.simulation.engine.hazards import (
    LatentAnswer,
    armed_hazards,
    continue_answer,
    draw_answer,
    stable_uniform,
)
from stresstest.simulation.engine.scenario.distribution import (
    FixedDistribution,
    LognormalDistribution,
    UniformDistribution,
    WeibullDistribution,
)
from stresstest.simulation.engine.scenario.spec import parse_condition
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.simulation.engine.writing.failure_types import text_symptoms
from tests.support.scenario_truth import TruthConditions, true_onsets, true_quantile
from tests.support.sim_prompts import alone, asking, ids, prompt_ids, shipped, text

CONSTRAINT = shipped("narrative").language("it").language_constraint or ""
LOOP = Hazard(
    "loop",
    Plane.DECODING,
    FixedDistribution(700.0),
    requires=(parse_condition("repetition_penalty", "<1.15"),),
)
LIMIT = Hazard("structure_break", Plane.CONTEXT, FixedDistribution(1_200.0))


def _scenario(*hazards: Hazard, **model: object) -> Scenario:
    return Scenario("test", "test", ModelSpec(**model), hazards=hazards)  # type: ignore[arg-type]


def _fails(sequence: Sequence) -> bool:
    return sequence.onset is not None


def _cut_at_unit(sequence: Sequence, before: int) -> tuple[int, ...]:
    """The answer's ids up to the last unit that ends before a token."""
    breaks = [i for i, token in enumerate(ids(sequence)[:before]) if vocabulary.token_bytes(token) == b"\n\n"]
    return tuple(ids(sequence)[: breaks[-1] + 1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(map(SymptomKind, text_symptoms())))
def test_every_symptom_strikes_where_it_was_drawn(kind: SymptomKind) -> None:
    """The truth of a sequence is the drawn onset, put off at most to the next place where it can begin."""
    scenario = _scenario(Hazard(kind, Plane.DECODING, FixedDistribution(600.0)))
    for index in range(4):
        sequence = alone(scenario, asking(30, index=index, max_tokens=1_500))
        assert sequence.symptom == kind
        assert sequence.onset is not None
        assert 540 <= sequence.onset <= 740


def test_before_the_onset_the_text_is_that_of_a_healthy_server_in_kind() -> None:
    """An answer that carries nothing is the same with and without the hazard in the scenario."""
    rare = replace(LOOP, probability=1e-12)
    assert ids(alone(_scenario(rare), asking(9))) == ids(alone(_scenario(), asking(9)))


def test_probability_is_the_share_of_answers_that_carry_it() -> None:
    """Carriers are drawn from prompt and seed: their share and their onsets follow the file."""
    scenario = _scenario(Hazard("loop", onset=LognormalDistribution(900.0, 0.25), probability=0.3))
    latents = [draw_answer(scenario, seed) for seed in range(4_000)]
    onsets = sorted(latent.onsets[0] for latent in latents if latent.onsets[0] is not None)
    assert 0.27 < len(onsets) / 4_000 < 0.33
    assert onsets[len(onsets) // 2] == pytest.approx(900, rel=0.04)
    assert LognormalDistribution(900.0, 0.25).cdf(onsets[len(onsets) // 10]) == pytest.approx(0.1, abs=0.03)


def test_draws_are_even_and_the_same_everywhere() -> None:
    """Uniform numbers come from a hash with fixed bytes: no seed of Python's, no machine enters."""
    shares = sorted(stable_uniform(seed, "onset", 0) for seed in range(2_000))
    assert max(abs(share - (i + 0.5) / 2_000) for i, share in enumerate(shares)) < 0.04
    assert stable_uniform(1, "onset", 0) == pytest.approx(0.2286513, abs=1e-7)


def test_requirements_arm_and_disarm() -> None:
    """The same request loops below the penalty and completes above it; the truth says so."""
    assert alone(_scenario(LOOP), asking(30)).symptom == "loop"
    assert alone(_scenario(LOOP), asking(30, repetition_penalty=1.1)).symptom == "loop"
    cleared = alone(_scenario(LOOP), asking(30, repetition_penalty=1.15))
    assert (cleared.symptom, cleared.finish_reason) == (None, "stop")


def test_prompt_conditions() -> None:
    """Language constraint, structure, language and task are read from the prompt."""
    for key, value, options in (
        ("language_constraint", True, {"system": CONSTRAINT}),
        ("structure", "open", {"open_structure": True}),
        ("language", "en", {"language": "en"}),
        ("task", "technical", {"task": "technical"}),
    ):
        hazard = Hazard("gibberish", onset=FixedDistribution(150.0), requires=(parse_condition(key, value),))
        assert alone(_scenario(hazard), asking(9, max_tokens=300, **options)).symptom == "gibberish", key
        assert alone(_scenario(hazard), asking(9, max_tokens=300)).symptom is None, key


def test_a_stuck_text_stays_stuck() -> None:
    """A loop that never ends is not interrupted by a later hazard; one that ends leaves room for it."""
    later = Hazard("gibberish", onset=FixedDistribution(1_500.0))
    stuck = alone(_scenario(LOOP, later), asking(75, max_tokens=3_000))
    assert stuck.symptom == "loop"
    assert len(set(ids(stuck)[-600:])) < 200
    assert text(stuck)[-400:].isascii() or "Paragrafo" in text(stuck)


def test_a_failure_of_load_that_does_not_come_hides_nothing() -> None:
    """On an idle server the loop behind a load failure shows, and behind the loop the context limit."""
    scenario = load_scenario("masked-triple")
    crowd = run_virtual(
        Engine(scenario), [asking(60, index=i, max_tokens=700) for i in range(8)], concurrency=8
    )
    assert [sequence.symptom for sequence in crowd.sequences] == ["gibberish"] * 8
    assert alone(scenario, asking(60, max_tokens=2_000)).symptom == "loop"
    cleared = alone(scenario, asking(60, max_tokens=3_500, repetition_penalty=1.2))
    assert cleared.symptom == "structure_break"


def test_a_full_cache_fails_in_a_crowd_only() -> None:
    """KV exhaustion preempts and then breaks text at eight at once; the same requests are whole alone."""
    scenario = load_scenario("kv-exhaustion")
    requests = [asking(90, index=index, max_tokens=4_000) for index in range(8)]
    engine = Engine(scenario)
    crowd = run_virtual(engine, requests, concurrency=8)
    assert engine.stats.preemptions > 0
    assert {sequence.symptom for sequence in crowd.sequences} >= {"gibberish"}
    assert alone(scenario, requests[0]).symptom is None


def test_a_prompt_beyond_the_context_limit_fails_at_once() -> None:
    """A fresh prompt that is longer than the limit leaves nothing healthy to write."""
    system = " ".join(["You are a careful writer of long stories."] * 60)
    hazard = replace(LIMIT, symptom="gibberish", onset=FixedDistribution(300.0))
    assert alone(_scenario(hazard), asking(9, system=system, max_tokens=200)).onset == 1


def test_a_flood_is_remembered_in_linear_time() -> None:
    """A fork on a server that has flooded before is recognised, and the flood costs nothing."""
    flood = Hazard(
        "flooding", onset=FixedDistribution(300.0), requires=(parse_condition("temperature", ">=0.9"),)
    )
    engine = Engine(_scenario(flood, LOOP))
    run_virtual(engine, [asking(75, max_tokens=6_000)], concurrency=1)
    first = run_virtual(engine, [asking(75, index=1, temperature=0.5, max_tokens=900)], concurrency=1)
    begun = _cut_at_unit(first.sequences[0], 650)
    request = asking(75, index=1, answer=begun, seed=4, temperature=0.5, max_tokens=600)
    again = run_virtual(engine, [request], concurrency=1).sequences[0]
    assert (again.onset or 0) + len(begun) == pytest.approx(700, abs=25)


def test_a_fork_carries_what_the_answer_carried() -> None:
    """Continued one unit before its loop, under another seed, an answer loops at the same place (arm B);
    with the penalty raised it does not (arm D)."""
    engine = Engine(_scenario(LOOP))
    first = run_virtual(engine, [asking(75, max_tokens=900)], concurrency=1).sequences[0]
    assert first.onset is not None
    begun = _cut_at_unit(first, first.onset - 30)
    for seed in (11, 12):
        request = asking(75, answer=begun, seed=seed, max_tokens=900)
        again = run_virtual(engine, [request], concurrency=1).sequences[0]
        assert again.symptom == "loop"
        assert (again.onset or 0) + len(begun) == pytest.approx(700, abs=25)
        cleared = run_virtual(engine, [replace(request, repetition_penalty=1.2)], concurrency=1).sequences[0]
        assert cleared.symptom is None


def test_a_fork_numbers_on() -> None:
    """The continuation goes on with the next unit and ends at the number asked for."""
    engine = Engine(_scenario())
    whole = run_virtual(engine, [asking(12)], concurrency=1).sequences[0]
    begun = _cut_at_unit(whole, len(whole.output) // 2)
    rest = run_virtual(engine, [asking(12, answer=begun, seed=5)], concurrency=1).sequences[0]
    pattern = shipped("narrative").language("it").unit_regex
    assert pattern is not None
    numbers = [int(n) for n in pattern.findall(vocabulary.decode(begun) + text(rest))]
    assert numbers == list(range(1, 13))
    assert rest.finish_reason == "stop"


def test_a_decoding_hazard_counts_text_that_was_cut_away() -> None:
    """With only the last units in context (arm C) a decoding failure comes where it would have come."""
    engine = Engine(_scenario(LOOP))
    first = run_virtual(engine, [asking(75, max_tokens=900)], concurrency=1).sequences[0]
    begun = _cut_at_unit(first, 680)
    last = _last_units(begun, 3)
    sequence = run_virtual(engine, [asking(75, answer=last, seed=3)], concurrency=1).sequences[0]
    assert sequence.symptom == "loop"
    assert (sequence.onset or 0) + len(begun) == pytest.approx(700, abs=25)


def test_a_context_hazard_is_put_off_by_truncation() -> None:
    """The same cut moves a context limit away by the tokens that are no longer in context."""
    engine = Engine(_scenario(LIMIT))
    first = run_virtual(engine, [asking(75, max_tokens=1_800)], concurrency=1).sequences[0]
    assert first.onset == pytest.approx(1_200 - first.prompt_tokens, abs=130)
    begun = _cut_at_unit(first, (first.onset or 0) - 30)
    last = _last_units(begun, 3)
    whole, short = (
        run_virtual(engine, [asking(75, answer=answer, seed=3, max_tokens=2_500)], concurrency=1).sequences[0]
        for answer in (begun, last)
    )
    assert whole.prompt_tokens + (whole.onset or 0) == pytest.approx(1_200, abs=130)
    assert short.prompt_tokens + (short.onset or 0) == pytest.approx(1_200, abs=130)
    assert (short.onset or 0) - (whole.onset or 0) > 500


def test_a_longer_system_prompt_brings_the_context_limit_nearer() -> None:
    """Tokens of the prompt count for plane `context`, and only there."""
    system = " ".join(["You are a careful writer of long stories."] * 30)
    hazard = replace(LIMIT, symptom="gibberish")
    near, far = (alone(_scenario(hazard), asking(40, system=given)) for given in (system, None))
    assert near.prompt_tokens - far.prompt_tokens > 200
    assert (far.onset or 0) - (near.onset or 0) == near.prompt_tokens - far.prompt_tokens


def _last_units(answer: tuple[int, ...], count: int) -> tuple[int, ...]:
    breaks = [i for i, token in enumerate(answer) if vocabulary.token_bytes(token) == b"\n\n"]
    return answer[breaks[-1 - count] + 1 :]


def test_what_an_intervention_held_off_is_drawn_anew_later() -> None:
    """Past its old onset a hazard strikes at a new place, by its distribution given that it is later."""
    scenario = _scenario(
        Hazard("loop", onset=UniformDistribution(500.0, 1_500.0)),
        replace(LIMIT, onset=FixedDistribution(900.0)),
    )
    latent = LatentAnswer(1, (700.0, 900.0))
    assert continue_answer(scenario, latent, 2, 600, 650).onsets == (700.0, 900.0)
    anew = [continue_answer(scenario, latent, seed, 1_000, 850).onsets for seed in range(400)]
    assert all(1_000 < (loop or 0) <= 1_500 and limit == 900.0 for loop, limit in anew)
    assert sum(loop or 0 for loop, _ in anew) / 400 == pytest.approx(1_250, abs=30)
    (strike,) = armed_hazards(_scenario(scenario.hazards[0]), LatentAnswer(1, (700.0,)), {}, 640, 2_000)
    assert strike.at == 60


def test_an_unknown_continuation_counts_its_numbers() -> None:
    """A server that never saw the answer takes the missing units at their usual length."""
    scenario = _scenario(replace(LOOP, onset=FixedDistribution(2_500.0)), tokens_per_unit=60.0)
    last = tuple(vocabulary.encode("Paragrafo 40. C'era una volta un re che amava il mare.\n\n"))
    sequence = alone(scenario, asking(75, answer=last, max_tokens=400))
    assert sequence.onset == pytest.approx(2_500 - 39 * 60 - len(last), abs=25)


def test_early_ends_come_in_good_order_and_follow_the_onset() -> None:
    """A natural early end is `short`, not degenerate, and the correlation ties it to the onset."""
    loop = Hazard("loop", onset=LognormalDistribution(3_000.0, 0.2))
    tied = _scenario(loop, early_end=LognormalDistribution(600.0, 0.2), early_end_correlation=0.9)
    sequence = alone(tied, asking(75))
    assert (sequence.finish_reason, sequence.symptom) == ("stop", None)
    assert 300 < len(sequence.output) < 1_300
    latents = [draw_answer(tied, seed) for seed in range(300)]
    order = sorted(latents, key=lambda latent: latent.onsets[0] or 0.0)
    assert sum(latent.end or 0 for latent in order[:100]) < 0.85 * sum(
        latent.end or 0 for latent in order[-100:]
    )


def test_plain_questions_get_short_answers() -> None:
    """A prompt that asks for no units ends after `answer_tokens`, at the end of a sentence."""
    request = replace(
        asking(3), prompt_ids=tuple(vocabulary.encode_chat([("user", "Perché il cielo è blu?")]))
    )
    sequence = alone(_scenario(answer_tokens=FixedDistribution(200.0)), request)
    assert sequence.finish_reason == "stop"
    assert 200 <= len(sequence.output) < 280
    assert text(sequence).rstrip().endswith((".", "!", "?"))


def test_the_true_quantile_is_the_distributions() -> None:
    """Monte Carlo agrees with the closed form where there is one, and with q's definition elsewhere."""
    law = WeibullDistribution(1_000.0, 4.0)
    alone_ = _scenario(Hazard("loop", onset=law))
    assert true_quantile(alone_, TruthConditions(), 0.05, draws=200_000) == pytest.approx(
        law.quantile(0.05), rel=0.01
    )
    half = _scenario(Hazard("loop", onset=law, probability=0.5))
    assert true_quantile(half, TruthConditions(), 0.05, draws=200_000) == pytest.approx(
        law.quantile(0.1), rel=0.01
    )
    assert true_quantile(half, TruthConditions(), 0.6, draws=20_000) is None
    ended = true_onsets(half, TruthConditions(units=10, tokens_per_unit=70.0), draws=50_000)
    share = law.cdf(700) / 2
    assert ended.risk_at(699) == pytest.approx(share, abs=0.01)
    assert ended.risk_at(700) == pytest.approx(1.0, abs=1e-9)


def test_the_true_quantile_knows_conditions_and_context() -> None:
    """Disarmed hazards do not count, the first of several does; a context limit comes a prompt earlier."""
    both = _scenario(LOOP, LIMIT)
    assert true_quantile(both, TruthConditions(), 0.05, draws=1_000) == 699
    cleared = TruthConditions(repetition_penalty=1.2, prompt_tokens=150)
    assert true_quantile(both, cleared, 0.05, draws=1_000) == 1_049
    assert true_quantile(load_scenario("concurrency-only"), TruthConditions(), 0.05, draws=1_000) is None


@pytest.mark.slow
def test_the_engine_agrees_with_the_true_quantile() -> None:
    """Onsets of generated text follow the law that calibration takes for the truth."""
    scenario = _scenario(Hazard("gibberish", onset=LognormalDistribution(300.0, 0.3), probability=0.7))
    requests = [asking(30, index=index, max_tokens=700) for index in range(150)]
    run = run_virtual(Engine(scenario), requests, concurrency=64, leave=_fails)
    onsets = [sequence.onset for sequence in run.sequences if sequence.onset is not None]
    truth = true_onsets(scenario, TruthConditions(units=30), draws=100_000)
    for tokens in (220, 300, 420):
        assert sum(onset <= tokens for onset in onsets) / 150 == pytest.approx(
            truth.risk_at(tokens), abs=0.11
        )


SOURCE = [
    # scenario, options, symptom, onset between, units at most begun by then
    ("qwen2.5-7b-awq-it", {"units": 75}, "loop", (800, 1_000), (14, 19)),
    (
        "qwen2.5-7b-awq-it",
        {"units": 75, "repetition_penalty": 1.2},
        "language_drift",
        (5_000, 5_500),
        (60, 72),
    ),
    *(
        (
            "qwen2.5-7b-awq-it",
            {"units": units, "repetition_penalty": 1.2, "system": CONSTRAINT},
            "structure_break",
            (5_000, 5_500),
            (58, 72),
        )
        for units in (75, 100, 150, 200)
    ),
    ("mistral-7b-fp8-it", {"units": 75, "repetition_penalty": 1.2}, "gibberish", (170, 250), (3, 5)),
    (
        "mistral-7b-fp8-fr",
        {"units": 75, "repetition_penalty": 1.2, "language": "fr"},
        "gibberish",
        (260, 350),
        (3, 5),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "symptom", "between", "units"), SOURCE)
def test_the_source_case_is_written_as_told(
    name: str, options: dict[str, Any], symptom: str, between: tuple[int, int], units: tuple[int, int]
) -> None:
    """The scenarios of the source case do what the source saw, at eight at once and without a preemption."""
    engine = Engine(load_scenario(name))
    count = 8 if options["units"] == 150 else 3
    requests = [asking(index=index, max_tokens=8_192, **options) for index in range(count)]
    run = run_virtual(engine, requests, concurrency=8, leave=_fails)
    pattern = shipped("narrative").language(options.get("language", "it")).unit_regex
    assert pattern is not None
    for sequence in run.sequences:
        assert sequence.symptom == symptom
        assert between[0] <= (sequence.onset or 0) <= between[1]
        assert units[0] <= int(pattern.findall(text(sequence))[-1]) <= units[1]
    assert engine.stats.preemptions == 0
    assert run.peak_kv < 0.95


def test_the_source_case_is_healthy_where_it_was() -> None:
    """Technical text of Mistral's at 400 tokens, and Qwen's 75 paragraphs, are written to their end."""
    technical = asking(4, task="technical", repetition_penalty=1.2)
    sequence = alone(load_scenario("mistral-7b-fp8-it"), technical)
    assert (sequence.symptom, sequence.finish_reason) == (None, "stop")
    assert 300 < len(sequence.output) < 600
    drifting = alone(load_scenario("qwen2.5-7b-awq-it"), asking(75, repetition_penalty=1.2))
    assert drifting.finish_reason == "stop"
    assert "Paragrafo 75" in text(drifting) or "Paragraph 75" in text(drifting)


def test_the_source_case_floods_by_seven_thousand() -> None:
    """Under the language constraint the text is all flood before token 7,000 of the answer."""
    request = asking(150, repetition_penalty=1.2, system=CONSTRAINT, max_tokens=7_600)
    sequence = alone(load_scenario("qwen2.5-7b-awq-it"), request)
    assert len(set(ids(sequence)[7_000:7_400])) < 40
    assert len(set(ids(sequence)[6_000:6_400])) > 80


def test_prompt_ids_of_the_tests_are_chats() -> None:
    """The tests' own prompts are what a server makes of a chat request."""
    assert prompt_ids(3)[-1] == vocabulary.ASSISTANT
