"""`runs` without a command."""

from __future__ import annotations

from pathlib import Path

from stresstest.store import open_store
from tests.support.commands import command
from tests.support.stored_data import make_run


def test_runs_alone_lists_them(tmp_path: Path) -> None:
    """Who types `stresstest runs` wants to see the runs: the list, and no usage error."""
    location = str(tmp_path / "s.sqlite3")
    with open_store(location) as store:
        store.create_run(make_run("r1"))
    listed = command("--store", location, "runs", "list")
    assert command("--store", location, "runs") == listed
    assert listed[0] == 0
    assert "r1" in listed[1]
