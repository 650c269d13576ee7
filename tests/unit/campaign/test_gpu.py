"""Whole campaigns beside GPUs: the stand-in for NVIDIA's library serves a scripted server's machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.conclusion.conclude import conclude
from stresstest.store import open_store
from tests.nvml.standin import build, compiler
from tests.support.campaign_commands import command, document, run
from tests.support.fake_campaign import Behaviour, campaign_server

WORKING = """gpu GPU-aaaaaaaa-1111 NVIDIA H100 80GB HBM3
at 0 0 utilisation 97
at 0 0 temperature 65
at 0 0 throttle 0
gpu GPU-bbbbbbbb-2222 NVIDIA H100 80GB HBM3
at 0 1 utilisation 0
at 0 1 throttle 8
"""
HOT = WORKING.replace("at 0 0 throttle 0", "at 0 0 throttle 0x20").replace("temperature 65", "temperature 93")


CAMPAIGN = ("--lang", "it", "--rigor", "quick", "--horizon", "600", "--budget-tokens", "1500")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, compiled once."""
    if compiler() is None:
        if os.environ.get("REQUIRE_COMPILER"):
            pytest.fail("REQUIRE_COMPILER is set and there is no C compiler")
        pytest.skip("no C compiler here")
    return build(tmp_path_factory.mktemp("nvml"))


def _run(library: Path, tmp_path: Path, script: str) -> tuple[dict[str, Any], Path]:
    """The document of a campaign's first generations on a model that soon loops, and its store."""
    path, store = tmp_path / "script.txt", tmp_path / "s.db"
    path.write_text(script, encoding="utf-8")
    with campaign_server(Behaviour(onset=100)) as (server, _):
        done = subprocess.run(
            [*command(store, "run", "--json", *CAMPAIGN), "--base-url", server.url],
            env=os.environ | {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert found["onsets"] > 0
    return found, store


@pytest.mark.compiler
@pytest.mark.simulated
def test_a_calm_gpu_speaks_against_the_system(library: Path, tmp_path: Path) -> None:
    """Its facts stand beside the verdict; its idle and slowed neighbour is not held against anyone."""
    found, store = _run(library, tmp_path, WORKING)
    assert found["planes"]["system"] == 0
    facts = [e for e in found["verdict"]["evidence"] if e["plane"] == "system"]
    assert [e["supports"] for e in facts] == [False, False]
    assert "queue and KV cache were not measured" in facts[1]["fact"]
    assert "GPU 0: no throttling, no XID, 65 °C, utilisation 97 %" in facts[0]["fact"]
    with open_store(str(store)) as opened:
        assert {s.gpu for s in opened.gpu_samples(found["run_id"])} == {"0", "1"}
        missing = opened.run(found["run_id"]).profile.missing
    assert [m for m in missing if "GPU" in m.what] == []


@pytest.mark.compiler
@pytest.mark.simulated
def test_a_slowed_gpu_is_suspected_and_spoils_the_sample(library: Path, tmp_path: Path) -> None:
    """All that was written on it is in doubt; the evidence says what slowed it."""
    found, store = _run(library, tmp_path, HOT)
    assert found["verdict"]["plane"] == "system"
    assert found["planes"]["system"] == found["onsets"]
    facts = [e["fact"] for e in found["verdict"]["evidence"] if e["supports"]]
    assert facts
    assert all(f.startswith("GPU 0: thermal slowdown (sw_thermal_slowdown) for ") for f in facts)
    with open_store(str(store)) as opened:
        generations = conclude(opened, found["run_id"]).generations
    assert {g.invalid_from for g in generations} == {1}


def test_without_gpus_nothing_is_claimed(tmp_path: Path) -> None:
    """`--gpus none`: the GPU is a gap in the evidence, with what that costs."""
    store = tmp_path / "s.db"
    with campaign_server(Behaviour(onset=100)) as (server, _):
        found = document(run(store, server.url, "--budget-tokens", "1500", "--gpus", "none"), code=4)
    assert found["onsets"] > found["planes"]["system"] == 0
    with open_store(str(store)) as opened:
        assert opened.gpu_samples(found["run_id"]) == []
        (missing,) = [m for m in opened.run(found["run_id"]).profile.missing if m.what == "GPU readings"]
        generations = conclude(opened, found["run_id"]).generations
    assert "by --gpus none" in missing.cost
    gaps = [e.fact for g in generations for e in g.evidence if "the GPU's state" in e.fact]
    assert len(gaps) == found["onsets"]
