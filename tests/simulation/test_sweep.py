"""The source case's sweeps, on the scenarios that are made after it, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stresstest.features.demo.command import simulator
from tests.support.commands import command

pytestmark = pytest.mark.simulated

QWEN, MISTRAL, MISTRAL_FR = "qwen2.5-7b-awq-it", "mistral-7b-fp8-it", "mistral-7b-fp8-fr"


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Servers by scenario, and one store for all sweeps."""

    urls: dict[str, str]
    store: Path

    def play(self, *options: str) -> dict[str, Any]:
        """A whole `sweep --rigor quick`: its document."""
        words = ("--store", str(self.store), "--display", "plain", "sweep", "--rigor", "quick", "--json")
        code, out, err = command(*words, *options)
        assert code == 0, err
        document: dict[str, Any] = json.loads(out)
        assert document["simulated"] is True
        assert document["complete"] is True
        return document


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeps]:
    with ExitStack() as stack:
        urls = {name: stack.enter_context(simulator(name)) for name in (QWEN, MISTRAL, MISTRAL_FR)}
        yield Sweeps(urls, tmp_path_factory.mktemp("store") / "sweeps.sqlite3")


@pytest.mark.long
def test_the_smallest_penalty_that_works_and_what_it_breaks(sweeps: Sweeps) -> None:
    """Without a penalty stories loop at paragraph 16 and none ends; from 1.15 on all are written out and
    drift from about paragraph 66 on. What only a sweep tells: where between the values it changes."""
    found = sweeps.play(
        "--base-url", sweeps.urls[QWEN], "--lang", "it", "--no-abort",
        "--param", "repetition_penalty=1.0,1.1,1.15",
    )  # fmt: skip
    loops, still, works = found["cells"]
    for cell in (loops, still):
        assert cell["symptoms"] == {"loop": cell["generations"]}
        assert 15 <= cell["onset_unit"] <= 17
        assert (cell["completed"], cell["finished"]) == (0.0, 0.0)
    assert set(works["symptoms"]) == {"language_drift"}
    assert 63 <= works["onset_unit"] <= 68
    assert works["completed"] == 0.0
    assert works["finished"] >= 0.9
    assert works["first_foreign_sentence"] >= 4_900
    assert works["threshold"]["tokens"] > 5 * still["threshold"]["tokens"]
    [answer] = found["answers"]
    assert "the smallest repetition_penalty that keeps repetition away lies between 1.1 and 1.15" in answer
    assert "at 1.15, 38 of 38 fail in another way (language drift" in answer


@pytest.mark.long
def test_models_side_by_side_and_the_ratio_of_their_thresholds(sweeps: Sweeps) -> None:
    """About 25 to 1 between two models in Italian; a cell that another sweep has measured is taken."""
    found = sweeps.play(
        "--lang", "it", "--no-abort", "--repetition-penalty", "1.15",
        "--param", f"base_url={sweeps.urls[QWEN]},{sweeps.urls[MISTRAL]}",
    )  # fmt: skip
    [ratio] = found["ratios"]
    assert QWEN in ratio["of"]
    assert MISTRAL in ratio["over"]
    assert 22 <= ratio["ratio"] <= 30
    assert ratio["lo"] <= ratio["ratio"] <= ratio["hi"]
    assert ratio["hi"] / ratio["lo"] <= 1.4
    qwen, mistral = found["cells"]
    assert 3 <= mistral["onset_unit"] <= 5
    [taken] = sweeps.play(
        "--base-url", sweeps.urls[QWEN], "--lang", "it", "--no-abort", "--param", "repetition_penalty=1.15"
    )["cells"]
    assert taken["run_id"] == qwen["run_id"]


def test_french_fails_near_paragraph_4_and_technical_text_not_at_all(sweeps: Sweeps) -> None:
    """One model by language and by task: French at about 300 tokens, Italian technical text never."""
    french = sweeps.play(
        "--lang", "fr", "--repetition-penalty", "1.2", "--horizon", "1024",
        "--param", f"base_url={sweeps.urls[MISTRAL_FR]}",
    )["cells"][0]  # fmt: skip
    assert 250 <= french["threshold"]["tokens"] <= 330
    assert 4 <= french["onset_unit"] <= 5
    found = sweeps.play(
        "--base-url", sweeps.urls[MISTRAL], "--lang", "it", "--repetition-penalty", "1.2", "--horizon", "512",
        "--param", "task=technical,narrative",
    )  # fmt: skip
    technical, narrative = found["cells"]
    assert (technical["failed"], technical["median_onset"]) == (0, None)
    assert technical["threshold"]["censored_at"] >= 400
    assert narrative["failed"] >= 0.75 * narrative["generations"]
    [ratio] = found["ratios"]
    assert ratio["at_least"] is True


@pytest.mark.long
def test_above_1_15_technical_text_loses_the_terms_that_it_must_repeat(sweeps: Sweeps) -> None:
    """Nothing degenerates, and yet a high penalty breaks the text: its terms no longer recur."""
    found = sweeps.play(
        "--base-url", sweeps.urls[MISTRAL], "--lang", "it", "--task", "technical", "--horizon", "512",
        "--param", "repetition_penalty=1.0,1.15,1.2",
    )  # fmt: skip
    free, mild, strong = (cell["recurring_terms"] for cell in found["cells"])
    assert mild >= 0.9 * free
    assert strong < 0.7 * free
    [answer] = found["answers"]
    assert "above 1.15 fewer terms recur" in answer
