"""What SQLAlchemy and its drivers throw, as the one sentence a user can act on."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stresstest.errors import StoreError

if TYPE_CHECKING:
    from stresstest.store.location import Address

_HINTS = (
    # what the driver says, what it means, what to do
    ("not a database", "is not a SQLite database, or its header is damaged", "It was left as it is."),
    ("malformed", "is damaged", "Nothing more was written. `sqlite3 FILE .recover` may rescue its contents."),
    ("readonly", "is read-only", "Make it writable, or choose another store with --store."),
    ("read-only", "is read-only", "Make it writable, or choose another store with --store."),
    ("locked", "is locked by another process", "Wait for the other process to finish, then try again."),
    ("is full", "cannot grow: the disk is full", "What was committed is safe. Free some space and resume."),
    ("unable to open", "cannot be opened", "Check that the path exists and may be written."),
    ("disk i/o", "cannot be read or written", "The disk reports an error."),
)

_NO_SUCH_PART = re.compile(r"no such (?:table|column)|(?:relation|column) \S+ does not exist")


@contextmanager
def translated(address: Address, doing: str) -> Iterator[None]:
    """Turn driver errors into a StoreError saying what was being done and what is the matter."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except ModuleNotFoundError as exc:
        raise StoreError(
            f"The store {address.shown} needs the package {exc.name!r}.",
            hint="pip install 'stresstest[postgres]'",
        ) from None
    except SQLAlchemyError as exc:
        cause: BaseException = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        # A driver's chained error may quote the connection string: the chain ends here.
        raise _sentence(address, doing, cause) from None
    except sqlite3.Error as exc:  # from a connection that SQLAlchemy has not wrapped yet
        raise _sentence(address, doing, exc) from None
    except UnicodeDecodeError:  # SQLite's own message quotes a schema that is no text any more
        raise _sentence(address, doing, sqlite3.DatabaseError("malformed database schema")) from None


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
    if "connect" in said.lower():
        return StoreError(
            f"The store's server at {address.shown} cannot be reached ({doing}: {said}).",
            hint="Check the address, the user and that the server is running.",
        )
    return StoreError(f"The store {address.shown} failed ({doing}: {said}).")
