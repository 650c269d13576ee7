"""Real vLLM still answers as recorded, so what the simulator is held to is what vLLM does."""

from __future__ import annotations

from typing import Any

import pytest

from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.conformance import FOLDER, Call, answer_shape, ask, calls, record, recorded
from tests.support.simulated_servers import served

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def vllm(lab_url: str) -> dict[str, Any]:
    """All answers of the running vLLM, recorded anew."""
    return record(lab_url.removesuffix("/v1"))


@pytest.fixture(scope="module")
def simulator() -> dict[str, Any]:
    """All answers of the simulator to the same requests."""
    with served(load_scenario(str(FOLDER / "scenario.toml")), name="lab") as running:
        root = running.base_url.removesuffix("/v1")
        return {call.name: ask(root, call) for call in calls()}


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
def test_recording_vllm_and_simulator_agree(
    vllm: dict[str, Any], simulator: dict[str, Any], call: Call
) -> None:
    """The stored recording is what this vLLM answers, and the simulator answers the same."""
    assert answer_shape(vllm[call.name]) == answer_shape(recorded()[call.name])
    assert answer_shape(simulator[call.name]) == answer_shape(vllm[call.name])


def test_the_metrics_families_are_as_recorded(vllm: dict[str, Any]) -> None:
    """Names, types, labels and bucket bounds of vLLM's page have not changed since."""
    assert vllm["metrics"]["families"] == recorded()["metrics"]["families"]
