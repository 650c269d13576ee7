"""Opening the database: connection settings, transactions, migrations.

SQLite is run in WAL mode with full sync: a committed generation survives kill -9 and power loss,
and readers never wait for the writer. Write transactions take the write lock at their start, so
that a second writer waits (`busy_timeout`) instead of failing half-way.
"""

from __future__ import annotations

import importlib.resources
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.pool import StaticPool

from stresstest.errors import StoreError
from stresstest.store.faults import translated
from stresstest.store.location import Address, locate, make_parent
from stresstest.store.tables import SCHEMA_REVISION, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

BUSY_SECONDS = 15
_MIGRATION_LOCK = 7306741  # any fixed number: PostgreSQL's advisory lock for our migrations
_WAL_ATTEMPTS = 100


def open_engine(url: str | None) -> tuple[Engine, Address]:
    """An engine on a store whose schema is current. Raises UsageError, StoreError."""
    address = locate(url)
    make_parent(address)
    with translated(address, "opening it"):
        engine = _engine(address)
        try:
            _bring_up_to_date(engine, address)
        except BaseException:
            engine.dispose()
            raise
    return engine, address


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a read transaction: one consistent snapshot."""
    with engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection in a write transaction, committed at the end or rolled back on any error."""
    with engine.connect().execution_options(stresstest_write=True) as connection, connection.begin():
        yield connection


def migrations_folder() -> Path:
    """The alembic folder: inside the installed package, else at the top of a source checkout."""
    packaged = Path(str(importlib.resources.files("stresstest"))) / "_data" / "alembic"
    folder = packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "alembic"
    if not (folder / "env.py").is_file():
        raise StoreError("The migrations are missing from this installation.", hint="Reinstall stresstest.")
    return folder


def _engine(address: Address) -> Engine:
    if address.url.get_backend_name() != "sqlite":
        # libpq waits for ever by default; a URL may say otherwise.
        patience = {} if "connect_timeout" in address.url.query else {"connect_timeout": BUSY_SECONDS}
        return create_engine(address.url, hide_parameters=True, pool_pre_ping=True, connect_args=patience)
    arguments: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    if address.url.database is None:
        engine = create_engine(
            address.url, hide_parameters=True, connect_args=arguments, poolclass=StaticPool
        )
    else:
        engine = create_engine(address.url, hide_parameters=True, connect_args=arguments)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Settings of one SQLite connection. Transactions are begun by `_begin_sqlite`, not the driver."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    _switch_to_wal(connection)


def _switch_to_wal(connection: Any) -> None:
    """Turn WAL on if it is off. SQLite does not wait for a lock here, so we do."""
    for _ in range(_WAL_ATTEMPTS):
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode in {"wal", "memory"}:
            return
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc):
                if "readonly" in str(exc):  # reading an archived store is fine without it
                    return
                raise
            time.sleep(0.05)


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("stresstest_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _bring_up_to_date(engine: Engine, address: Address) -> None:
    """Migrate when needed; one process at a time, everything or nothing."""
    with reading(engine) as connection:
        if _revision(connection) == SCHEMA_REVISION:
            return
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        revision = _revision(connection)  # another process may have been quicker
        if revision == SCHEMA_REVISION:
            return
        if revision is None:
            _refuse_foreign(connection, address)
        _migrate(connection, revision, address)


def _revision(connection: Connection) -> str | None:
    """The schema's revision, None for a database without ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    row = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).first()
    return None if row is None else str(row[0])


def _refuse_foreign(connection: Connection, address: Address) -> None:
    """Never mix our tables into another program's database."""
    present = set(inspect(connection).get_table_names())
    foreign = present if connection.dialect.name == "sqlite" else present & set(metadata.tables)
    if foreign - {VERSION_TABLE}:
        raise StoreError(
            f"{address.shown} holds another program's tables ({', '.join(sorted(foreign)[:3])}, …).",
            hint="Nothing was changed. Choose another store with --store.",
        )


def _migrate(connection: Connection, revision: str | None, address: Address) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StoreError(
            f"The store {address.shown} was written by a newer stresstest (schema {revision}; "
            f"this one knows up to {SCHEMA_REVISION}).",
            hint="Nothing was changed. Upgrade stresstest, or choose another store with --store.",
        )
    command.upgrade(config, "head")
