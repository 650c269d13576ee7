"""The panel over recorded generations of real vLLM, judged by the grammar's parser. Fast: no server.

The recordings are what `make e2e-full` wrote; they hold the detectors to what they reached on real
output, on every change.
"""

from __future__ import annotations

import json

import pytest

from stresstest.model import SymptomKind
from tests.e2e.full import RECORDINGS, UNDERTRAINED, campaigns, onsets_path, path_of
from tests.e2e.judging import Score, judge, quantile
from tests.e2e.records import read

NARRATIVE = [r for r in RECORDINGS if r.keep and r.task == "narrative"]
TECHNICAL = [r for r in RECORDINGS if r.keep and r.task == "technical"]


@pytest.fixture(scope="module")
def narrative() -> dict[str, Score]:
    return {r.name: judge(read(path_of(r))) for r in NARRATIVE}


def test_there_are_at_least_two_hundred_recorded_generations(narrative: dict[str, Score]) -> None:
    """The judgement below stands on enough outputs, of distinct prompts."""
    cases = narrative["lab-narrative-it"].cases
    assert len(cases) >= 200
    assert len({c.record.prompt_id for c in cases}) == len(cases)


def test_the_lab_model_is_clean_below_its_limit(narrative: dict[str, Score]) -> None:
    """The instrument: hardly a malformed sentence before the true onset, which lies in a narrow band."""
    score = narrative["lab-narrative-it"]
    bad, sentences = score.malformed_before()
    assert bad / sentences < 0.005
    onsets = sorted(c.true_onset for c in score.degenerate if c.true_onset is not None)
    assert onsets[-len(onsets) // 10] - onsets[len(onsets) // 10] < 150


def test_no_healthy_generation_is_accused(narrative: dict[str, Score]) -> None:
    """Healthy by the parser, degenerate by the panel: not one, in any language or decoding."""
    for score in (*narrative.values(), *(judge(read(path_of(r))) for r in TECHNICAL)):
        assert [c.record.key for c in score.false_alarms] == []


def test_failures_are_found_and_placed(narrative: dict[str, Score]) -> None:
    """At least 90 % found; onset within two sentences before to five after the true one for 80 %."""
    for name in ("lab-narrative-it", "lab-narrative-en", "lab-narrative-fr"):
        score = narrative[name]
        assert len(score.found) >= 0.9 * len(score.degenerate), name
        assert len(score.placed) >= 0.8 * len(score.degenerate), name


def test_the_bound_lies_below_the_true_quantile(narrative: dict[str, Score]) -> None:
    """200 resampled campaigns: at least 85 % of the bounds below the true 10 % quantile of 500 others."""
    truth = json.loads(onsets_path(RECORDINGS[-1]).read_text())
    assert len(truth["true_onset"]) >= 500
    true = quantile(truth["true_onset"], truth["length"], 0.10)
    below, ratio, _ = campaigns(narrative["lab-narrative-it"], true)
    assert below >= 0.85
    assert ratio >= 0.70


def test_the_undertrained_sibling_shows_other_symptoms() -> None:
    """Loops and flooding at temperature 0: what the well-trained model does not show."""
    greedy = [r for r in UNDERTRAINED if r.decoding.temperature == 0]
    kinds = {
        s.kind
        for r in greedy
        for c in judge(read(path_of(r))).cases
        for s in c.verdict.symptoms
        if s.confirmed
    }
    assert {SymptomKind.LOOP, SymptomKind.FLOODING} <= kinds
