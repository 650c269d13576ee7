"""Debian's PostgreSQL for the tests: a cluster in a temporary folder, on a free port of this machine alone.

`apt-get install postgresql` brings the programs; PG_BIN names their folder where it is another one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.serve import free_port

USER = "stresstest"
_OWNER = "postgres"
_SETTINGS = {
    "fsync": "off",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
}


class NoServerError(RuntimeError):
    """PostgreSQL is not installed, or did not start; the message says which and why."""


def programs() -> Path:
    """The folder that holds initdb and pg_ctl. Raises NoServerError."""
    given = os.environ.get("PG_BIN")
    folders = [Path(given)] if given else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    folders += [Path(found).parent] if found else []
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    raise NoServerError("no PostgreSQL server here: apt-get install postgresql, or set PG_BIN")


@contextmanager
def serve() -> Iterator[str]:
    """Run a server for the length of a `with` block; yields the URL of its `postgres` database."""
    with stopped_and_started() as (url, _, _):
        yield url


@contextmanager
def stopped_and_started() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """As `serve`, with calls that stop the server, dropping every connection, and start it on its port again.

    Its superuser has a password, so that what must never be shown is really there.
    """
    bin_ = programs()
    # The server refuses to run as root: as Debian's own user then.
    owner: dict[str, Any] = {"user": _OWNER, "group": _OWNER} if os.geteuid() == 0 else {}
    password, port = secrets.token_hex(12), free_port()
    folder = Path(tempfile.mkdtemp(prefix="stresstest-postgres-"))
    try:
        secret = folder / "password"
        secret.write_text(password)
        if owner:
            shutil.chown(folder, _OWNER, _OWNER)
            shutil.chown(secret, _OWNER, _OWNER)
        data, log = str(folder / "data"), folder / "log"

        def call(*words: str) -> None:
            done = subprocess.run(
                words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=120, check=False, **owner,
            )  # fmt: skip
            if done.returncode:
                told = log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""
                raise NoServerError(f"{Path(words[0]).name} failed:\n{done.stdout}\n{told}")

        call(
            str(bin_ / "initdb"), "-D", data, "-U", USER, "--pwfile", str(secret), "-A", "scram-sha-256",
            "--no-sync", "-E", "UTF8", "--locale", "C",
        )  # fmt: skip
        options = " ".join(f"-c {name}='{value}'" for name, value in _SETTINGS.items())
        # Its output to a file: a pipe would stay open in the server, and pg_ctl's caller would wait for ever.

        def start() -> None:
            call(
                str(bin_ / "pg_ctl"), "-D", data, "-l", str(log), "-w", "-o", f"-p {port} {options}", "start"
            )

        def stop() -> None:
            call(str(bin_ / "pg_ctl"), "-D", data, "-m", "fast", "-w", "stop")

        start()
        try:
            yield f"postgresql+psycopg://{USER}:{password}@127.0.0.1:{port}/postgres", stop, start
        finally:
            call(str(bin_ / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(server: str) -> Iterator[str]:
    """A fresh database on the server at this URL, dropped at the end; yields its URL."""
    import psycopg

    name = f"t_{secrets.token_hex(6)}"
    libpq = plain(server)
    with psycopg.connect(libpq, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def plain(url: str) -> str:
    """The URL as libpq takes it: without SQLAlchemy's name of the driver."""
    return url.replace("+psycopg", "", 1)


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """One statement on the database at `url`, committed; its rows."""
    import psycopg

    with psycopg.connect(plain(url), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
