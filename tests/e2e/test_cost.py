"""What loops cost on real vLLM: stand-ins for loops against a KV cache that they fill."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.serve import MODELS, serving

pytestmark = pytest.mark.vllm

CAP, REQUESTS, CLIENTS, PAIRS = 1_800, 10, 6, 2
SEED = "4"
"""Plants its stand-ins among the first requests: a loop that outlives all others costs nobody."""


@pytest.fixture(scope="module")
def cramped() -> Iterator[str]:
    """vLLM with room for 2,304 tokens: four or five healthy answers, or one stand-in and one of them."""
    extra = ("--max-model-len", "2048", "--num-gpu-blocks-override", "18", "--block-size", "128")
    with serving(MODELS / "lab", "lab", extra_args=extra) as (url, _):
        yield url


def test_stand_ins_fill_the_cache_and_the_account_is_measured(cramped: str, tmp_path: Path) -> None:
    """Two pairs, one of ten requests running on to the cap: who held what, and every number with its label.
    By how much the others slow down is a measurement (docs/cost.md); two pairs here prove none."""
    done = subprocess.run(
        [
            sys.executable, "-m", "stresstest", "--store", str(tmp_path / "s.sqlite3"), "--display", "plain",
            "cost", "--base-url", cramped, "--lang", "it", "--task", "technical", "--json",
            "--horizon", str(CAP), "--requests", str(REQUESTS), "-c", str(CLIENTS), "--pairs", str(PAIRS),
            "--plant", "10%", "--seed", SEED, "--gpu-hour-price", "2.5",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    print(done.stderr[-1500:])
    assert done.returncode == 0
    found = json.loads(done.stdout)
    print({key: value for key, value in found.items() if key != "timeline"})
    assert not found["simulated"]
    assert found["complete"]
    assert (found["pairs"], found["planted"], found["requests"]) == (PAIRS, PAIRS, REQUESTS * PAIRS)
    stand_ins = [r for r in found["timeline"] if r["planted"] and r["arm"] == "loops"]
    assert {r["output_tokens"] for r in stand_ins} == {CAP}
    assert max(r["output_tokens"] for r in found["timeline"] if not r["planted"]) < CAP / 2
    assert found["healthy_slowdown"]["ratio"] > 0
    assert found["labels"]["healthy_slowdown"] == "measured"
    assert found["healthy_slowdown"]["ci"] is None
    assert found["inflation"] == pytest.approx(found["wall_clock_s"] / found["counterfactual_s"] - 1)
    assert found["share_of_time"] == pytest.approx(found["inflation"] / (1 + found["inflation"]))
    assert found["kv_peak"] > 0.5
    assert any("stand in for loops" in note for note in found["notes"])
