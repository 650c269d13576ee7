"""Real vLLM with the lab model, started once for all tests that are marked `vllm`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import run_json
from tests.lab.serve import MODELS, serve


@pytest.fixture(scope="session")
def lab_url() -> Iterator[str]:
    """Base URL of vLLM serving the lab model as "lab"."""
    with serve(MODELS / "lab", "lab") as url:
        yield url


@pytest.fixture(scope="session")
def narrative(lab_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The campaign that the issue asks for, run once."""
    store = tmp_path_factory.mktemp("store") / "lab.sqlite3"
    options = ("--model", "lab", "--lang", "it", "--task", "narrative", "--rigor", "quick")
    return store, run_json(*options, "--base-url", lab_url, store=store)
