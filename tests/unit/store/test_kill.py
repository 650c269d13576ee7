"""kill -9 at any moment loses nothing that was reported as stored."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from stresstest.store import open_store
from tests.support.paths import ROOT
from tests.support.stored_data import make_generation, make_run

CODE = (
    "import sys; from tests.support.stored_data import write_until_killed as w; "
    "w(sys.argv[1], sys.argv[2], int(sys.argv[3]))"
)


@pytest.mark.slow
def test_kill_9_loses_nothing_and_tears_nothing(store_url: str) -> None:
    """A writer is killed five times at random moments and goes on where the store says it stopped:
    every generation it reported is there, whole, and at most one that it had no time to report."""
    path = store_url
    rng = random.Random(9)
    with open_store(path) as store:
        store.create_run(make_run())
    stored = 0
    for _ in range(5):
        reported = _write_and_kill(path, stored, rng.uniform(0.0, 0.15))
        with open_store(path) as store:
            found = list(store.generations("r1"))
        assert found == [make_generation(i, tokens=400) for i in range(len(found))]
        assert reported[-1] == make_generation(stored + len(reported) - 1).key
        assert stored + len(reported) <= len(found) <= stored + len(reported) + 1
        stored = len(found)


def _write_and_kill(path: str, first: int, after: float) -> list[str]:
    """Let a child write from `first` on, kill it `after` seconds past its first report; its reports."""
    child = subprocess.Popen(
        [sys.executable, "-c", CODE, path, "r1", str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    reported = [child.stdout.readline()]
    time.sleep(after)
    child.kill()
    rest, _ = child.communicate()
    # The last line may have been cut: only whole lines are reports.
    return [line.strip() for line in (reported[0] + rest).splitlines(keepends=True) if line.endswith("\n")]
