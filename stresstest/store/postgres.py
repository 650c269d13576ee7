"""Connections to PostgreSQL that end: neither a lock of somebody else's nor a server that has fallen silent
is waited for without a bound."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

SILENT_SECONDS = 50
"""Seconds for one answer of the server's. The longest statement of a store of millions takes a few."""
NETWORK = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""How soon libpq notices that nobody is at the other end."""


def bound_waiting(engine: Engine, lock_seconds: int) -> None:
    """Let no statement of this engine wait longer than so many seconds for a lock, or than `SILENT_SECONDS`
    for the server."""

    def limit_locks(connection: Connection) -> None:
        # Of each transaction: a pooler may send the next one to another server.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{lock_seconds}s'")

    def limited(_dialect: object, _record: object, words: list[Any], settings: dict[str, Any]) -> Any:
        return _limited_connection().connect(*words, **settings)

    def limit_again(driver: Any, _record: object) -> None:
        if driver is not None:
            driver.limited = True

    event.listen(engine, "begin", limit_locks)
    event.listen(engine, "checkin", limit_again)
    event.listen(engine, "do_connect", limited)


def wait_for_locks(connection: Connection) -> None:
    """In this transaction, wait for as long as it takes, in silence too: a schema is changed once. Its
    connection is limited again when it returns to the pool."""
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
    driver = connection.connection.dbapi_connection
    if driver is not None:
        driver.limited = False


@cache
def _limited_connection() -> Any:
    from psycopg import Connection as DriverConnection
    from psycopg import Error

    class LimitedConnection(DriverConnection[Any]):
        """Cut off where the server does not answer in time: libpq has no such limit of its own."""

        limited = True

        def wait(self, *words: Any, **settings: Any) -> Any:
            if not self.limited:
                return super().wait(*words, **settings)
            timer = threading.Timer(SILENT_SECONDS, self._cut_off)
            timer.daemon = True
            timer.start()
            try:
                return super().wait(*words, **settings)
            finally:
                timer.cancel()

        def _cut_off(self) -> None:
            with suppress(OSError, Error), socket.socket(fileno=os.dup(self.fileno())) as connected:
                connected.shutdown(socket.SHUT_RDWR)

    return LimitedConnection
