"""Stores for tests: the same on SQLite, and on PostgreSQL where `-m postgres` asks for it. No test meets a
developer's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stresstest.config.settings import DEFAULT_BASE_URL
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.postgres import server

BOTH = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
"""Parameters of a test that must hold on either."""


@pytest.fixture(autouse=True, scope="session")
def _no_server_at_the_default_address() -> Iterator[None]:
    """A developer's vLLM at localhost:8000 refuses the tests' connections: many of them ask the default
    address, and expect nothing there."""
    resolve = aiohttp.DefaultResolver.resolve

    async def closed(resolver: Any, host: str, port: int = 0, *rest: Any, **named: Any) -> Any:
        is_default = f"http://{host}:{port}/v1" == DEFAULT_BASE_URL
        return await resolve(resolver, host, 9 if is_default else port, *rest, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(aiohttp.DefaultResolver, "resolve", closed)
        yield


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
