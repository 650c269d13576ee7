"""Reading user-supplied files: bytes from a path, and typed access to TOML tables with clear errors."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stresstest.config.suggestions import suggest_closest
from stresstest.config.toml_text import parse_toml
from stresstest.errors import UsageError
from stresstest.output_file import remember_input

MAX_FILE = 2 * 1024 * 1024
"""Bytes of a file in TOML, which takes seconds a megabyte to parse. The largest that is shipped has 40 kB."""


class MalformedFileError(Exception):
    """A file's content is invalid. The message names the key; the caller adds the file."""


def format_short(value: object) -> str:
    """A value's repr for a message, at most 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer too long to print, a list too deep
        return "something unprintable"
    return text if len(text) <= 60 else text[:57] + "…"


def read_file(given: str | Path, what: str, most: int = MAX_FILE) -> bytes:
    """The bytes of the file without a UTF-8 byte-order mark; ``~`` in the path is expanded.

    what: the kind of file, for messages. most: bytes. Raises UsageError if it cannot be read or is larger.
    """
    path = Path(os.path.expanduser(given))  # noqa: PTH111  (Path.expanduser raises on "~nobody")
    try:
        if is_named_pipe(path):
            raise UsageError(
                f"{what} {path} is a named pipe: reading would wait until something writes to it"
            )
        remember_input(path)
        with path.open("rb") as file:
            found = file.read(most + 1)
        if len(found) > most:
            raise UsageError(f"{what} {path} is larger than {most >> 20} MiB")
        return found.removeprefix(b"\xef\xbb\xbf")
    except FileNotFoundError:
        raise UsageError(f"{what} {path} does not exist") from None
    except IsADirectoryError:
        raise UsageError(f"{what} {path} is a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise UsageError(f"{what} {str(path)!r} cannot be read: {error}") from error


def is_named_pipe(path: Path) -> bool:
    """Whether opening the file would wait for a writer. The pipe of a process substitution has one."""
    named = not (path.is_relative_to("/dev") or path.is_relative_to("/proc"))
    return named and stat.S_ISFIFO(path.stat().st_mode)


class TomlTable:
    """Typed access to one TOML table. Every MalformedFileError names the key's full path.

    values: the table's content. path: the table's own path, empty for the whole file.
    """

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, dict):
            raise MalformedFileError(f"{path} must be a table, not {format_short(values)}")
        self.values: dict[str, Any] = values
        self.path = path

    def key(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def refuse_unknown(self, allowed: Sequence[str], elsewhere: Sequence[str] = (), note: str = "") -> None:
        for key in self.values:
            if key not in allowed:
                close = note if key in elsewhere else suggest_closest(key, allowed)
                raise MalformedFileError(
                    f"unknown key {format_short(self.key(key))}; allowed here: {', '.join(allowed)}"
                    + (f" ({close})" if close else "")
                )

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise MalformedFileError(f"{self.key(key)} must be a non-empty text, not {format_short(value)}")
        return value

    def required(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise MalformedFileError(f"the key {self.key(key)} is missing")
        return value

    def label(self, key: str, default: str | None = None) -> str:
        value = self.required(key) if default is None else self.text(key) or default
        if len(value) > 200 or not value.isprintable():
            raise MalformedFileError(
                f"{self.key(key)} must be one line, 200 characters at most, not {format_short(value)}"
            )
        return value

    def positive(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
            raise MalformedFileError(
                f"{self.key(key)} must be a number above 0, at most 1000000, not {format_short(value)}"
            )
        return float(value)

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise MalformedFileError(
                f"{self.key(key)} must be a list of at least one text, not {format_short(value)}"
            )
        for item in value:
            if not isinstance(item, str) or not item.strip():
                raise MalformedFileError(
                    f"{self.key(key)} must hold non-empty texts, not {format_short(item)}"
                )
        return value

    def table(self, key: str) -> TomlTable:
        return TomlTable(self.values[key], self.key(key))


@contextlib.contextmanager
def toml_table(raw: bytes, where: str) -> Iterator[TomlTable]:
    """Parse a TOML file and yield its table; errors in parsing or in the `with` body become UsageError.

    where: the file's name, the beginning of each message.
    """
    try:
        yield TomlTable(parse_toml(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not valid TOML: {error}") from error
    except MalformedFileError as error:
        raise UsageError(f"{where}: {error}") from error
