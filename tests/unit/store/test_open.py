"""Opening a store: where it is, who else is there, and everything that may be wrong with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from stresstest.errors import StoreError, UsageError
from stresstest.store import open_store
from stresstest.store.location import data_folder, locate
from tests.support.paths import ROOT
from tests.support.stored_data import make_generation, make_run


def _child(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process of its own, in which the project can be imported."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_importing_the_store_loads_no_database_library() -> None:
    """`stresstest --help` must not pay for SQLAlchemy."""
    loaded = "{'sqlalchemy', 'alembic', 'msgspec'} & {*sys.modules}"
    out, err = _child(f"import sys, stresstest.store; print({loaded})").communicate()
    assert (out.strip(), err) == ("set()", "")


def test_default_place_is_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --store the file lies in XDG_DATA_HOME, in a folder that only the user can read."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_store() as store:
        assert store.location == str(tmp_path / "data" / "stresstest" / "stresstest.sqlite3")
        assert Path(store.location).is_file()
    if os.name == "posix":
        assert (tmp_path / "data" / "stresstest").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_store_that_is_taken_away_while_it_is_open_is_told(tmp_path: Path, how: str) -> None:
    """The restore of a CI cache: a measurement ended with "certified", and nothing of it was stored."""
    path, other = tmp_path / "s.sqlite3", tmp_path / "other.sqlite3"
    open_store(str(other)).close()
    with open_store(str(path)) as store:
        store.create_run(make_run("r1"))
        if how == "moved":
            path.rename(tmp_path / "moved.sqlite3")
        elif how == "deleted":
            path.unlink()
        else:
            other.rename(path)
        with pytest.raises(StoreError, match="deleted, moved or replaced while it was open"):
            store.add_generation("r1", make_generation(0))


def test_relative_data_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The XDG specification calls a relative XDG_DATA_HOME invalid."""
    monkeypatch.setenv("XDG_DATA_HOME", "somewhere")
    assert data_folder().is_absolute()
    assert data_folder().name == "stresstest"


def test_without_xdg_the_store_lies_under_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path on Linux, where stores exist already."""
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".local" / "share" / "stresstest"


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+pysqlite:///"])
def test_paths_and_urls_name_the_same_file(tmp_path: Path, prefix: str) -> None:
    """A plain path and its SQLite URL open one store; odd names are fine."""
    path = tmp_path / "deep er" / "100%" / "s.db"
    path.parent.mkdir(parents=True)
    with open_store(f"{prefix}{path}") as store:
        store.create_run(make_run())
        assert repr(store) == f"Store({str(path)!r})"
    with open_store(str(path)) as store:
        assert store.run("r1") == make_run()


def test_a_store_in_memory() -> None:
    """`sqlite://` keeps everything in one process's memory, across calls."""
    with open_store("sqlite://") as store:
        store.create_run(make_run())
        store.add_generation("r1", make_generation())
        assert list(store.generations("r1")) == [make_generation()]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///file:m.db?mode=memory&uri=true"])
def test_a_store_in_memory_says_how_long_it_lasts(url: str) -> None:
    """A run was told to be stored in "file:m.db", where nothing was once the command had ended."""
    assert locate(url).shown.endswith(" (in memory, until this command ends)")


def test_a_query_that_nobody_reads_is_refused() -> None:
    """Of `sqlite:///s.db?mode=ro` the query was dropped, and the store was written."""
    with pytest.raises(UsageError, match="has a query") as refused:
        locate("sqlite:///s.db?mode=ro")
    assert "sqlite:///file:s.db?…&uri=true" in str(refused.value.hint)


def test_sqlite_is_in_wal_mode_and_checks_foreign_keys(tmp_path: Path) -> None:
    """Readers do not wait for the writer; the mode is kept in the file itself."""
    path = tmp_path / "s.db"
    open_store(str(path)).close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_migrations_make_the_declared_tables(tmp_path: Path) -> None:
    """The migrated schema is the one that tables.py declares, and its revision is the newest."""
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine

    from stresstest.store.engine import migrations_folder
    from stresstest.store.tables import SCHEMA_REVISION, VERSION_TABLE, metadata

    path = tmp_path / "s.db"
    open_store(str(path)).close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    engine.dispose()
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    assert ScriptDirectory.from_config(config).get_current_head() == SCHEMA_REVISION


@pytest.mark.slow
def test_several_processes_open_a_fresh_store_at_once(tmp_path: Path) -> None:
    """All succeed, and each one's writes are there."""
    code = "import sys; from tests.support.stored_data import open_on_command; open_on_command(*sys.argv[1:])"
    path = str(tmp_path / "s.db")
    children = [_child(code, path, f"run-{i}") for i in range(3)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    results = [(child.communicate()[1], child.returncode) for child in children]
    assert results == [("", 0)] * 3
    with open_store(path) as store:
        assert {r.id: r.generations for r in store.runs()} == {"run-0": 1, "run-1": 1, "run-2": 1}


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    """A schema from the future is refused with a sentence, and nothing in it changes."""
    from stresstest.store.tables import SCHEMA_REVISION

    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        store.create_run(make_run())
    _execute(path, "UPDATE stresstest_schema SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer stresstest \(schema 9999"):
        open_store(str(path))
    _execute(path, f"UPDATE stresstest_schema SET version_num = '{SCHEMA_REVISION}'")
    with open_store(str(path)) as store:
        assert store.run("r1") == make_run()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """A valid SQLite file that is not ours is refused, not filled with our tables."""
    path = tmp_path / "other.db"
    _execute(path, "CREATE TABLE invoices (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another program's tables \(invoices"):
        open_store(str(path))
    assert path.read_bytes() == before, "nor switched to WAL"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("invoices",)]
    connection.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A text file given by mistake is refused and stays as it is."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes\n" * 500)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(str(path))
    assert path.read_bytes() == b"my notes\n" * 500


def test_a_damaged_store_says_so(tmp_path: Path) -> None:
    """Pages overwritten in the middle of the file end in a sentence, at opening or at reading."""
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        store.create_run(make_run())
        for index in range(20):
            store.add_generation("r1", make_generation(index, tokens=300))
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xa5" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), open_store(str(path)) as store:
        list(store.generations("r1"))


def test_a_read_only_store_can_be_read(tmp_path: Path) -> None:
    """An archived store still reports; writing to it is refused with the reason, and loses nothing."""
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        store.create_run(make_run())
    with open_store(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        assert store.run("r1") == make_run()
        with pytest.raises(StoreError, match="read-only"):
            store.delete_run("r1")
        assert store.run("r1") == make_run()


def test_a_locked_store_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that never ends leads to a sentence instead of hanging for ever."""
    path = tmp_path / "s.db"
    open_store(str(path)).close()
    monkeypatch.setattr("stresstest.store.engine.BUSY_SECONDS", 0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with open_store(str(path)) as store, pytest.raises(StoreError, match="locked by another process"):
            store.create_run(make_run())
    finally:
        other.close()


def test_a_mistyped_folder_is_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo in --store used to leave empty folders and a second, empty store behind."""
    with pytest.raises(StoreError, match="tyop does not exist"):
        open_store(str(tmp_path / "tyop" / "s.db"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="cannot be created"):
        open_store()
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(str(tmp_path))


@pytest.mark.parametrize("url", ["mysql://me:hunter2@host/db", "nonsense://", "://hunter2", "sqlite4:///x"])
def test_unusable_urls(url: str) -> None:
    """A URL we cannot use is a usage error that says what can be, without quoting a password."""
    with pytest.raises(UsageError) as refused:
        open_store(url)
    assert "postgresql+psycopg" in str(refused.value.hint)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "host=localhost password=hunter2 dbname=st",
        "password = hunter2",
        "postgresql+asyncpg:me:hunter2@localhost/st",
        "me:hunter2@localhost",
        "postgresql://me:hun@ter2@localhost/st",
        "postgresql://me:hunter2@x@localhost:5432/st",
    ],
)
def test_a_connection_that_is_no_url_is_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq's form became a SQLite file with the password in its name, and an @ in a password part of the
    host, which was asked of the name server."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        open_store(address)
    assert "ter2" not in f"{refused.value} {refused.value.hint}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["user=me/s.db", "a@b.db", "12:30.db"])
def test_files_may_have_such_signs_in_their_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of partitions, times of day."""
    (tmp_path / "user=me").mkdir()
    monkeypatch.chdir(tmp_path)
    open_store(name).close()
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres"])
def test_an_unreachable_server_shows_no_password(scheme: str) -> None:
    """No server (or no driver installed): a sentence, and the password nowhere in the traceback."""
    url = f"{scheme}://me:hunter2@127.0.0.1:1/db?sslpassword=hunter3&connect_timeout=2"
    with pytest.raises(StoreError) as refused:
        open_store(url)
    shown = "".join(traceback.format_exception(refused.value)) + str(refused.value.hint)
    assert "me:***@127.0.0.1:1/db" in shown
    assert "hunter" not in shown


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
