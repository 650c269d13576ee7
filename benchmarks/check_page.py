"""docs/check.md: the programs write their own sections, between marks; the rest is written by hand."""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "check.md"


def write_section(name: str, text: str) -> None:
    """Put `text` between the marks of section `name`. ValueError when the page has no such marks."""
    page = PAGE.read_text(encoding="utf-8")
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE} has no section {name!r}")
    PAGE.write_text(pattern.sub(lambda _: f"{marks[0]}\n{text.strip()}\n{marks[1]}", page), encoding="utf-8")


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
