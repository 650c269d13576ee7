"""Stores for tests: the same tests on SQLite, and on PostgreSQL where `-m postgres` asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.postgres import server

BOTH = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
"""Parameters of a test that must hold on either."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A server of our own, started once when a test first asks for it."""
    with server.serve() as url:
        yield url


@pytest.fixture(params=BOTH)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A URL where no store is yet."""
    if request.param == "sqlite":
        yield str(tmp_path / "s.sqlite3")
        return
    with server.database(request.getfixturevalue("postgres_server")) as url:
        yield url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A fresh store."""
    with open_store(store_url) as opened:
        yield opened
