"""Rollback journals that somebody has put beside a SQLite file.

SQLite rolls a journal that it finds back, and deletes the file that it names as its super-journal (file
format, section 3), whatever that is. Only a transaction over several databases has one, and stresstest makes
none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stresstest.errors import StoreError

_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""At the end of a journal that names a super-journal."""


def refuse_super_journal(path: Path) -> None:
    """Raise StoreError where the journal beside this SQLite file names another file."""
    for beside in {Path(f"{name}-journal") for name in (path, path.resolve())}:
        if beside.is_file() and _last_bytes(beside) == _MAGIC:
            raise StoreError(
                f"{beside} names another file, which SQLite would delete: stresstest writes no such journal.",
                hint="Nothing was opened. If this folder came from somebody else, do not trust its store.",
            )


def _last_bytes(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read(len(_MAGIC))
    return b""
