"""Rows of a Parquet file, through pyarrow (the extra `stresstest[parquet]`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stresstest.errors import UsageError
from stresstest.records.record import UnreadableError

_ROWS = 256


def require(path: Path) -> None:
    """Raises UsageError when Parquet cannot be read here."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"{path} is a Parquet file, and reading those needs pyarrow, which is not installed.",
            hint="Install it with: pip install 'stresstest[parquet]'",
        )


def rows(path: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """(share of the file read, row) in order, a few hundred rows in memory. Raises UnreadableError."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            total = max(file.metadata.num_rows, 1)
            seen = 0
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    seen += 1
                    yield seen / total, row
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UnreadableError(f"the Parquet file is damaged ({str(error).splitlines()[0][:80]})") from None
