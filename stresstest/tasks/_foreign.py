"""Foreign files: bytes from a path, typed access to a TOML table, one clear sentence when wrong."""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stresstest.errors import UsageError


class Malformed(Exception):
    """What is wrong inside a file; the caller adds where."""


def short(value: object) -> str:
    """A value as a message shows it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer too long to print, a list too deep
        return "something unprintable"
    return text if len(text) <= 60 else text[:57] + "…"


def suggestion(given: str, known: Iterable[str]) -> str | None:
    """The closest known word as a question, None when nothing is close."""
    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None


def read(given: str | Path, what: str) -> bytes:
    """A file's bytes, ``~`` expanded and a byte-order mark removed; UsageError when it cannot be read."""
    path = Path(os.path.expanduser(given))  # noqa: PTH111  (Path.expanduser raises on "~nobody")
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except FileNotFoundError:
        raise UsageError(f"{what} {path} does not exist") from None
    except IsADirectoryError:
        raise UsageError(f"{what} {path} is a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise UsageError(f"{what} {str(path)!r} cannot be read: {error}") from error


class Table:
    """One TOML table being read: typed access, every complaint naming the key's full path."""

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, dict):
            raise Malformed(f"{path} must be a table, not {short(values)}")
        self.values: dict[str, Any] = values
        self.path = path

    def key(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def refuse_unknown(self, allowed: Sequence[str], elsewhere: Sequence[str] = (), note: str = "") -> None:
        for key in self.values:
            if key not in allowed:
                close = note if key in elsewhere else suggestion(key, allowed)
                raise Malformed(
                    f"unknown key {short(self.key(key))}; allowed here: {', '.join(allowed)}"
                    + (f" ({close})" if close else "")
                )

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise Malformed(f"{self.key(key)} must be a non-empty text, not {short(value)}")
        return value

    def required(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise Malformed(f"the key {self.key(key)} is missing")
        return value

    def label(self, key: str, default: str | None = None) -> str:
        value = self.required(key) if default is None else self.text(key) or default
        if len(value) > 200 or not value.isprintable():
            raise Malformed(f"{self.key(key)} must be one line, 200 characters at most, not {short(value)}")
        return value

    def positive(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
            raise Malformed(f"{self.key(key)} must be a number above 0, at most 1000000, not {short(value)}")
        return float(value)

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            raise Malformed(f"{self.key(key)} must be a list of at least one text, not {short(value)}")
        for item in value:
            if not isinstance(item, str) or not item.strip():
                raise Malformed(f"{self.key(key)} must hold non-empty texts, not {short(item)}")
        return value

    def table(self, key: str) -> Table:
        return Table(self.values[key], self.key(key))


@contextlib.contextmanager
def toml_table(raw: bytes, where: str) -> Iterator[Table]:
    """The file's table to read; whatever is wrong with it, then or while it is read, becomes a UsageError.

    where: the file's name, as messages begin.
    """
    try:
        yield Table(tomllib.loads(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not valid TOML: {error}") from error
    except Malformed as error:
        raise UsageError(f"{where}: {error}") from error
