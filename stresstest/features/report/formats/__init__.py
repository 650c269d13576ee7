"""The formats that `report` writes, by file name extension: one module and one entry each.

A module defines `write(runs) -> str` for at least one run. It is imported when its format is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from stresstest.errors import UsageError
from stresstest.render.report_data import ReportData

Writer = Callable[[Sequence[ReportData]], str]

FORMATS: Mapping[str, str] = {".html": "html", ".md": "markdown", ".json": "json", ".xml": "junit"}
"""Module of this package by file name extension, in the order in which messages list them."""
DEFAULT = ".md"
"""The format on stdout."""


def offered() -> str:
    """The endings, for the help of `--output`."""
    *first, last = FORMATS
    return f"{', '.join(first)} or {last}"


def writer_for(output: str | None) -> Writer:
    """The writer for the file name extension; the default for None. Raises UsageError for an unknown one."""
    suffix = Path(output).suffix.lower() if output else DEFAULT
    if suffix not in FORMATS:
        raise UsageError(
            f"{output!r}: end the file name in one of these, which selects the format: {', '.join(FORMATS)}."
        )
    module = import_module(f"{__name__}.{FORMATS[suffix]}")
    write: Writer = module.write
    return write
