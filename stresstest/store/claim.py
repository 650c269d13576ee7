"""Who measures a run: at most one process at a time.

The claim is a lock that the operating system or PostgreSQL gives up when its holder dies, so that a run whose
process was killed is free at once. Beside a SQLite store it is a locked file of its own, which also works on
Windows; a killed process leaves that file behind, and it stands in nobody's way. A PostgreSQL server that
restarts forgets its claims: each is looked after before anything is written, and taken again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from stresstest.errors import StoreError
from stresstest.output_file import real_path, refuse_link
from stresstest.store.engine import connect
from stresstest.store.location import Address
from stresstest.store.side_files import refuse_planted_files

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

_SPACE = 7306742  # any fixed number: PostgreSQL's advisory locks on our runs


@contextmanager
def claimed(engine: Engine, address: Address, run_id: str) -> Iterator[Callable[[], None]]:
    """Hold a run for the block. Yields a function to be called before each write: it raises StoreError when
    the claim was lost, and another process has the run now.

    Raises StoreError when another process holds it, and UsageError for a symbolic link in the lock's place. A
    store in memory has no other process.
    """
    if address.path is not None:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]  # an id is no file name
        path = real_path(address.path)  # a store has one lock, whatever links lead to it
        with _locked_file(path.with_name(f"{path.name}-{digest}.lock"), run_id):
            yield _nothing
    elif address.url.get_backend_name() == "postgresql":
        with closing(_AdvisoryLock(engine, run_id)) as lock:
            yield lock.keep
    else:
        yield _nothing


def _nothing() -> None:
    pass


@contextmanager
def _locked_file(path: Path, run_id: str) -> Iterator[None]:
    refuse_link(path)  # SQLite would make a file wherever it leads
    refuse_planted_files(path)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise (_taken(run_id) if error.sqlite_errorcode == sqlite3.SQLITE_BUSY else error) from None
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


class _AdvisoryLock:
    """A lock of a transaction, which stays open: a pooler such as PgBouncer gives the connection that has the
    lock of a session to others after each statement."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._alone = threading.Lock()
        self._connection = self._take()

    def keep(self) -> None:
        """Take the lock again if the server has forgotten it."""
        with self._alone:
            try:
                self._connection.execute(text("SELECT 1"))
            except DBAPIError:
                self.close()
                self._connection = self._take()

    def close(self) -> None:
        """Give the run up, if it is still held."""
        if not self._connection.closed:
            self._connection.invalidate()  # the server may have ended it
            self._connection.close()

    def _take(self) -> Connection:
        key = {"space": _SPACE, "run": zlib.crc32(self._run_id.encode()) - 2**31}
        connection = connect(self._engine)
        try:
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            if not connection.execute(text("SELECT pg_try_advisory_xact_lock(:space, :run)"), key).scalar():
                raise _taken(self._run_id)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return connection


def _taken(run_id: str) -> StoreError:
    return StoreError(
        f"Run {run_id} is being measured by another process.",
        hint="Wait until it has ended, or stop it; nothing was sent or changed.",
    )
