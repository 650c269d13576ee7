"""Rows of an Arrow batch as a JSON log has them: what a Parquet file, a table in memory and Ray hand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, time
from decimal import Decimal
from typing import Any

_ROWS_AT_ONCE = 1_000


def table_rows(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of a Table in memory."""
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield from json_rows(in_microseconds(batch))


def in_microseconds(batch: Any) -> Any:
    """A RecordBatch without nanoseconds, as pandas writes them: Python's times have none."""
    import pyarrow

    columns = [
        column.cast(kind, safe=False) if (kind := _coarser(column.type)) != column.type else column
        for column in batch.columns
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _coarser(kind: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_timestamp(kind) and kind.unit == "ns":
        return pyarrow.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pyarrow.duration("us")
    if types.is_time64(kind) and kind.unit == "ns":
        return pyarrow.time64("us")
    if types.is_list(kind):
        return pyarrow.list_(_coarser(kind.value_type))
    if types.is_large_list(kind):
        return pyarrow.large_list(_coarser(kind.value_type))
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_coarser(field.type)) for field in kind])
    return kind


def json_rows(batch: Any) -> list[dict[str, Any]]:
    """The rows of a RecordBatch without nanoseconds."""
    return [{name: _as_json(value) for name, value in row.items()} for row in _python_rows(batch)]


def _python_rows(batch: Any) -> list[dict[str, Any]]:
    """The rows; None for what Python cannot hold: the infinite dates of DuckDB and PostgreSQL, the year 0."""
    with suppress(OverflowError, ValueError):
        return list(batch.to_pylist())
    names = batch.schema.names
    return [
        {name: _python_value(column[row]) for name, column in zip(names, batch.columns, strict=True)}
        for row in range(batch.num_rows)
    ]


def _python_value(scalar: Any) -> Any:
    from pyarrow import types

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    if types.is_struct(scalar.type):
        return {name: _python_value(each) for name, each in scalar.items()}
    if types.is_map(scalar.type):
        return {str(_python_value(each["key"])): _python_value(each["value"]) for each in scalar.values}
    if types.is_nested(scalar.type):
        return [_python_value(each) for each in scalar.values]
    return None


def _as_json(value: Any) -> Any:
    """A value as a JSON log has it: Spark writes texts without saying that they are, databases exact numbers.
    Arrow makes tuples of the entries of a map, and of nothing else."""
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return {str(name): _as_json(each) for name, each in value}
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8")
    return value
