"""One process at a time measures a run; a process that dies gives its run up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from stresstest.errors import StoreError, UsageError
from stresstest.store import open_store
from tests.postgres import server
from tests.support.paths import ROOT
from tests.support.stored_data import make_generation, make_run

_HOLD = """
import sys
from stresstest.store import open_store
with open_store(sys.argv[1]) as store, store.claim("r1"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_claimed_run_is_refused_and_others_are_not(store_url: str) -> None:
    """Two processes on one run would send every request twice."""
    with open_store(store_url) as mine, open_store(store_url) as other:
        with mine.claim("r1"):
            with (
                pytest.raises(StoreError, match="Run r1 is being measured by another process"),
                other.claim("r1"),
            ):
                pass
            with other.claim("r2"), mine.claim("../r3"):
                pass
        with other.claim("r1"):
            pass


@pytest.mark.postgres
def test_a_claim_is_an_open_transaction(postgres_server: str) -> None:
    """The lock of a session is none behind a pooler that gives connections to others between transactions
    (PgBouncer): two resumes measured one run at once."""
    states = text("SELECT query FROM pg_stat_activity WHERE state = 'idle in transaction'")
    with (
        server.database(postgres_server) as url,
        open_store(url) as store,
        store.claim("r1"),
        create_engine(url).connect() as other,
    ):
        (query,) = other.execute(states).scalars()
    assert "pg_try_advisory_xact_lock" in query


@pytest.mark.postgres
def test_a_claim_outlives_a_restart_of_the_server_unless_another_has_come() -> None:
    """The server forgot the claim, a second process was let in, and both sent the missing requests."""
    with (
        server.stopped_and_started() as (url, stop, start),
        open_store(url) as mine,
        open_store(url) as other,
    ):
        mine.create_run(make_run())
        with mine.claim("r1"):
            stop()
            start()
            mine.add_generation("r1", make_generation())
            with pytest.raises(StoreError, match="being measured by another process"), other.claim("r1"):
                pass
            stop()
            start()
            with other.claim("r1"), pytest.raises(StoreError, match="being measured by another process"):
                mine.add_generation("r1", make_generation(1))
        assert list(mine.generations("r1")) == [make_generation()]


def test_a_claim_leaves_no_file_behind(tmp_path: Path) -> None:
    """Beside the store lies nothing of ours once the run is over."""
    with open_store(str(tmp_path / "s.sqlite3")) as store, store.claim("r1"):
        assert len(list(tmp_path.glob("*.lock"))) == 1
    assert list(tmp_path.glob("*.lock")) == []


@pytest.mark.parametrize("suffix", ["", "-journal"])
def test_a_lock_is_made_through_no_symbolic_link(tmp_path: Path, suffix: str) -> None:
    """A cloned folder with a store in it made a file outside of it, at the first command on that run. SQLite
    itself refuses a link only in the place of the lock's journal."""
    outside = tmp_path / "outside"
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        with store.claim("r1"):
            (lock,) = tmp_path.glob("*.lock")
        link = lock.with_name(lock.name + suffix)
        link.symlink_to(outside)
        with pytest.raises((UsageError, StoreError)), store.claim("r1"):
            pass
    assert not outside.exists()
    assert link.is_symlink()


def test_a_link_to_a_store_is_the_same_store(tmp_path: Path) -> None:
    """A second process that names the store by a link would measure the run, too."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.sqlite3").symlink_to(tmp_path / "s.sqlite3")
    with (
        open_store(str(tmp_path / "s.sqlite3")) as store,
        open_store(str(tmp_path / "folder" / "link.sqlite3")) as linked,
        store.claim("r1"),
        pytest.raises(StoreError, match="another process"),
        linked.claim("r1"),
    ):
        pass


def test_a_store_in_memory_has_nobody_else() -> None:
    """Nothing to lock, and nothing written to a folder."""
    with open_store("sqlite://") as store, store.claim("r1"):
        pass


def test_a_killed_process_holds_nothing(store_url: str) -> None:
    """kill -9, and the run can be resumed at once."""
    with open_store(store_url) as store:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLD, store_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError), store.claim("r1"):
            pass
        holder.kill()
        holder.communicate()
        with store.claim("r1"):
            pass


@pytest.mark.parametrize("uri", ["file:{}?uri=true", "file://{}?uri=true", "file:{}?mode=rwc&uri=true"])
def test_a_store_named_by_a_uri_is_the_same_store(tmp_path: Path, uri: str) -> None:
    """Two processes that name it so measured one run at once, and a failure of one gave way to an answer of
    the other."""
    path = tmp_path / "s t.sqlite3"
    with (
        open_store(str(path)) as store,
        open_store(f"sqlite:///{uri.format(str(path).replace(' ', '%20'))}") as named,
        store.claim("r1"),
        pytest.raises(StoreError, match="another process"),
        named.claim("r1"),
    ):
        pass


def test_a_store_in_memory_needs_no_folder() -> None:
    """SQLite has names for these, too, which are no paths."""
    with open_store("sqlite:///file:runs?mode=memory&cache=shared&uri=true") as store, store.claim("r1"):
        pass
