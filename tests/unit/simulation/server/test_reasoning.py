"""The simulated model that reasons: on the wire as vLLM sends it, with a parser and without; its truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.errors import UsageError
from stresstest.model import AnswerPart, SymptomKind, Token
from stresstest.simulation.engine import Engine, SimRequest, vocabulary
from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.simulation.engine.scenario.spec import Hazard, ModelSpec, Scenario
from stresstest.simulation.engine.virtual import run_virtual
from tests.support.simulated_servers import post, served

PROMPT = "Write a story in 4 numbered paragraphs. Number each one as 'Paragraph N'. Topic: a lighthouse"
REASONING = Scenario("test", "x", model=ModelSpec(reasoning_tokens=FixedDistribution(120)))
ASK: dict[str, Any] = {
    "model": "any",
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": 900,
    "seed": 3,
}


def tagged(scenario: Scenario) -> Scenario:
    return replace(scenario, model=replace(scenario.model, reasoning_parser=False))


def message(scenario: Scenario) -> dict[str, Any]:
    """The whole answer to `ASK`."""
    with served(scenario) as running:
        found: dict[str, Any] = post(running.base_url, "/chat/completions", ASK)["choices"][0]["message"]
        return found


def test_a_parser_sends_the_reasoning_apart_and_tags_stand_in_the_text() -> None:
    """Both are one text: what the model writes does not depend on how the server hands it over."""
    parsed, tags = message(REASONING), message(tagged(REASONING))
    assert parsed["reasoning"].strip()
    assert "think>" not in parsed["reasoning"] + parsed["content"]
    assert tags["reasoning"] is None
    assert tags["content"] == f"<think>\n{parsed['reasoning']}\n</think>\n\n{parsed['content']}"


@pytest.mark.parametrize("part", AnswerPart)
@pytest.mark.parametrize("parser", [True, False])
def test_the_truth_counts_output_tokens_in_either_part(part: AnswerPart, parser: bool) -> None:
    """A loop in the reasoning never comes to an answer; one in the answer counts the reasoning before it."""
    loop = Hazard("loop", onset=FixedDistribution(60), part=part)
    scenario = replace(REASONING, hazards=(loop,))
    request = SimRequest(tuple(vocabulary.encode_chat([("user", PROMPT)])), 900, seed=3)
    engine = Engine(scenario if parser else tagged(scenario))
    [sequence] = run_virtual(engine, [request], concurrency=1).sequences
    tokens = [Token(vocabulary.decode([w.id]), w.id, reasoning=w.reasoning) for w in sequence.output]
    verdict = detect_tokens(tokens, DetectorSpec(language="en"), "length")
    assert (verdict.symptom, verdict.onset_in) == (SymptomKind.LOOP, part)
    assert verdict.onset == sequence.onset


def test_a_hazard_strikes_in_one_of_two_parts(tmp_path: Path) -> None:
    """Another word is refused with the two there are."""
    path = tmp_path / "s.toml"
    path.write_text('name = "s"\n[[hazard]]\nsymptom = "loop"\npart = "thought"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="reasoning, answer"):
        load_scenario(str(path))
