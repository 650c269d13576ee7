"""Opening the database: connection settings, transactions, migrations.

SQLite is run in WAL mode with full sync: a committed generation survives kill -9 and power loss,
and readers never wait for the writer. Write transactions take the write lock at their start, so
that a second writer waits (`busy_timeout`) instead of failing half-way.
"""

from __future__ import annotations

import importlib.resources
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from stresstest.errors import StoreError
from stresstest.store.location import Address, locate, require_folder
from stresstest.store.postgres import NETWORK, bound_waiting, wait_for_locks
from stresstest.store.side_files import refuse_planted_files, refuse_unread_journal
from stresstest.store.tables import SCHEMA_REVISION, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    from stresstest.store.location import Address


BUSY_SECONDS = 15
_MIGRATION_LOCK = 7306741  # any fixed number: PostgreSQL's advisory lock for our migrations
_WAL_ATTEMPTS = 100


class ConnectionLostError(StoreError):
    """The server ended the connection within a transaction: nothing of it was written."""


def open_engine(url: str | None) -> tuple[Engine, Address]:
    """An engine on a store whose schema is current. Raises UsageError, StoreError."""
    address = locate(url)
    require_folder(address)
    if address.path is not None:
        refuse_planted_files(address.path)
        if address.immutable:
            refuse_unread_journal(address.path)
    with translate_errors(address, "opening it"):
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
    with connect(engine).execution_options(stresstest_write=True) as connection, connection.begin():
        yield connection


def connect(engine: Engine) -> Connection:
    """A connection. A PostgreSQL server that restarts is waited for, as a writer of SQLite is."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return engine.connect()
        except OperationalError:
            if engine.dialect.name == "sqlite" or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def migrations_folder() -> Path:
    """The alembic folder: inside the installed package, else at the top of a source checkout."""
    packaged = Path(str(importlib.resources.files("stresstest"))) / "_data" / "alembic"
    folder = packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "alembic"
    if not (folder / "env.py").is_file():
        raise StoreError("The migrations are missing from this installation.", hint="Reinstall stresstest.")
    return folder


def _engine(address: Address) -> Engine:
    if address.url.get_backend_name() != "sqlite":
        # A pooler such as PgBouncer may send each transaction to another server, which has not prepared what
        # the last one has. libpq waits for ever by default; a URL may say otherwise.
        settings: dict[str, Any] = {"client_encoding": "utf8", "prepare_threshold": None}
        waiting = {**NETWORK, "connect_timeout": BUSY_SECONDS}
        settings |= {name: value for name, value in waiting.items() if name not in address.url.query}
        engine = create_engine(address.url, hide_parameters=True, pool_pre_ping=True, connect_args=settings)
        bound_waiting(engine, BUSY_SECONDS)
        return engine
    arguments: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    if address.path is None:
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
    """Turn WAL on if it is off, but not in another program's file, which would keep it. SQLite does not wait
    for a lock here, so we do."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names and VERSION_TABLE not in names:
        return
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
        _refuse_programs(connection, address)
        if _revision(connection) == SCHEMA_REVISION:
            return
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            wait_for_locks(connection)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        revision = _revision(connection)  # another process may have been quicker
        if revision == SCHEMA_REVISION:
            return
        if revision is None:
            _refuse_foreign(connection, address)
            _refuse_encoding(connection, address)
        _migrate(connection, revision, address)


def _revision(connection: Connection) -> str | None:
    """The schema's revision, None for a database without ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    row = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).first()
    return None if row is None else str(row[0])


_PLAIN = re.compile(
    r'\s*CREATE\s+(?:TABLE\s+[\w"]+\s*\((?:[\w\s",]|\([\w\s",]+\))*\)'
    r'|(?:UNIQUE\s+)?INDEX\s+[\w"]+\s+ON\s+[\w"]+\s*\([\w\s",]+\))\s*',
    re.IGNORECASE | re.ASCII,
)
"""A definition of names, types and keys: no expression, no text, no comment."""
_COMPUTED = re.compile(r"\b(?:as|check|default|generated|virtual|where)\b", re.IGNORECASE)


def _refuse_programs(connection: Connection, address: Address) -> None:
    """A SQLite file may bring views without an end, triggers that change what is written, and columns that
    are computed, in gigabytes, when they are read."""
    if connection.dialect.name != "sqlite":
        return
    query = text("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    defined = connection.execute(query).all()
    ours = any(str(name).lower() == VERSION_TABLE for _, name, _ in defined)
    for kind, name, sql in defined:
        shown = f"({str(name)[:60]!r})"
        if kind in ("view", "trigger"):
            held = f"a {kind} {shown}"
        elif ours and (_COMPUTED.search(str(sql)) or not _PLAIN.fullmatch(str(sql))):
            held = f"computed columns or conditions in its {kind} {shown}"
        else:
            continue
        raise StoreError(
            f"{address.shown} holds {held}: stresstest creates none.",
            hint="Nothing was changed. Choose another store with --store.",
        )


def _refuse_foreign(connection: Connection, address: Address) -> None:
    """Never mix our tables into another program's database."""
    present = set(inspect(connection).get_table_names())
    foreign = present if connection.dialect.name == "sqlite" else present & set(metadata.tables)
    if foreign - {VERSION_TABLE}:
        raise StoreError(
            f"{address.shown} holds another program's tables ({', '.join(sorted(foreign)[:3])}, …).",
            hint="Nothing was changed. Choose another store with --store.",
        )


def _refuse_encoding(connection: Connection, address: Address) -> None:
    """A PostgreSQL database in an old encoding would refuse the first character that it has not."""
    if connection.dialect.name != "postgresql":
        return
    encoding = str(connection.execute(text("SHOW server_encoding")).scalar())
    if encoding not in ("UTF8", "SQL_ASCII"):  # the latter keeps whatever it is given
        raise StoreError(
            f"The database {address.shown} is encoded in {encoding}, which cannot hold every text.",
            hint="Nothing was changed. Create one with ENCODING 'UTF8', or choose another with --store.",
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


_HINTS = (
    # what the driver says, what it means, what to do
    ("not a database", "is not a SQLite database, or its header is damaged", "It was left as it is."),
    ("malformed", "is damaged", "Nothing more was written. `sqlite3 FILE .recover` may rescue its contents."),
    ("readonly", "is read-only", "Make it writable, or choose another store with --store."),
    ("read-only", "is read-only", "Make it writable, or choose another store with --store."),
    ("locked", "is locked by another process", "Wait for the other process to finish, then try again."),
    ("is full", "cannot grow: the disk is full", "What was committed is safe. Free some space."),
    (
        "unable to open",
        "cannot be opened",
        "Check that the path exists and may be written. To read one on a read-only medium: --store "
        "'sqlite:///file:/PATH?immutable=1&uri=true'",
    ),
    ("disk i/o", "cannot be read or written", "The disk reports an error."),
)

_NO_SUCH_PART = re.compile(r"no such (?:table|column)|(?:relation|column) \S+ does not exist")


@contextmanager
def translate_errors(address: Address, doing: str) -> Iterator[None]:
    """Turn driver errors into a StoreError saying what was being done and what is the matter."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except ModuleNotFoundError as exc:
        raise StoreError(
            f"The store {address.shown} needs the package {exc.name!r}.",
            hint="Install it with: pip install 'psycopg[binary]'",
        ) from None
    except SQLAlchemyError as exc:
        cause: BaseException = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        # A driver's chained error may quote the connection string: the chain ends here.
        told = _sentence(address, doing, cause)
        if isinstance(exc, DBAPIError) and exc.connection_invalidated:
            raise ConnectionLostError(str(told), hint=told.hint) from None
        raise told from None
    except sqlite3.Error as exc:  # from a connection that SQLAlchemy has not wrapped yet
        raise _sentence(address, doing, exc) from None
    except UnicodeDecodeError:  # SQLite's own message quotes a schema that is no text any more
        raise _sentence(address, doing, sqlite3.DatabaseError("malformed database schema")) from None


@contextmanager
def translate_values(address: Address, doing: str) -> Iterator[None]:
    """Turn what reading fails on into a StoreError: a store may have been edited, or be a stranger's."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as exc:
        raise StoreError(
            f"The store {address.shown} holds values that stresstest never writes "
            f"({doing}: {str(exc)[:80]}).",
            hint="Restore it from a backup, or choose another store with --store.",
        ) from exc


def _sentence(address: Address, doing: str, cause: BaseException) -> StoreError:
    # PostgreSQL quotes the statement after its reason; the statement is ours, and no news to a user.
    said = address.scrub(" ".join(str(cause).partition("\nLINE ")[0].split()))
    if _NO_SUCH_PART.search(said):
        return StoreError(
            f"The store {address.shown} lacks a part of its schema ({doing}: {said}).",
            hint="Restore it from a backup, or choose another store with --store.",
        )
    if address.url.get_backend_name() == "sqlite":
        for pattern, meaning, hint in _HINTS:
            if pattern in said.lower():
                return StoreError(f"The store {address.shown} {meaning} ({doing}: {said}).", hint=hint)
    if "lock timeout" in said:
        return StoreError(
            f"The store {address.shown} is locked by another session ({doing}: {said}).",
            hint="Wait for its transaction to end, then try again.",
        )
    if "connect" in said.lower():
        return StoreError(
            f"The store's server at {address.shown} cannot be reached ({doing}: {said}).",
            hint="Check the address, the user and that the server is running.",
        )
    return StoreError(f"The store {address.shown} failed ({doing}: {said}).")
