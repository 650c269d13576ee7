"""The simulator answers as vLLM 0.32 did when it was recorded: same shapes, request by request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.conformance import FOLDER, Call, answer_shape, ask, calls, recorded
from tests.support.simulated_servers import served

VLLM = recorded()
READ_FROM_CACHE_CONFIG = {"kv_cache_size_tokens", "block_size", "num_gpu_blocks"}


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """The simulator under the recorded server's model name and context length."""
    with served(load_scenario(str(FOLDER / "scenario.toml")), name="lab") as running:
        yield running.base_url.removesuffix("/v1")


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
def test_the_simulator_answers_in_vllm_shape(root: str, call: Call) -> None:
    """Status, content type, keys, types, null or absent, order of events, error types: a client that
    works against the simulator works against vLLM."""
    assert answer_shape(ask(root, call)) == answer_shape(VLLM[call.name])


def test_every_recorded_answer_has_its_request() -> None:
    """A request that is renamed or dropped must not leave an answer that nobody compares with."""
    assert list(VLLM) == [call.name for call in calls()]


def test_the_metrics_page_has_vllm_families_labels_types_and_buckets(root: str) -> None:
    """Dashboards and `telemetry` read the simulator's page as they read vLLM's."""
    ours = ask(root, next(c for c in calls() if c.path == "/metrics"))["families"]
    theirs = VLLM["metrics"]["families"]
    config = ours.pop("vllm:cache_config_info"), theirs.pop("vllm:cache_config_info")
    assert ours == theirs
    labels, known = (set(found["series"]["vllm:cache_config_info"]) for found in config)
    assert READ_FROM_CACHE_CONFIG <= labels <= known
