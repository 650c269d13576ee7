"""A model whose records, functions or rows fail: the limit that `run` certifies against the known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.model import RIGORS, Phase
from stresstest.statistics import certified_threshold
from tests.simulation.campaigns import as_it_was, campaign, truths

pytestmark = pytest.mark.simulated

UNIT = 150
"""Tokens of a long unit: an onset may be dated so far before the place where the failure was planted."""


@pytest.mark.parametrize(
    ("task", "symptom", "form", "called"),
    [
        ("catalogue", "near_loop", "shuffled", {"near_loop", "loop"}),
        ("code", "structure_break", "list", {"loop", "structure_break", "flooding"}),
        ("json", "structure_break", "blanks", {"loop", "structure_break", "flooding"}),
    ],
)
def test_a_limit_for_structured_answers(
    task: str, symptom: str, form: str, called: set[str], tmp_path: Path
) -> None:
    """Each onset is found in its unit under its name, and T is not above what the true onsets give."""
    path = tmp_path / "early.toml"
    path.write_text(
        f"""
name = "early"
[[hazard]]
symptom = "{symptom}"
form = "{form}"
onset = {{ distribution = "lognormal", median = 300, sigma = 0.25 }}
""",
        encoding="utf-8",
    )
    found = campaign(str(path), tmp_path, "--lang", "en", "--task", task, "--horizon", "2500")
    assert found.code == 0, found.said
    known = truths(found)
    for generation in found.failing:
        verdict, truth = generation.verdict, known[generation.key]
        assert truth.onset is not None
        assert verdict.onset is not None
        assert -UNIT <= verdict.onset - truth.onset <= 3, generation.key
        assert str(verdict.symptom) in called
    certifying = [g for g in found.generations if g.job.phase is Phase.CERTIFY]
    assert sum(g.verdict.degenerate for g in certifying) >= 0.9 * len(certifying)
    true = certified_threshold([as_it_was(g.to_record(), known[g.key]) for g in certifying], RIGORS["quick"])
    threshold = found.document["threshold"]
    assert threshold["certified"]
    assert true.tokens is not None
    assert true.tokens - UNIT <= threshold["tokens"] <= true.tokens + 3


def test_healthy_structured_answers(tmp_path: Path) -> None:
    """Nothing is found in them, and the limit is what was looked at."""
    found = campaign("healthy", tmp_path, "--lang", "it", "--task", "json", "--horizon", "1500")
    assert found.code == 0, found.said
    assert found.failing == []
    assert found.document["threshold"]["censored_at"] == found.document["threshold"]["tokens"]
