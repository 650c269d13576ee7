"""What the adapter of a log format provides. One module a format, listed in `registry`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from stresstest.records.record import FieldMapping, Record

Row = dict[str, Any]
"""One JSON object of a log, or one row of a table."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row was read, and the user's own layout. format: its format, or the key of its answer."""

    source: str
    line: int
    mapped: FieldMapping
    format: str = ""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Rows that hold answers.

    recognises: whether a row is of this format; it decides by keys and types, never by the content of a text.
    records: the answers of such a row, one record each. Raises UnreadableError with the reason.
    """

    name: str
    recognises: Callable[[Row, FieldMapping], bool]
    records: Callable[[Row, Place], Iterable[Record]]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Rows around other rows. unwrapped: the rows inside, which the formats after this one read. Raises
    UnreadableError when there are none. completed: adds to a record of theirs what the envelope tells. apart:
    they are requests of their own, of which the envelope's errors say nothing."""

    name: str
    recognises: Callable[[Row, FieldMapping], bool]
    unwrapped: Callable[[Row, FieldMapping], Iterable[Row]]
    completed: Callable[[Record], Record] = lambda record: record
    apart: bool = False


class LineReader(Protocol):
    """Reads the lines of one text log in order."""

    def add_line(self, line: bytes) -> Iterable[Row]:
        """The answers that this line tells of, as plain rows; none for any other line.

        Raises UnreadableError for an answer that is damaged.
        """
        ...

    def unanswered(self) -> Iterable[Row]:
        """Once the log has ended: rows of requests whose answers are not in it."""
        ...


@dataclass(frozen=True, slots=True)
class TextLog:
    """A log whose answers must be found in its lines.

    recognises: whether a file begins like such a log, by its first 64 KiB. reader: makes the reader of one
    file. nothing: reported for a log without any answer.
    """

    name: str
    recognises: Callable[[bytes], bool]
    reader: Callable[[], LineReader]
    nothing: str
