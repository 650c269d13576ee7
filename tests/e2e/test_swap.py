"""A model swap on real vLLM: `check` between the lab model and one with a shorter limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import run_json, stresstest
from tests.lab.serve import MODELS, serve

pytestmark = pytest.mark.vllm


OPTIONS = ("--model", "lab", "--lang", "it", "--task", "narrative", "--rigor", "quick")


@pytest.fixture(scope="module")
def swapped(narrative: tuple[Path, dict[str, Any]]) -> tuple[Path, str, str]:
    """The store, and the runs of the good model and of one with a shorter limit under one served name."""
    store, good = narrative
    with serve(MODELS / "lab-short", "lab") as url:
        worse = run_json(*OPTIONS, "--base-url", url, store=store)
    return store, good["run_id"], worse["run_id"]


def checked(store: Path, baseline: str, candidate: str, *more: str, code: int) -> dict[str, Any]:
    sides = ("--baseline", baseline, "--candidate", candidate)
    done = stresstest("check", *sides, *more, "--json", store=store)
    print(done.stderr)
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return document


def test_the_worse_model_is_a_regression_and_the_better_one_passes(swapped: tuple[Path, str, str]) -> None:
    """Exit 99 one way, 0 the other; what else changed is named."""
    store, good, worse = swapped
    regression = checked(store, good, worse, code=99)
    assert regression["verdict"] == "regression"
    assert regression["p_candidate"] > 0.5
    assert any("lab-short" in str(each) for each in regression["changed"])
    checked(store, worse, good, code=2)
    passed = checked(store, worse, good, "--allow-refused-baseline", code=0)
    assert passed["verdict"] == "pass"
    assert passed["at_tokens"] < regression["at_tokens"]


def test_other_tokenizers_are_refused_unless_told(narrative: tuple[Path, dict[str, Any]]) -> None:
    """Another model was trained with a tokenizer of its own: a limit in the one's tokens is none of the
    other's, and their names do not tell."""
    store, good = narrative
    with serve(MODELS / "lab-undertrained", "lab") as url:
        done = stresstest("run", *OPTIONS, "--base-url", url, "--horizon", "200", "--json", store=store)
    assert done.returncode in (0, 4), done.stderr
    worse = json.loads(done.stdout)["run_id"]
    done = stresstest("check", "--baseline", good["run_id"], "--candidate", worse, store=store)
    assert done.returncode == 2
    assert "--allow-different tokenizer" in done.stderr
