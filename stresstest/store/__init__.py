"""The store: runs, generations, samples, thresholds and documents, in SQLite or PostgreSQL.

Importing this package costs nothing: SQLAlchemy is loaded when a store is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.store.records import (
    RunSummary,
    Session,
    StoredDocument,
    StoredRequest,
    StoredThreshold,
)

if TYPE_CHECKING:
    from stresstest.store.repository import Store

__all__ = [
    "RunSummary",
    "Session",
    "StoredDocument",
    "StoredRequest",
    "StoredThreshold",
    "open_store",
]


def open_store(url: str | None = None) -> Store:
    """Open the store, creating and migrating it as needed.

    url: a SQLAlchemy URL (`sqlite:///…`, `postgresql+psycopg://…`), a plain file path, or None for
    a SQLite file in the user's data folder. Close the result, or use it as a context manager.
    Raises UsageError for an address that means nothing here, StoreError when the store cannot be
    opened: damaged, newer than this program, not writable, unreachable. Nothing is changed then.
    """
    from stresstest.store.engine import open_engine
    from stresstest.store.repository import Store

    engine, address = open_engine(url)
    return Store(engine, address)
