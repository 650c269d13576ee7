"""A model swap on real vLLM: `check` between the lab model and one that was trained too briefly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import run_json, stresstest
from tests.lab.serve import MODELS, serve

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def swapped(narrative: tuple[Path, dict[str, Any]]) -> tuple[Path, str, str]:
    """The store, and the runs of the good and the undertrained model under one served name."""
    store, good = narrative
    with serve(MODELS / "lab-undertrained", "lab") as url:
        options = ("--model", "lab", "--lang", "it", "--task", "narrative", "--rigor", "quick")
        worse = run_json(*options, "--base-url", url, store=store)
    return store, good["run_id"], worse["run_id"]


def checked(store: Path, baseline: str, candidate: str, *more: str, code: int) -> dict[str, Any]:
    sides = ("--baseline", baseline, "--candidate", candidate)
    done = stresstest("check", *sides, *more, "--json", store=store)
    print(done.stderr)
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return document


def test_other_tokenizers_are_refused_unless_told(swapped: tuple[Path, str, str]) -> None:
    """The two models were trained with tokenizers of their own: a limit in the one's tokens is none of the
    other's, and their names do not tell."""
    store, good, worse = swapped
    done = stresstest("check", "--baseline", good, "--candidate", worse, store=store)
    assert done.returncode == 2
    assert "--allow-different tokenizer" in done.stderr


def test_the_worse_model_is_a_regression_and_the_better_one_passes(swapped: tuple[Path, str, str]) -> None:
    """Exit 99 one way, 0 the other; what else changed is named."""
    store, good, worse = swapped
    allow = ("--allow-different", "tokenizer")
    regression = checked(store, good, worse, *allow, code=99)
    assert regression["verdict"] == "regression"
    assert regression["p_candidate"] > 0.5
    assert any("lab-undertrained" in str(each) for each in regression["changed"])
    passed = checked(store, worse, good, *allow, code=0)
    assert passed["verdict"] == "pass"
    assert passed["at_tokens"] < regression["at_tokens"]
