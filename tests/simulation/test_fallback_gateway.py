"""A gateway that answers with another model: its answers say nothing of the one that was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import ExitCode
from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.commands import command
from tests.support.gateways import fallback_gateway
from tests.support.simulated_servers import LOOPS_BELOW_1_1, served

pytestmark = pytest.mark.simulated
RUN = ("--lang", "it", "--rigor", "quick", "--horizon", "130", "--gpus", "none")
_ALWAYS = LOOPS_BELOW_1_1.partition("requires")[0]


def _brings_penalty(body: dict[str, Any]) -> bool:
    return bool(body.get("repetition_penalty", 1.0) != 1.0)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    """A model that always loops, and for requests with a penalty a healthy one in its place."""
    loops, healthy = tmp_path / "loops.toml", tmp_path / "healthy.toml"
    loops.write_text(_ALWAYS, encoding="utf-8")
    healthy.write_text('name = "healthy"\n', encoding="utf-8")
    with (
        served(load_scenario(str(loops)), name="m") as own,
        served(load_scenario(str(healthy)), name="fallback") as other,
        fallback_gateway(own.base_url, other.base_url, _brings_penalty) as url,
    ):
        yield url


def test_a_diagnosis_names_no_cause_by_another_models_answers(gateway: str, tmp_path: Path) -> None:
    """ "decoding, confirmed: it goes away with repetition_penalty 1.05": the fallback had answered."""
    store = str(tmp_path / "s.sqlite3")
    code, out, err = command("--store", store, "--display", "none", "diagnose", "--base-url", gateway, *RUN)
    assert code == ExitCode.ENDPOINT, out
    assert "The streams name the model fallback, and those of the answers before m" in err


def test_a_sweep_names_no_value_by_another_models_answers(gateway: str, tmp_path: Path) -> None:
    """The smallest penalty that "works" was the one with which the fallback answers."""
    words = ("sweep", "--base-url", gateway, *RUN, "--param", "repetition_penalty=1.0,1.1", "--json")
    code, out, err = command("--store", str(tmp_path / "s.sqlite3"), "--display", "none", *words)
    assert code in (ExitCode.DONE, ExitCode.INCONCLUSIVE), err
    (answer,) = json.loads(out)["answers"]
    assert "at 1.1 the streams name the model fallback, at 1 m: a gateway answers with another one" in answer
    assert "lies between" not in answer
