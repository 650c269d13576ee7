"""Scenario files: the contract, its defaults, and complaints that help."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.model import Plane
from stresstest.simulation.engine import load_scenario, shipped_scenarios
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    FixedDistribution,
    LognormalDistribution,
    UniformDistribution,
    WeibullDistribution,
    conditional_quantile,
)
from stresstest.simulation.engine.scenario.spec import CONDITIONS, ConditionValue, parse_condition

EXAMPLE = """
name = "example"
summary = "An example"
[model]
max_model_len = 8192
tokens_per_unit = 60
languages = ["it", "en"]
[engine]
kv_cache_tokens = 16384
max_num_seqs = 8
step_ms = { base = 10, per_sequence = 0.5, per_1k_kv_tokens = 0.25 }
speed = 2.0
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 900, sigma = 0.25 }
probability = 0.5
requires = { repetition_penalty = "<1.15", language_constraint = false, structure = "rigid", task = "!=qa" }
"""


def _load(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_the_contract_is_read(tmp_path: Path) -> None:
    """Every key of the scenario file arrives where it belongs."""
    scenario = load_scenario(_load(tmp_path, EXAMPLE))
    (hazard,) = scenario.hazards
    assert (scenario.name, scenario.summary) == ("example", "An example")
    assert (scenario.model.max_model_len, scenario.model.tokens_per_unit) == (8192, 60.0)
    assert scenario.model.languages == ("it", "en")
    assert (scenario.engine.kv_cache_tokens, scenario.engine.max_num_seqs, scenario.engine.speed) == (
        16384,
        8,
        2.0,
    )
    assert (scenario.engine.step_ms.base, scenario.engine.step_ms.per_1k_kv_tokens) == (10.0, 0.25)
    assert (hazard.symptom, hazard.plane, hazard.probability) == ("loop", Plane.DECODING, 0.5)
    assert hazard.onset == LognormalDistribution(900.0, 0.25)
    given: dict[str, ConditionValue | None] = {
        "repetition_penalty": 1.0,
        "language_constraint": False,
        "structure": "rigid",
        "task": "narrative",
    }
    assert hazard.is_armed(given)
    for key, other in (
        ("repetition_penalty", 1.15),
        ("language_constraint", True),
        ("structure", "open"),
        ("task", "qa"),
    ):
        assert not hazard.is_armed(given | {key: other})


def test_every_key_but_the_name_has_a_default(tmp_path: Path) -> None:
    """A file that only names itself is a healthy server; a hazard only needs its symptom."""
    assert load_scenario(_load(tmp_path, 'name = "bare"')).hazards == ()
    text = 'name = "x"\n[[hazard]]\nsymptom = "loop"\n[[hazard]]\nsymptom = "http_500"'
    loop, error = load_scenario(_load(tmp_path, text)).hazards
    assert (loop.plane, loop.probability, error.plane) == (Plane.DECODING, 1.0, Plane.SYSTEM)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[engine]", "[enigne]"), ["'enigne'", "'engine'?"]),
        (("probability = 0.5", "probabillity = 0.5"), ["hazard[1].probabillity", "'probability'?"]),
        (("probability = 0.5", "probability = 1.5"), ["hazard[1].probability", "from 0 to 1"]),
        (('symptom = "loop"', 'symptom = "lop"'), ["hazard[1].symptom", "http_500", "'loop'?"]),
        (('plane = "decoding"', 'plane = "decodng"'), ["hazard[1].plane", "system, decoding, context"]),
        (('"lognormal"', '"normal"'), ["hazard[1].onset.distribution", "weibull", "'lognormal'?"]),
        (("median = 900", "mean = 900"), ["hazard[1].onset.mean", "median, sigma", "'median'?"]),
        (("median = 900", "scale = 900"), ["hazard[1].onset.scale", "a lognormal has median and sigma"]),
        (("sigma = 0.25", "sigma = -1"), ["hazard[1].onset.sigma", "from 0 to 5"]),
        (('"<1.15"', '"<<1.15"'), ["hazard[1].requires.repetition_penalty", '"<1.15"']),
        (("language_constraint = false", 'language_constraint = "no"'), ["true or false"]),
        (
            ('structure = "rigid"', 'structure = "loose"'),
            ["hazard[1].requires.structure", '"rigid" or "open"'],
        ),
        (('task = "!=qa"', 'taks = "qa"'), ["requires.taks", "'task'?"]),
        (('["it", "en"]', '["it", "eng"]'), ["model.languages", "pt"]),
        (("kv_cache_tokens = 16384", "kv_cache_tokens = 4096"), ["engine.kv_cache_tokens", "8192"]),
        (("base = 10", "basis = 10"), ["engine.step_ms.basis", "'base'?"]),
        (("max_num_seqs = 8", "max_num_seqs = 0.5"), ["engine.max_num_seqs", "whole number"]),
        (("[[hazard]]", "[hazard]"), ["hazard", "list of tables"]),
        (('name = "example"', ""), ["name is missing"]),
        (('summary = "An example"', 'summary = "An example'), ["not valid TOML"]),
    ],
)
def test_complaints_name_file_key_and_what_is_allowed(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    """A user can fix the file from the sentence alone."""
    assert change[0] in EXAMPLE
    with pytest.raises(UsageError) as caught:
        load_scenario(_load(tmp_path, EXAMPLE.replace(change[0], change[1], 1)))
    for word in ["mine.toml", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_can_be_required(condition: str) -> None:
    """`requires` knows each key of the contract, as a value or comparison, met and not met."""
    if condition == "language_constraint":
        required = parse_condition(condition, True)
        assert (required.is_met(True), required.is_met(False)) == (True, False)
    elif condition in ("structure", "language", "task"):
        required = parse_condition(condition, "rigid")
        assert (required.is_met("rigid"), required.is_met("open"), required.is_met(None)) == (
            True,
            False,
            False,
        )
    else:
        for text, met in (("<1.15", 1.1), (">=0.9", 0.9), ("==0", 0.0), ("!=1", 0.5)):
            assert parse_condition(condition, text).is_met(met)
        assert not parse_condition(condition, "<1.15").is_met(1.15)
        assert not parse_condition(condition, 0.5).is_met(0.4)


def test_an_unknown_scenario_is_a_usage_error_with_a_suggestion() -> None:
    """A slip of the fingers shows the names there are."""
    with pytest.raises(UsageError, match="loop-at-900") as caught:
        load_scenario("loop-at-90")
    assert caught.value.hint == "did you mean 'loop-at-900'?"


def test_shipped_scenarios() -> None:
    """All that ship are valid, named after their file, told in one line, and cover every failure."""
    scenarios = shipped_scenarios()
    for scenario in scenarios:
        assert load_scenario(scenario.name) == scenario
        assert scenario.summary != scenario.name
    covered = {hazard.symptom for scenario in scenarios for hazard in scenario.hazards}
    assert covered >= {
        *("loop", "near_loop", "flooding", "language_drift", "gibberish", "entropy_shift", "structure_break"),
        *("truncation", "http_500", "disconnect", "stall"),
    }
    named = {scenario.name for scenario in scenarios}
    assert named >= {"healthy", "qwen2.5-7b-awq-it", "mistral-7b-fp8-it", "mistral-7b-fp8-fr", "contagion"}


_DISTRIBUTIONS: st.SearchStrategy[Distribution] = st.one_of(
    st.builds(FixedDistribution, st.floats(1, 1e4)),
    st.builds(UniformDistribution, st.floats(1, 900), st.floats(1e3, 1e4)),
    st.builds(LognormalDistribution, st.floats(1, 1e4), st.floats(0.01, 2)),
    st.builds(WeibullDistribution, st.floats(1, 1e4), st.floats(0.3, 10)),
)


@given(distribution=_DISTRIBUTIONS, share=st.floats(0.001, 0.999))
def test_quantile_and_cdf_are_inverse(distribution: Distribution, share: float) -> None:
    """The known truth: P(onset <= its quantile) is the share, exactly."""
    value = distribution.quantile(share)
    if isinstance(distribution, FixedDistribution):
        assert (distribution.cdf(value), distribution.cdf(math.nextafter(value, 0))) == (1.0, 0.0)
    else:
        assert distribution.cdf(value) == pytest.approx(share, abs=1e-6)


@given(distribution=_DISTRIBUTIONS, before=st.floats(0, 1e4), share=st.floats(0.001, 0.999))
@example(distribution=LognormalDistribution(2.0, 1.0), before=math.ulp(0.0), share=0.5)
def test_an_onset_drawn_anew_is_later(distribution: Distribution, before: float, share: float) -> None:
    """A continuation never fails before it begins, and where there is room follows the conditional law."""
    value = conditional_quantile(distribution, before, share)
    assert value >= before + 1
    passed = distribution.cdf(before)
    if not isinstance(distribution, FixedDistribution) and passed < 0.99 and value > before + 1:
        assert (distribution.cdf(value) - passed) / (1 - passed) == pytest.approx(share, abs=1e-4)
