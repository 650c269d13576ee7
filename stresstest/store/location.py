"""Where the store is: a URL, a file path, or the user's data folder. Passwords are never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from stresstest.errors import StoreError, UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_FILE_NAME = "stresstest.sqlite3"
_CONNECTION = re.compile(r"(?:^|\s)password\s*=|^[\w+.-]+:[^/\\\s]*@", re.IGNORECASE)
"""In what no file is called: libpq's ``password=…``, and a URL whose slashes are missing."""
_IN_MEMORY = "(in memory, until this command ends)"
_POSTGRES = {"postgres", "postgresql", "postgresql+psycopg"}


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved store address. shown: without password and query. path: a SQLite file's, else None.

    named: the user chose it; False for the file in the data folder. immutable: SQLite is told that nobody
    writes it, and reads neither its locks nor its journal.
    """

    url: URL
    shown: str
    path: Path | None
    named: bool = True
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def file_identity(self) -> tuple[int, int] | None:
        """Device and number of the SQLite file that is at the path now; None without a file."""
        try:
            found = self.path.stat() if self.path is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    def scrub(self, message: str) -> str:
        """The message without the address's password, in case a driver quotes it."""
        for secret in (self.url.password, *_query_secrets(self.url)):
            if secret:
                message = message.replace(secret, "***")
        return message


def data_folder() -> Path:
    """The user's folder for this program's data: XDG_DATA_HOME, else what the platform prescribes."""
    from platformdirs import user_data_path

    try:
        return user_data_path("stresstest", appauthor=False)
    except RuntimeError:
        raise UsageError(
            "The store needs a home folder, and there is none.", hint="Name one with --store."
        ) from None


def locate(url: str | None) -> Address:
    """Resolve what the user gave. Raises UsageError for a URL that is malformed or not supported."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if not url:
        return _file(data_folder() / _FILE_NAME, named=False)
    if "://" not in url:
        if _CONNECTION.search(url):
            raise UsageError(
                "The store's address looks like a database connection, but is no URL.", hint=_HINT
            )
        return _file(_expanded(url))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError("The store's URL cannot be understood.", hint=_HINT) from None
    if "@" in (parsed.host or ""):
        raise UsageError(
            "The store's URL has several @ signs.", hint="Within a password, write @ as %40 and / as %2F."
        )
    if parsed.drivername in _POSTGRES:
        parsed = parsed.set(drivername="postgresql+psycopg")
        return Address(parsed, parsed.set(query={}).render_as_string(hide_password=True), None)
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise UsageError(f"A store cannot be kept in {parsed.drivername!r}.", hint=_HINT)
    name = parsed.database
    if not name or name == ":memory:":
        return Address(URL.create("sqlite"), f"sqlite:// {_IN_MEMORY}", None)
    if name.startswith("file:"):  # SQLite's own URI, e.g. ?mode=ro&uri=true
        in_memory = parsed.query.get("mode") == "memory" or "mode=memory" in name or ":memory:" in name
        path = None if in_memory else Path(unquote(urlsplit(name).path)).absolute()
        immutable = "immutable" in parsed.query or "immutable=" in name
        return Address(parsed, f"{name} {_IN_MEMORY}" if in_memory else name, path, immutable=immutable)
    if parsed.query:
        raise UsageError(
            "The store's URL has a query (?), which SQLite would not see.",
            hint=f"Write sqlite:///file:{name}?…&uri=true, or the path alone.",
        )
    return _file(_expanded(name))


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UsageError(f"The store {name!r} names the home of a user who is not known here.") from None


def require_folder(address: Address) -> None:
    """Create the data folder, readable by its user only; a folder that the user named has to be there.

    Raises StoreError: a mistyped path must not leave folders behind.
    """
    if address.path is None:
        return
    if address.named:
        if not address.path.parent.is_dir():
            raise StoreError(
                f"The store's folder {address.path.parent} does not exist.",
                hint="Create it, or correct --store.",
            )
        return
    try:
        address.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(
            f"The store's folder {address.path.parent} cannot be created: {exc.strerror}.", hint=_HINT
        ) from exc


def _file(path: Path, *, named: bool = True) -> Address:
    from sqlalchemy.engine import URL

    path = path.absolute()
    return Address(URL.create("sqlite", database=str(path)), str(path), path, named)


def _query_secrets(url: URL) -> list[str]:
    return [v for k, v in url.query.items() if "pass" in k.lower() and isinstance(v, str)]


_HINT = "Give --store a file path, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE."
