"""What holds for every run of the tests: no clock decides, long files begin, and what all pay is small."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# A slow or busy machine is no finding.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST = (
    "test_faults_run.py",
    "test_workflow_run.py",
    "test_workflow_resume.py",
    "test_workflow_diagnose.py",
    "test_cli_demo.py",
    "test_recorded.py",
    "test_scan.py",
    "test_campaign_coverage.py",
    "test_workflow_gpu.py",
)
"""The longest last would leave one worker with it while the others are done."""


def pytest_configure() -> None:
    """Tests start many processes: where bytecode may not be written, each would compile the package anew."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, everything else in its order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage rarely, and not among what stays to the end: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
