"""Results of long simulations, kept in a folder so that an interrupted program goes on where it was."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


def kept(folder: str | None, name: str, make: Callable[[], T]) -> tuple[T, float]:
    """(result, seconds that it took): from the folder, where it is kept under a name that says what it is."""
    file = None if folder is None else _file(folder, name)
    if file is not None and file.exists():
        found: tuple[T, float] = pickle.loads(file.read_bytes())
        return found
    started = perf_counter()
    result = make(), perf_counter() - started
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(result))
    return result


def is_kept(folder: str | None, name: str) -> bool:
    """Whether there is a result of this name."""
    return folder is not None and _file(folder, name).exists()


def _file(folder: str, name: str) -> Path:
    return Path(folder) / f"{zlib.crc32(name.encode()):08x}"
