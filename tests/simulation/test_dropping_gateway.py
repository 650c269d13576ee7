"""A gateway that drops a sampling parameter: another decoding is measured, and nothing else tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.commands import command
from tests.support.gateways import dropping_gateway
from tests.support.simulated_servers import LOOPS_BELOW_1_1, served

pytestmark = pytest.mark.simulated
RUN = ("--lang", "it", "--rigor", "quick", "--horizon", "190", "--gpus", "none")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a server whose answers loop below a penalty of 1.1, and of the gateway before it."""
    file = tmp_path / "loops.toml"
    file.write_text(LOOPS_BELOW_1_1.replace("median = 80", "median = 120"), encoding="utf-8")
    with (
        served(load_scenario(str(file)), name="m") as running,
        dropping_gateway(running.base_url, "repetition_penalty") as url,
    ):
        yield running.base_url, url


def test_a_run_says_that_a_parameter_may_not_be_in_force(servers: tuple[str, str], tmp_path: Path) -> None:
    """`recommend` printed flags for a penalty that no request had brought to the model."""
    for place, url in enumerate(servers):
        store = str(tmp_path / f"{place}.sqlite3")
        words = ("run", "--base-url", url, *RUN, "--repetition-penalty", "1.2", "--temperature", "0.8")
        code, out, err = command("--store", store, "--display", "none", *words, "--json")
        assert code in (ExitCode.DONE, ExitCode.INCONCLUSIVE), err
        notes = " ".join(json.loads(out)["notes"])
        assert ("no sign that it reads repetition_penalty: it takes repetition_penalty -1" in notes) == place
        assert "reads temperature" not in notes
        _, _, err = command("--store", store, "recommend", "--format", "vllm")
        assert ("no sign that it reads repetition_penalty" in " ".join(err.split())) == place


def test_a_sweep_says_that_its_values_may_be_one(servers: tuple[str, str], tmp_path: Path) -> None:
    """All cells were of one decoding: "no repetition_penalty up to 1.2 keeps repetition away"."""
    store = str(tmp_path / "s.sqlite3")
    words = ("sweep", "--base-url", servers[1], *RUN, "--param", "repetition_penalty=1.0,1.2")
    _, out, _ = command("--store", store, "--display", "none", *words)
    assert "note: The server gives no sign that it reads repetition_penalty" in " ".join(out.split())


def test_a_diagnosis_says_which_changes_may_not_have_arrived(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    """The penalties that would have cleared the loops were dropped on their way."""
    for place, url in enumerate(servers):
        store = str(tmp_path / f"{place}.sqlite3")
        words = ("diagnose", "--base-url", url, *RUN, "--no-unmask", "--no-why", "--json")
        _, out, _ = command("--store", store, "--display", "none", *words)
        notes = " ".join(note for link in json.loads(out)["chain"] for note in link["notes"])
        assert ("takes invalid values of repetition_penalty without complaint" in notes) == place
