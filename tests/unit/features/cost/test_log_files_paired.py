"""`cost --abort-loops` live on the simulator, and what `cost` writes beside the account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stresstest.model import Plane
from stresstest.simulation.engine import EngineSpec, Hazard, ModelSpec, Scenario, StepTime
from stresstest.simulation.engine.scenario.distribution import FixedDistribution, LognormalDistribution
from tests.support.commands import command
from tests.support.simulated_servers import served

CAP = 500
SCENARIO = Scenario(
    "looping",
    "A quarter of the answers loop from token 60 on",
    ModelSpec(max_model_len=1_024, answer_tokens=LognormalDistribution(100.0, 0.2)),
    EngineSpec(kv_cache_tokens=16_384, step_ms=StepTime(0.1, 0.0, 0.1, 0.0)),
    (Hazard("loop", Plane.DECODING, FixedDistribution(60.0), 0.25),),
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One A/B of two pairs with everything that can be asked for beside it."""
    folder = tmp_path_factory.mktemp("ab")
    prompts = folder / "prompts.jsonl"
    lines = [json.dumps({"id": f"p{i}", "prompt": f"Racconta del mare, numero {i}."}) for i in range(32)]
    prompts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with served(SCENARIO) as running:
        code, out, err = command(
            "--store", str(folder / "s.sqlite3"), "--display", "none", "cost", "--base-url", running.base_url,
            "--lang", "it", "--prompts", str(prompts), "--horizon", str(CAP), "--requests", "16",
            "--pairs", "2", "--abort-loops", "--picture", str(folder / "c.png"),
            "--openmetrics", str(folder / "c.prom"), "--json",
        )  # fmt: skip
    assert code == 0, err
    return json.loads(out), folder


def arm(document: dict[str, Any], name: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["batch"].partition("/")[0], r["id"]): r for r in document["timeline"] if r["arm"] == name}


@pytest.mark.slow
def test_loops_are_aborted_at_their_alarm_in_one_arm_alone(measured: tuple[dict[str, Any], Path]) -> None:
    """The same requests twice: what loops to the cap in one arm ends soon after its onset in the other."""
    document, _ = measured
    free, stopped = arm(document, "loops"), arm(document, "capped")
    assert free.keys() == stopped.keys()
    looping = [key for key, row in free.items() if row["degenerate"]]
    assert looping
    for key in looping:
        assert free[key]["output_tokens"] == CAP
        assert stopped[key]["output_tokens"] < CAP
        assert stopped[key]["degenerate"]
    healthy = [key for key, row in free.items() if not row["degenerate"]]
    assert all(stopped[key]["output_tokens"] == free[key]["output_tokens"] for key in healthy)


@pytest.mark.slow
def test_the_tax_is_of_the_tokens_that_were_written(measured: tuple[dict[str, Any], Path]) -> None:
    """Tokens for a delivered answer: all that an arm wrote over its healthy answers; aborting is cheaper."""
    document, _ = measured
    told = document["tokens_per_delivered_answer"]
    for name, found in zip(("loops", "capped"), told, strict=True):
        rows = list(arm(document, name).values())
        useful = sum(not row["degenerate"] for row in rows)
        assert found["tokens"] == pytest.approx(sum(row["output_tokens"] for row in rows) / useful)
        assert found["ci"][0] <= found["tokens"] <= found["ci"][1]
    assert told[1]["tokens"] < told[0]["tokens"]


@pytest.mark.slow
def test_what_was_asked_for_beside_the_account_is_there(measured: tuple[dict[str, Any], Path]) -> None:
    """Picture and metrics come from one measurement."""
    document, folder = measured
    assert document["kv_cache_tokens"] == 16_384
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    assert 'simulated="true"' in (folder / "c.prom").read_text("utf-8")


def test_aborting_needs_natural_loops() -> None:
    """A stand-in never raises an alarm: --plant with --abort-loops is refused before anything is sent."""
    code, _, err = command("cost", "--lang", "it", "--abort-loops", "--plant", "5%")
    assert code == 2
    assert "natural loops" in err
    code, _, err = command("cost", "requests.jsonl", "--abort-loops")
    assert code == 2
