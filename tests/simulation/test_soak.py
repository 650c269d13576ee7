"""The short form of `make soak`: a minute of killed writers, and a kill of each measuring command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.kills import COMMANDS, measure
from tests.soak.week import week
from tests.soak.writers import soak

pytestmark = pytest.mark.simulated


def test_eight_writers_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """Whatever was killed and when, every run can be brought to its end, and is then the undisturbed one."""
    found = soak(str(tmp_path / "s.sqlite3"), tmp_path, 20.0, every=1.0)
    assert found.kills >= 1
    assert found.wrong == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_a_killed_measurement_says_what_an_undisturbed_one_says(name: str, tmp_path: Path) -> None:
    """`run` has a test of its own, in test_kill_and_resume.py. On a busy machine the readings of `/metrics`
    may miss the peak of the KV cache, and what is modelled from times that short is chance."""
    found = measure(tmp_path, 1, 3, [name])
    assert [
        each
        for killed in found[name]
        for each in killed.differs
        if not each.startswith((".kv_peak", ".modelled"))
    ] == []


def test_files_are_closed_day_after_day(tmp_path: Path) -> None:
    """Two short days in one process; their memory is measured by `make soak`."""
    first, second = week(tmp_path, every_hours=24, scan_hours=12, days=2)
    assert second.files <= first.files
