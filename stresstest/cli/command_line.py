"""Keys and passwords given as arguments: taken out of the command line, which all users can read."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

from stresstest.model.address import SIGNING_FIELD, USER

_KEY = b"--api-key"
_USER = re.compile(USER.encode())
_SIGNED = re.compile(rb"(?i)(" + SIGNING_FIELD.encode() + rb")([^&\s]+)")
_STAT = Path("/proc/self/stat")
_START, _END = 45, 46
"""Places of `arg_start` and `arg_end` among the fields behind the command's name (proc(5))."""


def hide_secrets() -> None:
    """Overwrite what is secret in the memory that `ps` reads, with asterisks of the same length.

    Linux only; elsewhere, and where the system does not tell the place, nothing is done.
    """
    if not _STAT.exists():
        return
    fields = _STAT.read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[_START]), int(fields[_END])
    if 0 < start < end:
        for at, size in secret_places(ctypes.string_at(start, end - start)):
            ctypes.memset(start + at, ord("*"), size)


def secret_places(arguments: bytes) -> Iterator[tuple[int, int]]:
    """Offset and size of each secret among arguments that end with a NUL each."""
    at, before = 0, b""
    for argument in arguments.split(b"\0"):
        if before == _KEY:
            yield at, len(argument)
        elif argument.startswith(_KEY + b"="):
            yield at + len(_KEY) + 1, len(argument) - len(_KEY) - 1
        if b":/" in argument:
            for match in (*_USER.finditer(argument), *_SIGNED.finditer(argument)):
                yield at + match.start(2), len(match[2])
        at, before = at + len(argument) + 1, argument
