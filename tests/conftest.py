"""What holds for every run of the tests: no clock decides, long files begin, and what all pay is small."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.forking import stop_server
from tests.support.snapshots import Snapshot, page_of

# A slow or busy machine is no finding. Every run draws other examples, HYPOTHESIS_EXAMPLES=1000 more of them;
# with CI set, as by .ci/run, every run draws the same, and twice as many.
settings.register_profile(
    "untimed",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "100" if "CI" in os.environ else "50")),
)
settings.load_profile("untimed")

TESTS = Path(__file__).parent
LONGEST = (
    "unit/campaign/test_run.py",
    "unit/campaign/test_resume.py",
    "unit/features/diagnose/test_workflow.py",
    "unit/features/demo/test_command.py",
    "e2e/test_recorded.py",
    "unit/scanning/test_scan.py",
    "unit/statistics/test_campaign_coverage.py",
    "unit/campaign/test_gpu.py",
)
"""The longest last would leave one worker with it while the others are done."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait, for a time limit or for a process of their own."""
    return (os.cpu_count() or 1) + 1


def pytest_configure() -> None:
    """Tests start many processes: where bytecode may not be written, each would compile the package anew, and
    those that are started where Ctrl-C is ignored would ignore it, too."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(50_000, 20, 20)  # of what a collection imports nothing is garbage
    os.environ["COLUMNS"] = "80"  # snapshots do not depend on the terminal that the tests run in
    missing = [name for name in LONGEST if not (TESTS / name).is_file()]
    if missing:
        raise pytest.UsageError(f"tests/conftest.py lists files that do not exist: {', '.join(missing)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, everything else in its order."""
    rank = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(LONGEST)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage rarely, and not among what stays to the end: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_sessionfinish() -> None:
    """What this process started to fork commands from ends with it."""
    stop_server()


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """Compares what the test shows with tests/data/snapshots; the test's own folder is replaced."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    replaced = [(str(folder), "<folder>")] if folder else []
    return Snapshot(page_of(request.path), request.node.name, replaced)
