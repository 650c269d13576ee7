"""A model that reasons before it answers, and loops in its reasoning: the budget against the known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.model import RIGORS, AnswerPart, Phase
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.statistics import certified_threshold
from stresstest.statistics.reasoning import reasoning_records
from tests.simulation.campaigns import Campaign, as_it_was, campaign, disagreements, truths
from tests.support.commands import command

pytestmark = pytest.mark.simulated

TRUE_T = 469
"""The T with q(T) = 10 %, over four million draws of the scenario's onsets (lognormal, median 700, sigma 0.3)
and lengths of reasoning (median 600, sigma 0.6)."""


def compare_with_truth(found: Campaign) -> None:
    """Onsets are found at their token (a loop of few words may be called flooding, a few tokens before it)
    and in their part, and the budget is that of the true onsets."""
    assert found.code == 0, found.said
    known = truths(found)
    assert len(disagreements(found, known, within=0)) <= 2
    assert {g.verdict.onset_in for g in found.failing} == {AnswerPart.REASONING}
    budget = found.document["thinking_budget"]
    records = [
        as_it_was(g.to_record(), known[g.key]) for g in found.generations if g.job.phase is Phase.CERTIFY
    ]
    true = certified_threshold(reasoning_records(records), RIGORS["quick"])
    assert budget["threshold"]["tokens"] == pytest.approx(true.tokens, abs=2)
    assert budget["threshold"]["n"] == pytest.approx(true.n, abs=1)
    assert budget["threshold"]["tokens"] <= TRUE_T
    assert budget["safe_tokens"] == budget["threshold"]["tokens"] * 9 // 10
    # max_tokens counts the same failures among all output tokens, of which answers add only healthy ones.
    assert found.document["safe_max_tokens"] >= budget["safe_tokens"]


def test_a_parser_marks_the_reasoning(tmp_path: Path) -> None:
    """The budget is certified from the marked tokens, and `recommend` puts it into the requests."""
    found = campaign("reasoning-loop", tmp_path, "--lang", "en")
    compare_with_truth(found)
    safe = found.document["thinking_budget"]["safe_tokens"]
    assert found.document["thinking_budget"]["supported"] is True
    store = ["--store", str(tmp_path / "campaign.sqlite3"), "--display", "plain"]
    code, out, _ = command(*store, "recommend", "--format", "openai")
    assert code == 0
    assert f'"thinking_token_budget": {safe}' in out
    assert f"Safe thinking budget {safe}" in command(*store, "recommend")[1]


def test_tags_in_the_text_mark_it_as_well(tmp_path: Path) -> None:
    """Without a parser the same model gives a budget too, which its server would refuse in a request."""
    shipped = load_scenario("reasoning-loop")
    path = tmp_path / "tags.toml"
    path.write_text(
        f"""
name = "tags"
summary = "{shipped.summary}"
[model]
reasoning_parser = false
reasoning_tokens = {{ distribution = "lognormal", median = 600, sigma = 0.6 }}
[[hazard]]
symptom = "loop"
part = "reasoning"
onset = {{ distribution = "lognormal", median = 700, sigma = 0.3 }}
""",
        encoding="utf-8",
    )
    found = campaign(str(path), tmp_path, "--lang", "en")
    compare_with_truth(found)
    assert found.document["thinking_budget"]["supported"] is False
