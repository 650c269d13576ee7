"""The panel over recorded generations of real vLLM, judged by the grammar's parser. Fast: no server.

The recordings are what `make e2e-full` wrote; they hold the detectors to what they reached on real
output, on every change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from stresstest.model import SymptomKind
from tests.e2e.document import campaigns, first_version
from tests.e2e.judging import Score, judge, quantile
from tests.e2e.recordings import LAB, SHORT, TRUTH, UNDERTRAINED, UNSEEN, Recording
from tests.e2e.records import read

pytestmark = pytest.mark.slow

NARRATIVE = [r for r in LAB if r.task == "narrative"]
TECHNICAL = [r for r in LAB if r.task == "technical"]


@pytest.fixture(scope="module")
def narrative() -> dict[str, Score]:
    return scores(NARRATIVE)


@pytest.fixture(scope="module")
def shorter() -> dict[str, Score]:
    return scores(SHORT)


@pytest.fixture(scope="module")
def undertrained() -> dict[str, Score]:
    return scores(UNDERTRAINED)


def scores(recordings: Iterable[Recording]) -> dict[str, Score]:
    """Panel and parser over whole recordings."""
    return {r.name: judge(read(r.path)) for r in recordings}


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
    for score in (*narrative.values(), *scores(TECHNICAL).values()):
        assert [c.record.key for c in score.false_alarms] == []


def test_what_stands_before_the_true_onset_is_not_accused(
    narrative: dict[str, Score], shorter: dict[str, Score]
) -> None:
    """Failing outputs, cut right before the parser's onset, are healthy texts of the full trained length."""
    found = [narrative["lab-narrative-en"], narrative["lab-narrative-fr"], *shorter.values()]
    parts = [score.healthy_parts() for score in found]
    assert sum(n for _, n in parts) >= 150
    assert sum(accused for accused, _ in parts) == 0


def test_failures_are_found_and_placed(narrative: dict[str, Score]) -> None:
    """At least 98 % found, onset within two sentences before to five after the true one for 95 %."""
    for name, score in narrative.items():
        assert len(score.found) >= 0.98 * len(score.degenerate), name
        assert len(score.placed) >= 0.95 * len(score.degenerate), name


def test_what_the_first_version_missed_is_found(narrative: dict[str, Score]) -> None:
    """Each of the lab model's failures that it missed, by name; and there were some."""
    missed = [(name, key) for name in narrative for key in first_version()["recordings"][name]["missed"]]
    assert len(missed) >= 8
    found = {(name, case.record.key) for name, score in narrative.items() for case in score.found}
    assert set(missed) <= found


@pytest.mark.parametrize("recording", UNSEEN, ids=lambda r: r.name)
def test_an_unseen_recording_is_judged_alike(recording: Recording) -> None:
    """What nothing was developed on: no healthy generation accused, nearly every failure found."""
    onsets = json.loads(recording.path.read_text())
    pairs = list(zip(onsets["true_onset"], onsets["panel_onset"], strict=True))
    assert len(pairs) >= recording.n
    failing = [panel for true, panel in pairs if true is not None]
    assert [panel for true, panel in pairs if true is None and panel is not None] == []
    assert sum(panel is not None for panel in failing) >= 0.95 * len(failing) > 0


def test_another_model_of_a_shorter_limit_is_judged_alike(shorter: dict[str, Score]) -> None:
    """The sibling that is coherent up to 448 positions: clean below, broken above, in a narrow band; found
    and placed as well as the model that the detectors were developed on, with logprobs and without."""
    for name, score in shorter.items():
        assert score.false_alarms == [], name
        bad, sentences = score.malformed_before()
        assert bad / sentences < 0.005, name
        positions = [(c.true_onset or 0) + (c.record.prompt_tokens or 0) for c in score.degenerate]
        assert 400 < min(positions) <= max(positions) < 500, name
        assert len(score.found) >= 0.95 * len(score.degenerate), name
        assert len(score.placed) >= 0.95 * len(score.degenerate), name
    bare = judge(c.record.without_entropy() for c in shorter["short-narrative-it"].cases)
    assert bare.false_alarms == []
    assert len(bare.found) >= 0.9 * len(bare.degenerate)


def test_the_bound_lies_below_the_true_quantile(narrative: dict[str, Score]) -> None:
    """200 resampled campaigns: at least 85 % of the bounds below the true 10 % quantile of 500 others."""
    truth = json.loads(TRUTH.path.read_text())
    assert len(truth["true_onset"]) >= 500
    true = quantile(truth["true_onset"], truth["length"], 0.10)
    below, ratio, _ = campaigns(narrative["lab-narrative-it"], true)
    assert below >= 0.85
    assert ratio >= 0.70


def test_the_undertrained_sibling_shows_other_symptoms(undertrained: dict[str, Score]) -> None:
    """Loops and flooding at temperature 0: what the well-trained model does not show."""
    greedy = [score for name, score in undertrained.items() if "greedy" in name]
    kinds = {s.kind for score in greedy for c in score.cases for s in c.verdict.symptoms if s.confirmed}
    assert {SymptomKind.LOOP, SymptomKind.FLOODING} <= kinds


def test_failures_without_a_healthy_beginning_are_found(undertrained: dict[str, Score]) -> None:
    """Of a model that was never coherent nearly every output is found; the first version found 22 of 48."""
    found = sum(len(score.found) for score in undertrained.values())
    assert found >= 0.85 * sum(len(score.degenerate) for score in undertrained.values())
