"""Whatever holds answers in Python, as rows for the record parser. No library of tables is imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stresstest.errors import UsageError
from stresstest.records.arrow_values import table_rows

_ROWS_AT_ONCE = 1_000


def rows_of(texts: Any) -> Iterator[dict[str, Any] | str]:
    """Each text, and a row for each mapping or row of a table. Raises UsageError for anything else."""
    if hasattr(texts, "iter_rows"):  # polars
        yield from texts.iter_rows(named=True)
    elif hasattr(texts, "to_batches"):  # pyarrow
        yield from table_rows(texts)
    elif hasattr(texts, "iloc") and hasattr(texts, "columns"):  # pandas
        for first in range(0, len(texts), _ROWS_AT_ONCE):
            for row in texts.iloc[first : first + _ROWS_AT_ONCE].to_dict("records"):
                yield {name: None if _is_missing(value) else value for name, value in row.items()}
    elif isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise UsageError(
            f"detect_many takes several texts, records or a table, not one {type(texts).__name__}.",
            hint="For a single text: stresstest.detect(text)",
        )
    else:
        yield from map(_row, texts)


def _row(each: Any) -> dict[str, Any] | str:
    if isinstance(each, str):
        return each
    if isinstance(each, Mapping):
        return dict(each)
    raise UsageError(f"A text or a mapping is wanted for each answer, not {type(each).__name__}.")


def _is_missing(value: Any) -> bool:
    """pandas writes NaN, or its own NA, where a row has no value."""
    return (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")
