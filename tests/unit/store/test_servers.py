"""What the store promises on SQLite and on PostgreSQL alike: writers, old schemas, damage, no secrets."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import sqlite3
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from stresstest.errors import StoreError
from stresstest.model import DocumentKind, FailureKind, ServiceFailure
from stresstest.store import engine, generations, open_store, postgres
from stresstest.store.tables import SCHEMA_REVISION
from tests.postgres import server
from tests.support.paths import DATA
from tests.support.stored_data import make_generation, make_run

RELEASED = DATA / "store"
WRITERS, EACH = 8, 6


def _write(url: str, number: int) -> tuple[int, int]:
    """One of several processes: a run of its own, and a share in one that all write. What was stored."""
    engine.BUSY_SECONDS = 120  # seven others go first, on whatever machine
    with open_store(url) as store:
        store.create_run(make_run(f"own-{number}"))
        own = sum(store.add_generation(f"own-{number}", make_generation(i)) for i in range(EACH))
        shared = sum(store.add_generation("shared", make_generation(i)) for i in range(EACH))
        return own, shared


@pytest.mark.slow
def test_eight_writers_at_once_lose_nothing(store_url: str) -> None:
    """Eight processes write at the same time: each one's run is whole, and of what several store under one
    key exactly one is kept."""
    with open_store(store_url) as store:
        store.create_run(make_run("shared"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(WRITERS) as pool:
        done = pool.starmap(_write, [(store_url, i) for i in range(WRITERS)], chunksize=1)
    assert [own for own, _ in done] == [EACH] * WRITERS
    assert sum(shared for _, shared in done) == EACH
    expected = [make_generation(i) for i in range(EACH)]
    with open_store(store_url) as store:
        for run in ("shared", *(f"own-{i}" for i in range(WRITERS))):
            assert list(store.generations(run)) == expected


@pytest.mark.postgres
def test_nothing_is_prepared_on_a_server_that_a_pooler_may_change(postgres_server: str) -> None:
    """Behind PgBouncer each transaction may reach another server: a run ended with "prepared statement
    "_pg3_1" does not exist"."""
    with server.database(postgres_server) as url:
        opened, _ = engine.open_engine(url)
        with engine.reading(opened) as connection:
            for _ in range(20):
                connection.exec_driver_sql("SELECT count(*) FROM run")
            assert connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar() == 0
        opened.dispose()


@pytest.mark.postgres
def test_a_lock_of_another_session_is_not_waited_for_in_silence(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's open transaction in psql held every command for as long as it lasted, without a word."""
    monkeypatch.setattr(engine, "BUSY_SECONDS", 1)
    with server.database(postgres_server) as url:
        with open_store(url) as store:
            store.create_run(make_run("r1"))
        holder, _ = engine.open_engine(url)
        with engine.writing(holder) as connection:
            connection.exec_driver_sql("LOCK TABLE run IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError, match="is locked by another session"), open_store(url) as store:
                store.run("r1")
        holder.dispose()
        with open_store(url) as store:
            assert store.run("r1").id == "r1"


@pytest.mark.postgres
def test_a_server_that_falls_silent_is_left(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen server accepted what was sent and never answered: a command waited without an end."""
    monkeypatch.setattr(postgres, "SILENT_SECONDS", 1)
    with server.database(postgres_server) as url:
        opened, address = engine.open_engine(url)
        with (
            pytest.raises(StoreError, match="cannot be reached"),
            engine.translate_errors(address, "reading it"),
            engine.reading(opened) as connection,
        ):
            connection.exec_driver_sql("SELECT pg_sleep(30)")
        with engine.reading(opened) as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM run").scalar() == 0
        opened.dispose()


def _revisions() -> list[str]:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from stresstest.store.engine import migrations_folder

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    return sorted(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())


OLD = [revision for revision in _revisions() if revision != SCHEMA_REVISION]


def _load(url: str, revision: str) -> None:
    """The dump of a store of that revision, as its own database wrote it."""
    kind = "postgresql" if url.startswith("postgresql") else "sqlite"
    dump = (RELEASED / f"{revision}.{kind}.sql").read_text(encoding="utf-8")
    if kind == "postgresql":
        server.execute(url, dump)
        return
    connection = sqlite3.connect(url)
    connection.executescript(dump)
    connection.close()


@pytest.mark.parametrize("revision", OLD)
def test_a_store_of_every_released_schema_opens_with_all_it_holds(store_url: str, revision: str) -> None:
    """Dumps kept from each revision come up to date at the first opening; what they hold is read back whole,
    and they take new data as a fresh store does."""
    _load(store_url, revision)
    known = json.loads((RELEASED / f"{revision}.json").read_text(encoding="utf-8"))
    with open_store(store_url) as store:
        [summary] = store.runs()
        assert [summary.id, summary.generations, summary.degenerate, summary.lost] == known["summary"]
        read = list(store.generations(summary.id))
        assert [[g.key, g.text, g.verdict.onset, g.finish_reason] for g in read] == known["generations"]
        assert [[t.id, t.logprob, t.arrived] for t in read[0].tokens[:3]] == known["tokens"]
        assert [[s.at, s.kv_usage, s.preemptions] for s in store.samples(summary.id)] == known["samples"]
        assert [[g.at, g.gpu, g.power] for g in store.gpu_samples(summary.id)] == known["gpu_samples"]
        [stored] = store.thresholds()
        assert [stored.threshold.tokens, stored.safe_max_tokens, stored.verdict.sentence] == known[
            "threshold"
        ]
        found = store.diagnosis(summary.id)
        assert (list(found.notes) if found else []) == known.get("diagnosis", [])
        kept = [[d.id, str(d.kind), d.saved, dict(d.body)] for d in store.documents(run=summary.id)]
        assert kept == known.get("documents", [])
        store.save_document(DocumentKind.SCAN, {"requests": 1})
        store.create_run(make_run("new"))
        assert store.add_generation("new", make_generation())
        assert list(store.generations("new")) == [make_generation()]
    with open_store(store_url) as store:
        assert len(store.runs()) == 2


def test_a_store_of_a_newer_program_is_refused_and_loses_nothing(store_url: str) -> None:
    """One sentence, and everything is there for the program that wrote it."""
    with open_store(store_url) as store:
        store.create_run(make_run())
        store.add_generation("r1", make_generation())
    _sql(store_url, "UPDATE stresstest_schema SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer stresstest \(schema 9999") as refused:
        open_store(store_url)
    assert "Nothing was changed" in str(refused.value.hint)
    _sql(store_url, f"UPDATE stresstest_schema SET version_num = '{SCHEMA_REVISION}'")
    with open_store(store_url) as store:
        assert list(store.generations("r1")) == [make_generation()]


def test_another_programs_tables_are_left_alone(store_url: str) -> None:
    """A database that has a table of one of our names, and no schema of ours, is not touched."""
    _sql(store_url, "CREATE TABLE run (id INTEGER)")
    with pytest.raises(StoreError, match="another program's tables"):
        open_store(store_url)
    _sql(store_url, "INSERT INTO run VALUES (1)")


@pytest.mark.parametrize("damage", ["DROP TABLE sample", "ALTER TABLE generation DROP COLUMN body"])
def test_a_damaged_schema_is_a_sentence(store_url: str, damage: str) -> None:
    """A table or column that is gone is told in one sentence, without SQL or a password, and what does not
    need it still works."""
    with open_store(store_url) as store:
        store.create_run(make_run())
        store.add_generation("r1", make_generation())
    _sql(store_url, damage)
    with open_store(store_url) as store, pytest.raises(StoreError) as told:
        store.samples("r1")
        list(store.generations("r1"))
    assert "lacks a part of its schema" in str(told.value)
    assert "SELECT" not in str(told.value)
    assert store.location in str(told.value)
    with open_store(store_url) as store:
        assert store.run("r1") == make_run()


def test_a_migration_that_fails_changes_nothing(store_url: str) -> None:
    """An old store with something in the way of its migration stays an old store, whole."""
    _load(store_url, "0001")
    _sql(store_url, "CREATE TABLE gpu_sample (mine INTEGER)")
    with pytest.raises(StoreError) as told:
        open_store(store_url)
    assert "gpu_sample" in str(told.value)
    _sql(store_url, "DROP TABLE gpu_sample")
    with open_store(store_url) as store:
        assert len(list(store.generations(store.runs()[0].id))) >= 3


def test_a_failure_that_quotes_a_password_is_cleaned(store_url: str) -> None:
    """Neither the endpoint's password nor the store's own is in what a user sees of a store."""
    lost = ServiceFailure(FailureKind.REFUSED, "http://me:hunter2@host/v1 refused")
    with open_store(store_url) as store:
        store.create_run(make_run())
        store.add_generation("r1", replace(make_generation(), failure=lost))
        assert "hunter2" not in repr(list(store.generations("r1")))
        if store_url.startswith("postgresql"):
            password = store_url.split(":")[2].partition("@")[0]
            assert password not in store.location + repr(store)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: url.replace("@127", "x@127"), "cannot be reached"),
        (lambda url: url.rpartition("/")[0] + "/nonesuch", "nonesuch"),
        (lambda url: url.replace("://stresstest:", "://nobody:"), "cannot be reached"),
    ],
    ids=["wrong password", "no such database", "no such user"],
)
def test_a_server_that_refuses_is_a_sentence(
    postgres_server: str, change: Callable[[str], str], said: str
) -> None:
    """Password, database and user: refused in one sentence that shows no password, in no traceback either."""
    password = postgres_server.split(":")[2].partition("@")[0]
    with pytest.raises(StoreError) as refused:
        open_store(change(postgres_server))
    shown = "".join(traceback.format_exception(refused.value)) + str(refused.value.hint)
    assert said in str(refused.value)
    assert password not in shown


@pytest.mark.postgres
def test_a_server_that_goes_away_costs_what_was_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server stops in the middle of a campaign: one sentence; what had been committed is there again."""
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0)
    with server.serve() as admin, server.database(admin) as url, open_store(url) as store:
        store.create_run(make_run())
        store.add_generation("r1", make_generation(0))
        backends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        name = url.rpartition("/")[2]
        server.execute(admin, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        server.execute(admin, f"{backends} AND datname = '{name}'")
        with pytest.raises(StoreError):
            store.add_generation("r1", make_generation(1))
        server.execute(admin, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        assert list(store.generations("r1")) == [make_generation(0)]
        assert store.add_generation("r1", make_generation(1))


@pytest.mark.postgres
def test_a_server_that_restarts_is_waited_for() -> None:
    """A database that is upgraded in the middle of a campaign does not end it."""
    with server.stopped_and_started() as (url, stop, start), open_store(url) as store:
        store.create_run(make_run())
        stop()
        with ThreadPoolExecutor(1) as other:
            stored = other.submit(store.add_generation, "r1", make_generation())
            start()
            assert stored.result()
        assert list(store.generations("r1")) == [make_generation()]


@pytest.mark.postgres
def test_a_restart_within_a_transaction_loses_no_answer(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only connecting was tried again: the answer that was being stored was lost, and the run ended."""
    once = iter((True,))
    add = generations.add

    def ended_first(connection: Connection, row: dict[str, Any]) -> bool:
        if next(once, False):
            pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            server.execute(url.rpartition("/")[0] + "/postgres", f"SELECT pg_terminate_backend({pid})")
        return add(connection, row)

    monkeypatch.setattr(generations, "add", ended_first)
    with server.database(postgres_server) as url, open_store(url) as store:
        store.create_run(make_run())
        assert store.add_generation("r1", make_generation())
        assert list(store.generations("r1")) == [make_generation()]


@pytest.mark.postgres
@pytest.mark.parametrize(("encoding", "taken"), [("SQL_ASCII", True), ("LATIN1", False)])
def test_a_database_in_an_old_encoding(postgres_server: str, encoding: str, taken: bool) -> None:
    """One in SQL_ASCII, as `initdb` makes it where no language is set, ended every command in a traceback;
    in Latin-1 the run, at the first character that it has not."""
    admin, name = postgres_server, f"old_{encoding.lower()}"
    server.execute(
        admin, f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    url = f"{admin.rpartition('/')[0]}/{name}"
    if not taken:
        with pytest.raises(StoreError, match="encoded in LATIN1"):
            open_store(url)
        return
    with open_store(url) as store:
        store.create_run(make_run())
        wanted = replace(make_generation(), finish_reason="длина")
        assert store.add_generation("r1", wanted)
        assert list(store.generations("r1")) == [wanted]


@pytest.mark.slow
def test_any_damage_to_a_sqlite_file_ends_in_a_sentence(tmp_path: Path) -> None:
    """Sixty files with random bytes overwritten, cut or appended: what is read is right, or it is a
    StoreError; never a traceback of a driver, and opening never makes it worse for a rescue."""
    whole = tmp_path / "whole.db"
    expected = [make_generation(i) for i in range(6)]
    with open_store(str(whole)) as store:
        store.create_run(make_run())
        for generation in expected:
            store.add_generation("r1", generation)
    rng = random.Random(11)
    content = whole.read_bytes()
    refused: list[str] = []
    for number in range(60):
        damaged = bytearray(content)
        at, length = rng.randrange(len(damaged)), rng.choice((1, 16, 600, 5000))
        if number % 6 == 5:
            del damaged[at:]
        else:
            damaged[at : at + length] = rng.randbytes(length)
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        try:
            with open_store(str(path)) as store:
                found = list(store.generations("r1")) if store.runs() else []
                assert all(g.key == e.key for g, e in zip(found, expected, strict=False))
        except StoreError as error:
            refused.append(str(error))
    assert len(refused) >= 10
    assert all(str(tmp_path) in said or "damaged" in said for said in refused)


def _sql(url: str, statement: str) -> None:
    if url.startswith("postgresql"):
        server.execute(url, statement)
        return
    connection = sqlite3.connect(url)
    with connection:
        connection.execute(statement)
    connection.close()


def test_a_copy_of_a_fixture_is_what_is_migrated(tmp_path: Path) -> None:
    """A store that was backed up before an upgrade is untouched by it: the file of before still opens."""
    _load(str(tmp_path / "old.db"), "0001")
    shutil.copy(tmp_path / "old.db", tmp_path / "backup.db")
    open_store(str(tmp_path / "old.db")).close()
    connection = sqlite3.connect(tmp_path / "backup.db")
    assert connection.execute("SELECT version_num FROM stresstest_schema").fetchall() == [("0001",)]
    connection.close()
