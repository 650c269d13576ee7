"""`stresstest diagnose` from the command line: documents, exit codes, refusals, reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import ExitCode
from stresstest.features.diagnose.console import diagnosis_markdown
from stresstest.model import (
    ArmResult,
    Basis,
    CauseLink,
    Decoding,
    Diagnosis,
    Plane,
    RunStatus,
    SymptomKind,
)
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.stored_data import make_run

ARMS = (
    ArmResult("unchanged", None, "nothing", 24, 24, 24, 1.0, 1.0, False, symptoms={"loop": 24}),
    ArmResult("penalty-1.15", Plane.DECODING, "repetition_penalty 1.15", 24, 0, 24, 6e-8, 0.12, True),
)
LOOP = CauseLink(
    "r1",
    Plane.DECODING,
    Basis.CONFIRMED,
    SymptomKind.LOOP,
    903.0,
    24,
    "loop from about token 900 (median of the tested answers), "
    "caused by decoding; confirmed: it goes away with "
    "repetition_penalty 1.15",
    cleared_by="repetition_penalty 1.15",
    cleared_decoding=Decoding(repetition_penalty=1.15),
    arms=ARMS,
)
OPEN = CauseLink(
    "r2", None, None, SymptomKind.LANGUAGE_DRIFT, 5300.0, 5, "drift: inconclusive", lacking="9 prompts"
)
DONE = Diagnosis(
    "r1",
    (LOOP,),
    complete=True,
    recommended=Decoding(repetition_penalty=1.15),
    safe_max_tokens=4554,
    safe_run="r2",
)


def stored(folder: Path, found: Diagnosis) -> str:
    path = str(folder / "s.sqlite3")
    with open_store(path) as store:
        for name in ("r1", "r2"):
            store.create_run(make_run(name))
        store.save_diagnosis(found)
    return path


def test_the_document_keeps_designs_keys(tmp_path: Path) -> None:
    """Run's keys, the chain with its arms, the recommended decoding; the verdict is the chain's first."""
    code, out, err = command("--store", stored(tmp_path, DONE), "diagnose", "r1", "--json")
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    assert {"run_id", "threshold", "safe_max_tokens", "planes", "tokens_spent"} <= document.keys()
    assert document["verdict"]["plane"] == "decoding"
    assert document["verdict"]["basis"] == "confirmed"
    assert document["recommended_decoding"] == {"repetition_penalty": 1.15}
    assert document["recommended_max_tokens"] == 4554
    [link] = document["chain"]
    assert {"plane", "basis", "symptom", "median_onset", "cleared_by", "arms"} <= link.keys()
    assert {"name", "changed", "n", "failed", "p", "clears"} <= link["arms"][1].keys()
    assert link["arms"][0]["p"] is None


def test_an_open_chain_is_inconclusive_and_says_what_is_lacking(tmp_path: Path) -> None:
    """Exit 4 as soon as one link is open, and one JSON document all the same."""
    found = replace(DONE, chain=(LOOP, OPEN))
    code, out, _ = command("--store", stored(tmp_path, found), "diagnose", "r1", "--json")
    assert code == ExitCode.INCONCLUSIVE
    assert json.loads(out)["chain"][1]["lacking"] == "9 prompts"


def test_a_run_that_was_cut_short_is_not_called_healthy(tmp_path: Path) -> None:
    """Ctrl-C before the first answer: "Nothing fails, so nothing is diagnosed", exit 0."""
    path = str(tmp_path / "cut.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run("r1"))
        store.update_run("r1", status=RunStatus.INTERRUPTED)
    code, out, err = command("--store", path, "diagnose", "r1")
    assert code == ExitCode.INCONCLUSIVE
    assert out == ""
    assert "Run r1 is not complete (interrupted): 0 of its 0 answers so far degenerate" in err
    assert "stresstest run --resume r1" in err


def test_the_terminal_ends_with_the_chain_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arms, then the chain, what to do, what it cost, and the next commands."""
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = command("--store", stored(tmp_path, DONE), "diagnose", "r1")
    assert code == 0
    parts = (
        "clears",
        f"│ {DONE.sentences[0]}",
        "use repetition_penalty 1.15",
        "4,554",
        "output tokens",
        "Next: ",
    )
    places = [out.index(part) for part in parts]
    assert places == sorted(places)


def test_a_stored_run_is_diagnosed_as_it_was_measured(tmp_path: Path) -> None:
    """Options of a run beside a stored one would silently change nothing, so they are refused."""
    path = stored(tmp_path, DONE)
    code, _, err = command("--store", path, "diagnose", "r1", "--temperature", "0.7")
    assert code == ExitCode.USAGE
    assert "--temperature" in err
    code, _, err = command("--store", path, "diagnose", "r1", "--arms", "weather")
    assert code == ExitCode.USAGE
    assert "system, decoding, context" in err
    assert command("--store", path, "diagnose", "nope")[0] == ExitCode.USAGE


def test_without_a_run_and_a_language_the_run_is_what_is_missing(tmp_path: Path) -> None:
    """The bare command asked for --lang, of which a stored run has no need."""
    code, _, err = command("--store", str(tmp_path / "s.sqlite3"), "diagnose")
    assert code == ExitCode.USAGE
    assert "RUN is missing: a run's id, or latest." in err
    assert "diagnose latest" in err
    assert "diagnose --lang it" in err


def test_a_report_holds_the_diagnosis_and_its_words_are_harmless() -> None:
    """Foreign text cannot open markup or leave its cell."""
    hostile = replace(LOOP, notes=("a | b <script>",), lacking=None)
    text = diagnosis_markdown(replace(DONE, chain=(hostile,)))
    assert "## Diagnosis" in text
    assert "| repetition\\_penalty 1.15 | 24 | 0 |" in text
    assert "<script>" not in text
