"""Rows of a Parquet file, within bounds: a file of ten kilobytes can describe terabytes.

A dictionary holds a long text once and a row names it by number, and a page of nothing but nulls or repeats
compresses to nothing. Texts are therefore read as dictionaries, rows are weighed before they become objects,
and the library's own reading has a limit on memory where the system knows one (Linux).
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from stresstest.errors import UsageError
from stresstest.own_process import is_own_process
from stresstest.records.arrow_values import in_microseconds, json_rows
from stresstest.records.record import UnreadableError

MAX_ROW = 64 << 20
"""Bytes of one row, about: as of one line of JSON."""
MAX_COLUMNS = 2_000
"""Columns, counted as Parquet does: each needs memory of its own, and no log has so many."""
_ROWS = 64
_BATCH = 4 << 20
"""Bytes of rows that are read at a time, about, and that become objects at a time."""
_LEAST_MEMORY, _MOST_MEMORY = 384 << 20, 2 << 30
"""Bytes that reading may take at least and at most. Most writers close a page after a megabyte of text;
DuckDB after a hundred, and then all columns have one in memory at once."""
_TIMES = 6
"""Bytes that reading may take for a byte of the file, between the two: DuckDB's take about five."""
_READ = 1 << 20
_REPEATED = 16 << 20
"""Bytes that the file holds of a column in a row group, at most, for its texts to be read as a dictionary.
One that is written without is built up until the group's end, and takes three times the texts."""
_OBJECT = 64
"""Bytes of a value beside its content, about."""


def require_parquet(name: str) -> None:
    """Raises UsageError when Parquet cannot be read here."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"{name} is a Parquet file, and reading those needs pyarrow, which is not installed.",
            hint="Install it with: pip install pyarrow",
        )


def parquet_rows(file: BinaryIO) -> Iterator[tuple[float, int, dict[str, Any] | None]]:
    """(share of the file read, about the row's bytes, row) in order, a few dozen rows in memory.

    file: open and seekable; it stays open.

    The row is None where it exceeds `MAX_ROW`. Raises UnreadableError.
    """
    import pyarrow
    import pyarrow.parquet

    seen = 0
    memory = _allowed_memory(file)
    try:
        with _open(file, memory) as table:
            total = max(table.metadata.num_rows, 1)
            batches = _batches(table)
            while True:
                with _limited(memory):
                    batch = next(batches, None)
                if batch is None:
                    return
                for weight, row in _bounded(in_microseconds(batch)):
                    seen += 1
                    yield seen / total, weight, row
                del batch
    except (MemoryError, pyarrow.ArrowMemoryError):
        raise UnreadableError(
            f"the Parquet file needs more than {memory >> 20} MiB of memory after row {seen}: "
            "the rest is not read (written with smaller row groups, it can be)"
        ) from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        said = (str(error).splitlines() or [""])[0][:80]
        raise UnreadableError(f"the Parquet file is damaged ({said})") from None


def _batches(table: Any) -> Iterator[Any]:
    """The record batches. One row group after the other: a batch of two has two dictionaries, which cannot be
    put together inside lists and structs."""
    for group in range(table.num_row_groups):
        held = table.metadata.row_group(group)
        size = held.total_byte_size // max(held.num_rows, 1)
        rows = min(max(_BATCH // max(size, 1), 1), _ROWS)
        yield from table.iter_batches(batch_size=rows, row_groups=[group], use_threads=False)


def _allowed_memory(file: BinaryIO) -> int:
    """Bytes that reading a file may take."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return min(max(_LEAST_MEMORY, _TIMES * size), _MOST_MEMORY)


@contextmanager
def _open(file: BinaryIO, memory: int) -> Iterator[Any]:
    """The file, whose texts are read as dictionaries: then each is in memory once."""
    from pyarrow.parquet import ParquetFile

    with _limited(memory), ParquetFile(file, pre_buffer=False) as table:
        schema = table.metadata.schema
        if len(schema) > MAX_COLUMNS:
            raise UnreadableError(
                f"the Parquet file has {len(schema):,} columns, more than {MAX_COLUMNS:,}: write one with "
                "those of the answers alone"
            )
        names = table.schema_arrow.names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UnreadableError(
                f"the Parquet file has two columns {twice[:40]!r}: which is meant is not known"
            )
        columns = [schema.column(n) for n in range(len(schema))]
        texts = [
            column.path
            for n, column in enumerate(columns)
            if column.physical_type == "BYTE_ARRAY" and _may_repeat(table.metadata, n)
        ]
        wide = [column.name for column in columns if column.length > _READ]
        if wide:
            raise UnreadableError(f"the Parquet file is damaged (a value of {wide[0][:40]} is too long)")
    with _limited(memory):
        table = ParquetFile(file, read_dictionary=texts, buffer_size=_READ, pre_buffer=False)
    with table:
        yield table


def _may_repeat(metadata: Any, column: int) -> bool:
    """Whether a column's texts can be read as dictionaries: of bounded size, and in an encoding that the
    library reads so."""
    groups = [metadata.row_group(n).column(column) for n in range(metadata.num_row_groups)]
    return all(
        group.total_uncompressed_size <= _REPEATED and not any("DELTA" in each for each in group.encodings)
        for group in groups
    )


def _bounded(batch: Any) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(about its bytes, row) for every row; None for one that is too large to become an object."""
    rows = batch.num_rows
    weight = sum(_weight(column) for column in batch.columns)
    if weight <= (MAX_ROW if rows == 1 else min(_BATCH, MAX_ROW)):
        for row in json_rows(batch):
            yield weight // rows, row
    elif rows == 1:
        yield weight, None
    else:
        half = rows // 2
        yield from _bounded(batch.slice(0, half))
        yield from _bounded(batch.slice(half))


def _weight(array: Any) -> int:
    """About the bytes that the values of an Arrow array take as objects, without making any."""
    import pyarrow.compute
    from pyarrow import types

    kind, own = array.type, _OBJECT * len(array)
    if types.is_dictionary(kind):
        value = kind.value_type
        if not (types.is_string(value) or types.is_large_string(value)) and not _is_binary(value):
            return own + len(array) * _weight(array.dictionary)
        lengths = pyarrow.compute.binary_length(array.dictionary)
        used = pyarrow.compute.take(lengths, array.indices)
        return own + int(pyarrow.compute.sum(used.cast("int64")).as_py() or 0)
    if types.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return own + sum(_weight(part.slice(first, last - first)) for part in (array.keys, array.items))
    if types.is_nested(kind):
        parts = array.flatten()
        return own + sum(map(_weight, parts if types.is_struct(kind) else [parts]))
    return own + int(array.nbytes)


def _is_binary(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


@contextmanager
def _limited(memory: int) -> Iterator[None]:
    """Reading in the block may hold `memory` bytes; MemoryError or ArrowMemoryError else. No limit where the
    system has none, nor in a user's program, whose other threads it would meet as well.

    For reading alone: sizes in the file are not to be believed, and the library has no limit of its own.
    """
    if not is_own_process():
        yield
        return
    import pyarrow

    usual, pool = pyarrow.default_memory_pool(), pyarrow.system_memory_pool()
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    except (ImportError, OSError, ValueError, IndexError):
        yield
        return
    most = pages * resource.getpagesize() + max(memory - pool.bytes_allocated(), 0)
    bounds = [most, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    pyarrow.set_memory_pool(pool)  # the usual one has a gigabyte in reserve, which no limit sees
    try:
        yield
    finally:
        pyarrow.set_memory_pool(usual)
        resource.setrlimit(resource.RLIMIT_DATA, before)
