"""A limit that is the best of several results, or was measured until it passed, is told as such."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.conclusion.conclude import conclude, current_result
from stresstest.model import RIGORS, Decoding, DocumentKind, Rigor
from stresstest.store import open_store
from tests.support.checked_runs import sample, stored
from tests.support.commands import command

N = 38


def _store(tmp_path: Path) -> str:
    return str(tmp_path / "s.sqlite3")


def _measure(store: str, run_id: str, failing: int, *, n: int = N, **more: Any) -> str:
    return stored(store, run_id, sample(failing, n, onset=60, reach=700), **more)


def _chance(store: str, run_id: str) -> list[str]:
    with open_store(store) as opened:
        return [note for note in current_result(opened, run_id).notes if "may be chance" in note]


@pytest.mark.slow
@pytest.mark.parametrize("alike", [True, False])
def test_the_one_lucky_run_of_several_is_told(tmp_path: Path, alike: bool) -> None:
    """One answer in ten fails at token 60. `recommend` printed the limit of the one run of ten in which only
    one did, ten times as far, without a word: of several decodings, and of one that was measured again."""
    store = _store(tmp_path)
    for i in range(4):
        decoding = Decoding() if alike else Decoding(temperature=0.1 + 0.1 * i)
        _measure(store, f"low{i}", 6, created=1000.0 + i, decoding=decoding)
    lucky = Decoding() if alike else Decoding(temperature=1.0)
    _measure(store, "lucky", 1, created=2000.0, decoding=lucky)
    [told] = _chance(store, "lucky")
    assert told.startswith("4 of 5 results for these prompts are much lower (run low")
    assert "T = 700 may be chance" in told
    assert told.endswith("for the best of 5, T = 59 holds with the same confidence.")
    code, out, err = command("--store", store, "recommend", "--like", "lucky", "--format", "vllm")
    assert code == 0
    assert "max_new_tokens" in out
    assert told in err
    assert not _chance(store, "low1")


def test_a_remedy_is_not_doubted_for_what_it_remedied(tmp_path: Path) -> None:
    """A check of the model as it was, after its diagnosis: the limit that `diagnose` recommends was doubted,
    as if it were one of two draws."""
    store = _store(tmp_path)
    remedy = Decoding(repetition_penalty=1.15)
    _measure(store, "first", 6)
    _measure(store, "safe", 1, created=2000.0, decoding=remedy, parent="first")
    _measure(store, "again", 6, created=3000.0)
    assert not _chance(store, "safe")
    _measure(store, "other", 6, created=4000.0, decoding=remedy)
    assert _chance(store, "safe")


def test_what_holds_of_the_best_is_not_doubted(tmp_path: Path) -> None:
    """80 answers without a failure certify the best of two settings as they do one alone."""
    store = _store(tmp_path)
    _measure(store, "low", 6, decoding=Decoding(temperature=0.3))
    _measure(store, "sound", 0, n=80, created=2000.0)
    assert not _chance(store, "sound")


@pytest.mark.parametrize("other", ["none lower", "stricter", "simulated", "another task"])
def test_results_of_which_none_could_be_chosen(tmp_path: Path, other: str) -> None:
    """The weekly measurement of a sound model is no search for luck, and a stricter one certifies less."""
    store = _store(tmp_path)
    more: dict[str, Any] = {"task": "technical"} if other == "another task" else {}
    if other == "simulated":
        more = {"simulated": True}
    _measure(store, "other", 1 if other == "none lower" else 6, **more)
    _measure(store, "own", 1, created=2000.0)
    if other == "stricter":
        _restrict(store, "other", RIGORS["strict"])
    assert not _chance(store, "own")


def _restrict(store: str, run_id: str, rigor: Rigor) -> None:
    with open_store(store) as opened:
        found = conclude(opened, run_id)
        threshold = replace(found.threshold, alpha=rigor.alpha)
        opened.save_threshold(run_id, threshold, found.safe_max_tokens, found.verdict)


def test_every_cell_of_a_sweep_is_told(tmp_path: Path) -> None:
    """Only the farthest was: with two that a sweep calls chance, the other's limit was printed as any run's,
    and the guard, which asks for the smallest, never heard of it. Cells of another model count, too."""
    store = _store(tmp_path)
    runs = [_measure(store, f"low{i}", 6, model="other", created=1000.0 + i) for i in range(3)]
    runs += [_measure(store, "near", 1, created=2000.0), _measure(store, "far", 1, created=3000.0)]
    assert not _chance(store, "near")
    with open_store(store) as opened:
        body = {"cells": [{"run_id": run} for run in runs]}
        opened.save_document(DocumentKind.SWEEP, body, complete=True, simulated=False, runs=runs)
    for run in ("near", "far"):
        [told] = _chance(store, run)
        assert told.startswith("3 of 5 results")
