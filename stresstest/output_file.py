"""Which files a command does not write over, and how it writes one whose name nobody typed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

from stresstest.errors import UsageError

_DATABASE = b"SQLite format 3\0"
_LOOKED_AT = 1 << 20
"""Bytes at the beginning of a file that are searched for what only our files have."""
_OURS = re.compile(
    rb'<meta name="generator" content="stresstest"|<testsuites name="stresstest|"run_id": "\d{8}-\d{6}-'
    rb"|^### stresstest check|^\| stresstest \| \d|^\| what \| how much \| known \|",
    re.MULTILINE,
)
BESIDE_DATABASE = ("-journal", "-wal", "-shm")
"""Ends of the names of the files in which SQLite keeps what was written last."""


_inputs: set[Path] = set()


def real_path(path: Path) -> Path:
    """The path with every link followed. One that leads to itself stays, where `Path.resolve` would raise."""
    return Path(os.path.realpath(path))


def forget_inputs() -> None:
    """A command begins, perhaps in a process that has run others."""
    _inputs.clear()


def remember_input(path: Path) -> None:
    """Keep a file that the user wrote, such as settings or a task, from being written over here."""
    if path.is_file():  # of a terminal, input and output are one
        _inputs.add(path.absolute())


def refuse_overwriting(name: str | Path) -> None:
    """Raise UsageError for an SQLite database, which may be a store of runs, and the files beside it; for
    what was read as settings or a task; and for "-", which would be the name of a file."""
    path = Path(name)
    if str(name) == "-":
        raise UsageError("- names no file.", hint="To write to standard output: /dev/stdout")
    refuse_inputs([path], [])
    if _is_database(path):
        raise UsageError(f"{name} is a database, such as a store of runs, and is not overwritten.")
    if any(path.name.endswith(e) and _is_database(Path(str(path).removesuffix(e))) for e in BESIDE_DATABASE):
        raise UsageError(f"{name} belongs to the database beside it, and is not overwritten.")


def _is_database(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe must not be read
            return False
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False  # whoever writes it will say why it cannot be written


def refuse_link(name: str | Path) -> None:
    """Raise UsageError for a symbolic link where the program chose the name: a cloned repository may hold
    one that leads to any file of the user's."""
    if Path(name).is_symlink():
        raise UsageError(
            f"{name} is a symbolic link, and is not written through.",
            hint="Remove it, or work in another folder.",
        )


def refuse_foreign(path: Path) -> None:
    """Raise UsageError for a file that has none of the marks of ours: it is somebody else's, such as the
    index.html of a website, and nobody has named it."""
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            if not file.peek(1) or _OURS.search(file.read(_LOOKED_AT)):
                return
    except OSError:
        return  # whoever writes it will say why it cannot be written
    raise UsageError(
        f"{path} was not written by stresstest, and is not overwritten.",
        hint="Choose another folder, or name the file yourself with an option such as --output.",
    )


def refuse_inputs(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Raise UsageError for an output that is one of the files that are read, under whatever name, or was read
    as settings or a task; "-" is what standard input comes from."""
    read = [*_inputs, *(each for each in inputs if each is not None)]
    for output in outputs:
        if output is not None and any(_is_same(output, each) for each in read):
            raise UsageError(f"{output} is also an input file, and is not overwritten.")


def replace_file(path: Path, pieces: Iterable[str | bytes]) -> None:
    """Write a whole file at once, in place of the one, or the link, that is there. Raises OSError."""
    half = path.with_name(f"{path.name[:60]}.{os.getpid()}.tmp")
    with half.open("xb") as file:  # follows no link
        try:
            file.writelines(map(_as_bytes, pieces))
            file.close()
            if path.exists():
                shutil.copymode(path, half)
            half.replace(path)
        except BaseException:
            half.unlink()
            raise


def write_over(path: Path, pieces: Iterable[str | bytes]) -> None:
    """Write a file that the user has named: whole, or what was there stays. A link, a pipe, a device,
    somebody else's file or one in a folder that cannot be written to stays what it is, and is written as the
    pieces come. Raises OSError."""
    if _may_be_replaced(path):
        replace_file(path, pieces)
        return
    with path.open("wb") as file:
        file.writelines(map(_as_bytes, pieces))


def _as_bytes(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def _may_be_replaced(path: Path) -> bool:
    """Whether a new file may take its place: no link, no pipe, nobody else's, in a folder that is open."""
    if path.is_symlink() or not os.access(path.parent, os.W_OK):
        return False
    if not path.exists():
        return True
    return path.is_file() and (not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid())


def refuse_one_file(named: Mapping[str, str | None]) -> None:
    """UsageError where two options name one file to be written. A device takes both."""
    given = [(option, Path(path)) for option, path in named.items() if path is not None]
    for (one, path), (other, second) in combinations(given, 2):
        if real_path(path) == real_path(second) and not (path.exists() and not path.is_file()):
            raise UsageError(f"{one} and {other} name the same file.")


def _is_same(one: str | Path, other: str | Path) -> bool:
    try:
        if other == "-":
            return os.path.samestat(Path(one).stat(), os.fstat(0))
        read = str(other).rpartition("::")[2]  # behind a cache or within an archive
        return Path(one).samefile(read.removeprefix("file://").removeprefix("local://"))
    except (OSError, ValueError):  # one of them is not there, or an address
        return False
