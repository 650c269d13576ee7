"""The whole chain on a real instruct model on real vLLM: `make e2e-real`; its short form is part of CI.

The model is SmolLM2-135M-Instruct; its packager quantised the weights to 4 bits. Nobody knows its true limit:
what is asserted is what an oracle that shares no code with the product sees in its tokens (`loopwatch`), that
the commands agree with each other, and that the cause is found by intervention.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stresstest.model import Generation, Phase
from stresstest.store import open_store
from tests.e2e.commands import run_json, stresstest
from tests.real.fetch_model import default_folder, fetch
from tests.real.loopwatch import tail_loop
from tests.real.serve import serving

pytestmark = pytest.mark.real

ASKED = (
    "--lang", "en", "--task", "narrative", "--top-p", "0.9", "--rigor", "quick", "--concurrency", "24",
    "--stall-timeout", "15m",
)  # fmt: skip
"""A shared machine may stop for minutes; that is no property of the model."""
LOOPING = ("--temperature", "0.2")
WINDOW = 40
"""Tokens before and after an onset whose mean entropy is compared."""

Campaign = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="session")
def real_url() -> Iterator[str]:
    """Base URL of vLLM serving the model, which is fetched and converted where it is missing."""
    with serving(fetch(default_folder())) as (url, _):
        yield url


@pytest.fixture(scope="session")
def campaign(real_url: str, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The campaign that everything else starts from, run once."""
    store = tmp_path_factory.mktemp("real") / "real.sqlite3"
    return store, run_json(*ASKED, *LOOPING, "--base-url", real_url, store=store)


def failing(store: Path, run_id: str) -> list[Generation]:
    """The generations with an onset, without those of the climb."""
    with open_store(str(store)) as opened:
        found = list(opened.generations(run_id))
    return [g for g in found if g.job.phase is Phase.CERTIFY and g.verdict.degenerate]


def said(*args: str, store: Path, codes: tuple[int, ...] = (0,)) -> str:
    """What a command prints, shown in the test's log too."""
    done = stresstest(*args, store=store, timeout=3600)
    print(f"$ stresstest {' '.join(args)}\n{done.stdout}")
    assert done.returncode in codes, done.stderr
    return done.stdout


class TestRun:
    def test_finds_that_most_answers_loop(self, campaign: Campaign) -> None:
        """This model's known failure at temperature 0.2: loops, early, suspected on the decoding plane."""
        _, document = campaign
        symptoms = document["symptoms"]
        assert document["onsets"] >= 0.5 * document["generations"]
        assert symptoms.get("loop", 0) + symptoms.get("near_loop", 0) >= 0.8 * document["onsets"]
        assert document["verdict"]["plane"] == "decoding"
        assert document["verdict"]["basis"] == "observed"
        assert document["simulated"] is False

    def test_agrees_with_an_oracle(self, campaign: Campaign) -> None:
        """Whatever ends in an exact loop, by a linear search over its token ids, was found."""
        store, document = campaign
        with open_store(str(store)) as opened:
            generations = [g for g in opened.generations(document["run_id"]) if g.failure is None]
        looping = [g for g in generations if tail_loop([token.id or 0 for token in g.tokens])]
        assert len(looping) >= 10
        assert [g.key for g in looping if not g.verdict.degenerate] == []

    def test_entropy_falls_where_a_loop_begins(self, campaign: Campaign) -> None:
        """The source's hypothesis: the sampling distribution collapses at the onset."""
        store, document = campaign
        falls = []
        for generation in failing(store, document["run_id"]):
            onset = generation.verdict.onset or 0
            entropies = [token.entropy for token in generation.tokens if token.entropy is not None]
            before, after = entropies[max(0, onset - 1 - WINDOW) : onset - 1], entropies[onset - 1 :][:WINDOW]
            if len(before) == len(after) == WINDOW:
                falls.append(statistics.fmean(after) < statistics.fmean(before))
        assert len(falls) >= 10
        assert sum(falls) >= 0.9 * len(falls)

    def test_the_other_commands_report_its_number(self, campaign: Campaign, tmp_path: Path) -> None:
        """`recommend`, `report` and `runs` say what `run` said: one limit, or that there is none."""
        store, document = campaign
        said("runs", "show", "latest", store=store)
        page = tmp_path / "report.html"
        said("report", "latest", "-o", str(page), store=store)
        limit = document["safe_max_tokens"]
        if limit is not None:
            assert f"{limit:,}" in said("recommend", store=store)
            assert f"{limit:,}" in page.read_text("utf-8")


@pytest.mark.long
class TestTheWholeChain:
    def test_diagnose_confirms_decoding(self, campaign: Campaign, real_url: str) -> None:
        """By intervention: a repetition penalty heals the loops, within three times the run's tokens. What
        fails next under that penalty may stay inconclusive (exit code 4)."""
        store, document = campaign
        printed = said(
            "diagnose", document["run_id"], "--base-url", real_url, "--json", store=store, codes=(0, 4)
        )
        found = json.loads(printed)
        first = found["chain"][0]
        assert (first["plane"], first["basis"]) == ("decoding", "confirmed")
        arms = {arm["name"]: arm for arm in first["arms"]}
        assert any(arm["clears"] for name, arm in arms.items() if "penalty" in name)
        assert not arms["alone"]["clears"]
        spent = found["diagnosis_tokens"]
        assert spent["arms"] <= 3 * spent["run"]
        said("report", "latest", store=store)

    def test_check_tells_the_penalty_from_none(self, campaign: Campaign, real_url: str) -> None:
        """Measured with a penalty, the model passes against itself; without it, it regresses."""
        store, _ = campaign
        better = (*ASKED, *LOOPING, "--repetition-penalty", "1.15", "--base-url", real_url)
        baseline = run_json(*better, store=store)["run_id"]
        against = (
            "--baseline",
            baseline,
            "--allow-different",
            "decoding",
            "--measure",
            "--base-url",
            real_url,
        )
        none = ("--repetition-penalty", "1.0", "--seed", "2")
        said("check", *against, *ASKED, *LOOPING, *none, store=store, codes=(99,))

    def test_cost_of_loops(self, campaign: Campaign, real_url: str) -> None:
        """Pairs of batches with the loops run to the cap and capped: an account with its interval."""
        store, _ = campaign
        options = ("--requests", "12", "--pairs", "3", "--horizon", "512", "--concurrency", "12")
        decoding = ("--lang", "en", *LOOPING, "--top-p", "0.9", "--base-url", real_url)
        said("cost", *decoding, *options, store=store)
