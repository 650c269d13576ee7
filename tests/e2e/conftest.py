"""Real vLLM with the lab model, started once for all tests that are marked `vllm`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.serve import MODELS, serve


@pytest.fixture(scope="session")
def lab_url() -> Iterator[str]:
    """Base URL of vLLM serving the lab model as "lab"."""
    with serve(MODELS / "lab", "lab") as url:
        yield url
