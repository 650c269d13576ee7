"""A gateway that caches, and no seeds: the cache answers a request that comes again, and not the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.gateways import caching_gateway
from tests.support.simulated_servers import LOOPS_BELOW_1_1, served

pytestmark = pytest.mark.simulated
_AGAIN = "are earlier ones again, by id and text: a cache in front of the server"
RUN = ("--lang", "it", "--no-seed", "--rigor", "quick", "--horizon", "130", "--gpus", "none")


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[str]:
    """The address of a cache in front of a server whose answers loop below a penalty of 1.1."""
    file = tmp_path / "loops.toml"
    file.write_text(LOOPS_BELOW_1_1, encoding="utf-8")
    with served(load_scenario(str(file)), name="m") as running, caching_gateway(running.base_url) as url:
        yield url


def test_a_cache_is_seen_before_anything_is_measured(tmp_path: Path) -> None:
    """After a change of the weights, `run` certified the model before: LiteLLM dates cached answers anew."""
    common = ("--store", str(tmp_path / "s.sqlite3"), "--display", "none")
    healthy = tmp_path / "healthy.toml"
    healthy.write_text('name = "healthy"\n', encoding="utf-8")
    with (
        served(load_scenario(str(healthy)), name="m") as running,
        caching_gateway(running.base_url, 0) as url,
    ):
        for seeds in ((), ("--no-seed",)):
            code, out, err = command(*common, "run", "--base-url", url, "--lang", "it", *seeds)
            assert code == ExitCode.ENDPOINT, out
            assert "A cache in front of the server gives the same answer again to the same request" in err
            assert "--extra-body" in err


def test_a_sweeps_control_is_no_replay(cached: str, tmp_path: Path) -> None:
    """The first cell's failures came again from the cache, and "confirmed" a value that changes nothing."""
    store = str(tmp_path / "s.sqlite3")
    words = ("sweep", "--base-url", cached, *RUN, "--param", "repetition_penalty=1.0,1.1")
    code, out, err = command("--store", store, "--display", "none", *words)
    assert code == ExitCode.ENDPOINT, out
    assert _AGAIN in err
    with open_store(store) as opened:
        assert not any(opened.arm_records(row.id) for row in opened.runs()), "nothing of the cache is kept"


def test_a_diagnosis_takes_no_replay_for_an_answer(cached: str, tmp_path: Path) -> None:
    """The forks of a control that the cache gives say nothing of the server now."""
    store = str(tmp_path / "s.sqlite3")
    code, out, err = command("--store", store, "--display", "none", "diagnose", "--base-url", cached, *RUN)
    assert code == ExitCode.ENDPOINT, out
    assert _AGAIN in err


def test_a_swapped_model_does_not_pass_on_its_predecessors_answers(tmp_path: Path) -> None:
    """The cache gave the answers of the model before: "38 of 38, pass", in a check and in a project's."""
    store = str(tmp_path / "s.sqlite3")
    healthy = tmp_path / "healthy.toml"
    healthy.write_text('name = "healthy"\n', encoding="utf-8")
    common = ("--store", store, "--display", "none")
    with served(load_scenario(str(healthy)), name="m") as running, caching_gateway(running.base_url) as url:
        code, _, err = command(*common, "run", "--base-url", url, *RUN)
        assert code == ExitCode.DONE, err
        words = ("check", "--baseline", "m", "--candidate", "m", "--base-url", url, "--measure", "--json")
        code, out, err = command(*common, *words, "--horizon", "130")
        assert code == ExitCode.INCONCLUSIVE, out
        assert "are the baseline's own again, by id and text" in json.loads(out)["lacking"]

        project = tmp_path / "stresstest.toml"
        project.write_text(
            f'base_url = "{url}"\nno_seed = true\nrigor = "quick"\nhorizon = 130\ngpus = "none"\n'
            '[check]\nmodels = ["m"]\nlanguages = ["it"]\nbudgets = { max_drop = "10%" }\n'
        )
        code, out, err = command(*common, "check", "--config", str(project), "--json")
        assert code == ExitCode.INCONCLUSIVE, out
        (cell,) = json.loads(out)["cells"]
        assert (cell["outcome"], cell["safe_max_tokens"]) == ("inconclusive", None)
