"""Files to chunks of lines: plain or gzip, JSONL, JSON arrays, Parquet, vLLM logs, stdin. Bounded memory.

The format is detected from the content, never from the name. Damage is counted and reported, and reading
continues wherever that makes sense.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from stresstest.errors import UsageError
from stresstest.records.formats.adapter import TextLog
from stresstest.records.formats.registry import TEXT_LOGS, parse_json_object
from stresstest.records.formats.vllm_log.lines import MESSAGES
from stresstest.records.input_file import file_state, is_address, is_folder_address, label, open_file
from stresstest.records.json_elements import count_keys, json_elements, too_many
from stresstest.records.parquet import MAX_ROW, parquet_rows, require_parquet
from stresstest.records.record import DamagedLine, RawRecord, RecordChunk, UnreadableError

UNREADABLE = "cannot be read"
"""How the reason begins where the file, or the network, failed, and not what it holds."""
CHUNK_BYTES = 1 << 20
"""Of JSON in a chunk, about: a tenth of a second of work."""
MAX_LINE = 64 << 20
"""Bytes of one line: 16k tokens with top-20 logprobs are 24 MB. A longer line is not a record."""
_ROW_BYTES = 256
"""Of a row, beside its texts."""
_ITEM_BYTES, _KEY_BYTES, _GROWTH = 300, 200, 10
"""In memory: of a list or an object, of a key that is another each time, and times which most lines grow."""
_HEAD = 1 << 16
_TABLES = (".csv", ".tsv", ".xlsx")
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_OTHERS = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz"}
_HOLDS_ANSWER = re.compile(
    rb'\s*\{(?=.{0,65536}?"(?:response|output|text|completion|generated_text|choices|messages)"\s*:)',
    re.DOTALL,
)
_CUT = (EOFError, gzip.BadGzipFile, zlib.error)


def check_files(files: list[str]) -> None:
    """Raises UsageError for a file that is not there, is a folder, or needs a library that is missing."""
    for name in files:
        if name == "-":
            continue
        path, shown = Path(name), label(name)
        if path.is_dir() or is_folder_address(name):
            raise UsageError(
                f"{shown} is a folder.", hint=f"Name the files in it: {shown.rstrip('/')}/*.jsonl"
            )
        try:
            if _is_pipe(name):  # reading here would take away its beginning
                continue
            with open_file(name) as file:
                head = file.read(4)
        except OSError as error:
            raise UsageError(f"{shown} cannot be read: {error.strerror or error}.") from None
        if head == _PARQUET:
            require_parquet(shown)
        elif head[:1] not in b"{[" and path.name.lower().endswith(_TABLES):
            raise UsageError(
                f"{shown} is a table of text, which is not read.",
                hint="Convert it to JSON Lines or Parquet, with a column for the answer.",
            )


def _is_pipe(name: str) -> bool:
    """Whether this is a process substitution's pipe. UsageError for a named one, which may wait for ever."""
    path = Path(name)
    if is_address(name) or not stat.S_ISFIFO(path.stat().st_mode):
        return False
    if path.is_relative_to("/dev") or path.is_relative_to("/proc"):
        return True
    raise UsageError(
        f"{path} is a named pipe: reading would wait until something writes to it.",
        hint=f"Write to stdin instead: … | stresstest scan -, or: stresstest scan - < {path}",
    )


def total_size(files: list[str]) -> int | None:
    """Bytes of all files as stored; None when the size of one is not known, as a pipe's is not."""
    if "-" in files or any(_is_pipe(name) for name in files):
        return None
    try:
        sizes = [file_state(name).size for name in files]
    except OSError:  # whoever reads it will say why
        return None
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def read_chunks(name: str) -> Iterator[RecordChunk]:
    """The lines of one file (``-``: stdin) in order, about `CHUNK_BYTES` at a time."""
    if name == "-":
        yield from _stream("stdin", _stdin())
        return
    shown = label(name)
    try:
        with open_file(name) as file:
            if file.seekable():
                if file.read(4) == _PARQUET:
                    yield from _parquet(shown, file)
                    return
                file.seek(0)
            yield from _stream(shown, cast(_Readable, file))
            if not is_address(name) and file.seekable() and file.tell() > os.fstat(file.fileno()).st_size:
                yield _damaged_chunk(shown, 0, "it was cut while it was read (rotated?): the rest is lost")
    except OSError as error:
        yield _damaged_chunk(shown, 0, f"{UNREADABLE} ({error.strerror or error})")


def row_chunks(source: str, rows: Iterable[dict[str, Any] | str]) -> Iterator[RecordChunk]:
    """Rows that are objects already, and answers themselves, as chunks in order; a row's line is its 1-based
    number."""
    packing = _ChunkBuilder(source, None)
    for row in rows:
        packing.line += 1
        texts = (row,) if isinstance(row, str) else row.values()
        yield from packing.add(row, sum(len(each) for each in texts if isinstance(each, str)))
    yield from packing.flush()


def _stdin() -> _Readable:
    """A reader separate from sys.stdin: a thread that waits at a pipe holds its reader's lock, and the
    interpreter acquires that of sys.stdin when it exits."""
    try:
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    except io.UnsupportedOperation:  # an in-memory replacement
        return cast(_Readable, sys.stdin.buffer)


def _stream(source: str, file: _Readable) -> Iterator[RecordChunk]:
    stored = _CountingReader(file)
    plain: io.BufferedReader[_CountingReader] = io.BufferedReader(stored, _HEAD)
    head = plain.peek(_HEAD)
    if head.startswith(_PARQUET):
        yield _damaged_chunk(source, 0, "Parquet, which cannot be read from a pipe: name the file")
        return
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            yield _damaged_chunk(source, 0, f"compressed with {what}: decompress it first")
            return
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:2]:
        yield _damaged_chunk(source, 0, "UTF-16: convert it first, with iconv -f UTF-16 -t UTF-8")
        return
    if head.startswith(_GZIP):
        # Read once a time through it: what was unpacked before a damaged place is not lost with it.
        plain = io.BufferedReader(_CountingReader(gzip.GzipFile(fileobj=plain)), _HEAD)
    packing = _ChunkBuilder(source, stored)
    try:
        head = plain.peek(_HEAD)
        if head.startswith(b"\xef\xbb\xbf"):
            plain.read(3)
        yield from _detect_format(packing, plain, head.removeprefix(b"\xef\xbb\xbf"))
    except _CUT as error:
        what = "the gzip stream is cut" if isinstance(error, EOFError) else "the gzip stream is damaged"
        packing.line += 1
        packing.add_damaged(f"{what}: the rest is not read", rest=True)
    yield from packing.flush()


def _detect_format(
    packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader], head: bytes
) -> Iterator[RecordChunk]:
    first = head.lstrip()
    line = first.split(b"\n", 1)[0].strip()
    log = next((log for log in TEXT_LOGS if log.recognises(head)), None)
    if log is not None:
        return _text_log(packing, stream, log)
    if first.startswith(b"[") or line in (b"{", b"["):
        return _documents(packing, stream)
    return _lines(packing, stream)


def _lines(packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader]) -> Iterator[RecordChunk]:
    for line in _whole_lines(packing, stream):
        if line.strip():
            yield from packing.add(line)
        else:
            _skip_blank_lines(packing, stream)


def _skip_blank_lines(packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader]) -> None:
    """Pass over what follows a blank line and is blank, too: line by line, 100 MB of them take a minute."""
    while blank := len(ahead := stream.peek(_HEAD)) - len(ahead.lstrip()):
        packing.line += ahead.count(b"\n", 0, blank)
        stream.read(blank)


def _whole_lines(packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader]) -> Iterator[bytes]:
    """Every line; one beyond `MAX_LINE` is skipped piece by piece and named."""
    while line := stream.readline(MAX_LINE):
        packing.line += 1
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            many = too_many(line)
            if many:
                packing.add_damaged(f"a line of {many}")
            else:
                yield line
            continue
        more = line = stream.readline(CHUNK_BYTES)
        while more and not more.endswith(b"\n"):
            more = stream.readline(CHUNK_BYTES)
        if line:
            packing.add_damaged(f"a line of more than {MAX_LINE >> 20} MiB")


def _documents(packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader]) -> Iterator[RecordChunk]:
    try:
        for element in json_elements(stream.read, MAX_LINE):
            packing.line += 1
            yield from packing.add(element)
    except UnreadableError as error:
        packing.line += 1
        packing.add_damaged(str(error), rest=True)


def _text_log(
    packing: _ChunkBuilder, stream: io.BufferedReader[_CountingReader], log: TextLog
) -> Iterator[RecordChunk]:
    """A text log: lines that complete no answer are neither records nor damaged."""
    reader = log.reader()
    answered = 0
    for line in _whole_lines(packing, stream):
        if _is_record(line):
            answered += 1
            yield from packing.add(line)
            continue
        try:
            rows = reader.add_line(line)
        except UnreadableError as error:
            packing.add_damaged(str(error))
            continue
        for row in rows:
            answered += 1
            yield from packing.add(row, _weight(row))
    if not answered:
        packing.add_damaged(log.nothing)
        return
    for row in reader.unanswered():
        yield from packing.add(row, _weight(row))


def _is_record(line: bytes) -> bool:
    """Whether a line of a text log is another program's record: JSON with the key of an answer, and no line
    of the log in it."""
    if not _HOLDS_ANSWER.match(line):
        return False
    try:
        row = parse_json_object(line)
    except UnreadableError:
        return False
    return "record" not in row and not any(isinstance(row.get(key), str) for key in MESSAGES)


def _weight(row: dict[str, Any]) -> int:
    """About the bytes of a row whose texts come from several lines."""
    return _ROW_BYTES + sum(len(value) for value in row.values() if isinstance(value, str))


def _parquet(source: str, file: BinaryIO) -> Iterator[RecordChunk]:
    total = file.seek(0, io.SEEK_END)
    packing = _ChunkBuilder(source, None)
    try:
        for share, weight, row in parquet_rows(file):
            packing.line += 1
            packing.done = int(share * total)
            if row is None:
                packing.add_damaged(f"a row of more than {MAX_ROW >> 20} MiB")
            else:
                yield from packing.add(row, weight)
    except UnreadableError as error:
        packing.add_damaged(str(error), rest=True)
    yield from packing.flush()


def _damaged_chunk(source: str, line: int, reason: str) -> RecordChunk:
    return RecordChunk(source, (), (DamagedLine(source, line, reason, rest=True),))


class _ChunkBuilder:
    """Collects lines until they make a chunk. line: 1-based number of the latest line or element."""

    def __init__(self, source: str, stored: _CountingReader | None) -> None:
        self.line = 0
        self.done = 0
        self._source = source
        self._stored = stored
        self._items: list[tuple[int, RawRecord]] = []
        self._damaged: list[DamagedLine] = []
        self._bytes = 0

    def add(self, raw: RawRecord, weight: int | None = None) -> Iterator[RecordChunk]:
        """Take a line; weight: its bytes, where they are not its own, or more where it grows more."""
        self._items.append((self.line, raw))
        self._bytes += _decoded_weight(raw) if weight is None else weight
        if self._bytes >= CHUNK_BYTES:
            yield from self.flush()

    def add_damaged(self, reason: str, *, rest: bool = False) -> None:
        """Note the line as damaged. rest: what follows it cannot be read either."""
        self._damaged.append(DamagedLine(self._source, self.line, reason, rest=rest))

    def flush(self) -> Iterator[RecordChunk]:
        """What is collected, if anything."""
        if self._stored is not None:
            self.done = self._stored.count
        if self._items or self._damaged:
            yield RecordChunk(self._source, tuple(self._items), tuple(self._damaged), self.done, self._bytes)
        self._items, self._damaged, self._bytes = [], [], 0


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _CountingReader(io.RawIOBase):
    """Counts the bytes that were read from a file or a pipe, which cannot tell."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._file.read1(len(view))
        view[: len(data)] = data
        self.count += len(data)
        return len(data)


def _decoded_weight(line: RawRecord) -> int:
    """The bytes of a line that grows as most do to what this one takes in memory."""
    if not isinstance(line, bytes) or len(line) < CHUNK_BYTES:
        return len(line)
    items, keys = line.count(b"[") + line.count(b"{"), count_keys(line)
    return max(len(line), items * _ITEM_BYTES // _GROWTH, keys * _KEY_BYTES // _GROWTH)
