"""Which files a command does not write over."""

from __future__ import annotations

from pathlib import Path

from stresstest.errors import UsageError

_DATABASE = b"SQLite format 3\0"


def refuse_database(name: str | Path) -> None:
    """Raise UsageError for a file that is an SQLite database: it may be a store of runs."""
    path = Path(name)
    try:
        if not path.is_file():  # a pipe must not be read
            return
        with path.open("rb") as file:
            found = file.read(len(_DATABASE))
    except OSError:
        return  # whoever writes it will say why it cannot be written
    if found == _DATABASE:
        raise UsageError(f"{name} is a database, such as a store of runs, and is not overwritten.")
