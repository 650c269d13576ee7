"""`runs` without a command, and on a store with a run that cannot be read."""

from __future__ import annotations

import io
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.errors import ExitCode
from stresstest.store import open_store
from tests.support.checked_runs import sample, stored
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


def _spoil(location: str, run_id: str, before: str, after: str) -> None:
    with sqlite3.connect(location) as connection:
        changed = "UPDATE run SET settings = replace(settings, ?, ?) WHERE id = ?"
        connection.execute(changed, (before, after, run_id))
    connection.close()


@pytest.fixture
def spoilt(tmp_path: Path) -> str:
    """A store whose newest run says its temperature in a text, as prompts files once could."""
    location = str(tmp_path / "s.sqlite3")
    with open_store(location) as store:
        for run_id, created in (("r1", 1000.0), ("r2", 2000.0)):
            store.create_run(make_run(run_id, created=created))
    _spoil(location, "r2", '"temperature":0.7', '"temperature":"0.7"')
    return location


def test_a_run_that_cannot_be_read_leaves_the_others_usable(spoilt: str) -> None:
    """One bad row once made every command on the store fail: it is left out, and named once."""
    code, out, err = command("--store", spoilt, "runs", "list")
    assert (code, "r1" in out, "r2" in out) == (0, True, False)
    assert err.count("r2 cannot be read and is left out") == 1
    assert err.startswith("warning: ")
    assert len(err.splitlines()) == 1
    assert command("--store", spoilt, "runs", "show", "r1")[0] == 0
    assert command("--store", spoilt, "runs", "show", "latest")[0] == 0


def test_a_run_that_cannot_be_read_is_told_where_it_is_named(spoilt: str) -> None:
    """Who asks for that very run is told why there is nothing to show, and what to do."""
    code, _, err = command("--store", spoilt, "runs", "show", "r2")
    assert code == 2
    assert "Run r2 cannot be read. A stored RunSettings is damaged" in err
    assert "stresstest runs delete r2" in err


def test_a_run_that_cannot_be_read_can_be_deleted(spoilt: str) -> None:
    """It is the way out that the warning names, so it must not need the settings."""
    assert command("--store", spoilt, "runs", "delete", "r2", "--yes") == (0, "", "deleted r2\n")
    code, out, err = command("--store", spoilt, "runs", "list")
    assert (code, "r1" in out, err) == (0, True, "")


def test_a_limit_that_is_in_force_again_is_named(tmp_path: Path) -> None:
    """Deleting the run that found a model unfit brought the older limit back without a word."""
    path = str(tmp_path / "s.sqlite3")
    stored(path, "sound", sample(0, 60), created=1000.0)
    stored(path, "unfit", sample(24, 60, onset=3), created=2000.0)
    assert command("--store", path, "recommend")[0] == ExitCode.INCONCLUSIVE
    code, out, err = command("--store", path, "runs", "delete", "unfit", "--yes")
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "deleted unfit",
        "warning: it spoke against the limit of run sound, in force again from now on.",
    ]
    assert command("--store", path, "recommend")[0] == 0


def test_a_run_that_is_being_measured_is_not_deleted(tmp_path: Path) -> None:
    """`runs delete latest` in a shared store may mean the run that a colleague has just begun."""
    location = str(tmp_path / "s.sqlite3")
    with open_store(location) as store:
        store.create_run(make_run("r1"))
        with store.claim("r1"):
            code, _, err = command("--store", location, "runs", "delete", "latest", "--yes")
            assert code == ExitCode.USAGE
            assert "Run r1 is being measured by another process" in err
        assert [row.id for row in store.runs()] == ["r1"]


@pytest.mark.parametrize(("typed", "code"), [("", 2), ("n\n", 0)])
def test_a_run_is_not_deleted_unless_somebody_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    """In a script nobody answers: "Aborted!" and exit 1, the code of an internal error, was all it got."""
    path = str(tmp_path / "s.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run())
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    ended, _, said = command("--store", path, "runs", "delete", "r1")
    assert (ended, "nothing was deleted" in said.lower()) == (code, True)
    with open_store(path) as store:
        assert store.runs()


def test_the_question_shows_a_model_on_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server names its model, and a terminal would have been steered by it."""
    path, run = str(tmp_path / "s.sqlite3"), make_run()
    subject = replace(run.settings.subject, model="m\x1b]0;owned\x07\r\n\u202e x")
    with open_store(path) as store:
        store.create_run(replace(run, settings=replace(run.settings, subject=subject)))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    _, out, said = command("--store", path, "runs", "delete", "r1")
    assert "(m x · narrative" in out + said
    assert not set("\x1b\x07\r\u202e") & set(out + said)
