"""Files that somebody has put beside a SQLite file, where SQLite looks for its own.

A pipe keeps it waiting for ever, and a link leads it to write elsewhere. A journal is rolled back, and the
file that it names as its super-journal (file format, section 3) is deleted, whatever that is. Only a
transaction over several databases has one, and stresstest makes none.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from stresstest.errors import StoreError
from stresstest.output_file import BESIDE_DATABASE, real_path

_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""At the end of a journal that names a super-journal."""
_LEAST = 100
"""Bytes of a database's header. SQLite writes over a file of one byte as over an empty one."""
_HINT = "Nothing was opened. If this folder came from somebody else, do not trust its store."


def refuse_planted_files(path: Path) -> None:
    """Raise StoreError where a SQLite file, or one beside it, is not of SQLite's making."""
    real = real_path(path)
    if real.exists() and not real.is_file():
        raise StoreError(f"{path} cannot be opened: it is no ordinary file.", hint=_HINT)
    if real.exists() and 0 < real.stat().st_size < _LEAST:
        raise StoreError(f"{path} is not a SQLite database.", hint="It was left as it is.")
    for beside in {Path(f"{name}{suffix}") for name in (path, real) for suffix in BESIDE_DATABASE}:
        with suppress(OSError):
            if not stat.S_ISREG(beside.lstat().st_mode):
                raise StoreError(f"{beside} cannot be opened: it is no ordinary file.", hint=_HINT)
        if beside.name.endswith("-journal") and _last_bytes(beside) == _MAGIC:
            raise StoreError(
                f"{beside} names another file, which SQLite would delete: stresstest writes no such journal.",
                hint=_HINT,
            )


def refuse_unread_journal(path: Path) -> None:
    """Raise StoreError where a SQLite file that is opened with ``immutable=1`` has a journal.

    SQLite does not look at it then: what was stored last would be missing, and nothing would say that.
    """
    for suffix in BESIDE_DATABASE[:2]:
        beside = Path(f"{real_path(path)}{suffix}")
        with suppress(OSError):
            if beside.stat().st_size:
                raise StoreError(
                    f"The store {path} cannot be read with immutable=1: {beside.name} beside it holds what "
                    "was stored last.",
                    hint="Copy both to a folder that can be written, and open the copy.",
                )


def _last_bytes(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read(len(_MAGIC))
    return b""
