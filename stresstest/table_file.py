"""Tables as files: JSON lines, CSV or Parquet, by the ending of the name, in bounded memory.

JSON lines keep to ASCII where a text may steer a terminal. CSV is UTF-8 with a header, quoted where needed;
an absent value is an empty cell. A text that a spreadsheet would run as a formula, or a CI server as a
command, has a quote mark in front, also where it begins within a text
(https://owasp.org/www-community/attacks/CSV_Injection), and control characters are shown as signs. Parquet
has the declared types, so that absent values are null and counts stay whole numbers.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from stresstest.errors import UsageError
from stresstest.model.texts.ci_commands import LOG_COMMAND
from stresstest.output_file import refuse_overwriting, write_over

Columns = Mapping[str, type]
"""The columns in their order, with their types: str, int, float or bool."""
Row = Mapping[str, Any]

_TERMINATOR = "\r\n"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""With one of these a spreadsheet takes a text for a formula; the wide ones in East Asian locales."""
_FORMULA_WITHIN = re.compile(
    r"""([;\t][ "']*)(?=[=+\-@＝＋－＠])|([\r\n][ "']*)(?=[=@＝＠]|[+\-＋－](?! ))"""
)
"""Where one begins for a spreadsheet that splits cells elsewhere than at commas, as in much of Europe. Items
of lists stay: their dash is followed by a space."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What steers a terminal, but tabs and line breaks. CSV has no escapes for it."""
_LOG_COMMAND = re.compile(LOG_COMMAND.pattern.encode())
_LINE_COMMAND = re.compile(r"(?:\A|[\r\n])\s*(?=::)")
"""Where a line begins with a command of GitHub's (`::error::`), which a table on stdout would give."""
_GROUP_ROWS = 20_000
"""Rows of Parquet that are held until they are written as one group."""
_GROUP_CHARS = 2**24
"""Characters in them: an id or an answer may be as long as a file."""


class TableEncoder(Protocol):
    """Rows to bytes in order: `encode` any number of times, then `end` once."""

    def encode(self, rows: Sequence[Row]) -> bytes: ...

    def end(self) -> bytes: ...


def table_encoder(name: str, columns: Columns) -> TableEncoder:
    """The encoder that a file's name asks for: ``.csv``, ``.parquet``, JSON lines otherwise.

    Raises UsageError where Parquet is asked for and pyarrow is missing.
    """
    ending = Path(name).suffix.lower()
    if ending == ".csv":
        return _CsvEncoder(columns)
    if ending != ".parquet":
        return _JsonLinesEncoder()
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"{name}: writing Parquet needs pyarrow, which is not installed.",
            hint="Install it with: pip install pyarrow. Or write .csv or .jsonl",
        )
    return _ParquetEncoder(columns)


def write_table(name: str, columns: Columns, rows: Iterable[Row]) -> int:
    """Write a whole table, or leave what was there; returns the number of its rows. Raises UsageError for a
    file it cannot write."""
    encoder, count = table_encoder(name, columns), 0
    refuse_overwriting(name)

    def pieces() -> Iterator[bytes]:
        nonlocal count
        for count, row in enumerate(rows, 1):  # noqa: B007  counted for the caller
            yield encoder.encode([row])
        yield encoder.end()

    try:
        write_over(Path(name), pieces())
    except OSError as error:
        raise UsageError(f"{name} cannot be written: {error.strerror or error}.") from None
    return count


class _JsonLinesEncoder:
    def encode(self, rows: Sequence[Row]) -> bytes:
        import msgspec

        return b"".join(self._line(row, msgspec.json.encode(_encodable(row))) for row in rows)

    @staticmethod
    def _line(row: Row, line: bytes) -> bytes:
        if not line.isascii():  # a text may hold what steers a terminal
            line = json.dumps(row, separators=(",", ":")).encode()
        line = line.replace(b"\x7f", rb"\u007f")
        return _LOG_COMMAND.sub(rb"\1\\u005b", line) + b"\n"

    def end(self) -> bytes:
        return b""


class _CsvEncoder:
    def __init__(self, columns: Columns) -> None:
        self._columns = list(columns)
        self._text = io.StringIO(newline="")
        # With this terminator, and no other, Python 3.11 quotes a carriage return that is part of a text.
        self._writer = csv.writer(self._text, lineterminator=_TERMINATOR)
        self._header = self._line(self._columns)

    def encode(self, rows: Sequence[Row]) -> bytes:
        lines = [self._line([_cell(row.get(name)) for name in self._columns]) for row in rows]
        found, self._header = self._header + "".join(lines), ""
        return found.encode("utf-8", "replace")

    def end(self) -> bytes:
        return self.encode([])

    def _line(self, cells: Sequence[Any]) -> str:
        self._writer.writerow(cells)
        found = self._text.getvalue().removesuffix(_TERMINATOR) + "\n"
        self._text.seek(0)
        self._text.truncate()
        return found


class _ParquetEncoder:
    def __init__(self, columns: Columns) -> None:
        import pyarrow
        import pyarrow.parquet

        types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
        self._table = pyarrow.Table
        self._schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._sink = _Sink()
        self._writer = pyarrow.parquet.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._rows: list[Row] = []
        self._chars = 0

    def encode(self, rows: Sequence[Row]) -> bytes:
        for row in rows:
            self._rows.append(_encodable(row))
            self._chars += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(self._rows) >= _GROUP_ROWS or self._chars >= _GROUP_CHARS:
                self._flush()
        return self._sink.take()

    def end(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._sink.take()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._chars = [], 0


class _Sink(io.RawIOBase):
    """A file that only grows, whose bytes are taken away as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        return found


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    shown = _CONTROLS.sub(lambda found: _picture(found[0]), value)
    shown = _LINE_COMMAND.sub(r"\g<0>'", _FORMULA_WITHIN.sub(r"\g<0>'", shown))
    shown = LOG_COMMAND.sub(r"\1'[", shown)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def _picture(control: str) -> str:
    """ESC as ␛. Those from U+0080 on have no picture."""
    code = ord(control)
    return chr(0x2400 + code) if code < ord(" ") else "␡" if control == "\x7f" else "\ufffd"


def _encodable(row: Row) -> Row:
    """The row with U+FFFD for halves of characters, which UTF-8 cannot hold."""
    broken = {
        name: value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        for name, value in row.items()
        if isinstance(value, str) and not value.isascii() and _is_broken(value)
    }
    return {**row, **broken} if broken else row


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
