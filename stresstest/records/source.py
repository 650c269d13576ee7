"""Files to chunks of lines: plain or gzip, JSONL, JSON arrays, Parquet, vLLM logs, stdin. Bounded memory.

The format is told by the content, never by the name. Damage is counted and named, and reading goes on
wherever that makes sense.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from stresstest.errors import UsageError
from stresstest.records import parquet
from stresstest.records.arrays import elements
from stresstest.records.record import Chunk, Damaged, Raw, UnreadableError
from stresstest.records.vllm_log import PREFIX, REQUEST_MARKS, RequestLog, is_json_log

CHUNK_BYTES = 1 << 20
"""Of JSON in a chunk, about: a tenth of a second of work."""
MAX_LINE = 64 << 20
"""Bytes of one line: 16k tokens with top-20 logprobs are 24 MB. What is longer is no record."""

_HEAD = 1 << 16
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_OTHERS = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz"}
_LOG_MARKS = (*REQUEST_MARKS, b" vLLM ", b"vllm")
_CUT = (EOFError, gzip.BadGzipFile, zlib.error)


def check(files: list[str]) -> None:
    """Raises UsageError for a file that is not there, is a folder, or needs a library that is missing."""
    for name in files:
        if name == "-":
            continue
        path = Path(name)
        if path.is_dir():
            raise UsageError(f"{name} is a folder.", hint=f"Name the files in it: {name.rstrip('/')}/*.jsonl")
        try:
            with path.open("rb") as file:
                head = file.read(4)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from None
        if head == _PARQUET:
            parquet.require(path)


def size(files: list[str]) -> int | None:
    """Bytes of all files as stored; None when stdin is among them."""
    return None if "-" in files else sum(Path(name).stat().st_size for name in files)


def chunks(name: str) -> Iterator[Chunk]:
    """The lines of one file (``-``: stdin) in order, about `CHUNK_BYTES` at a time."""
    if name == "-":
        yield from _stream("stdin", _stdin())
        return
    path = Path(name)
    try:
        with path.open("rb") as file:
            if file.read(4) == _PARQUET:
                yield from _parquet(name, path)
                return
            file.seek(0)
            yield from _stream(name, file)
    except OSError as error:
        yield _lost(name, 0, f"cannot be read ({error.strerror or error})")


def _stdin() -> _Readable:
    """A reader of its own: a thread that waits at a pipe holds its reader's lock, and the interpreter asks
    for that of sys.stdin when it ends."""
    try:
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    except io.UnsupportedOperation:  # a stand-in in memory
        return cast(_Readable, sys.stdin.buffer)


def _stream(source: str, file: _Readable) -> Iterator[Chunk]:
    stored = _Counted(file)
    plain: io.BufferedReader[_Counted] = io.BufferedReader(stored, _HEAD)
    head = plain.peek(_HEAD)
    if head.startswith(_PARQUET):
        yield _lost(source, 0, "Parquet, which cannot be read from a pipe: name the file")
        return
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            yield _lost(source, 0, f"compressed with {what}: decompress it first")
            return
    if head.startswith(_GZIP):
        # Read once a time through it: what was unpacked before a damaged place is not lost with it.
        plain = io.BufferedReader(_Counted(gzip.GzipFile(fileobj=plain)), _HEAD)
    packing = _Packing(source, stored)
    try:
        head = plain.peek(_HEAD)
        if head.startswith(b"\xef\xbb\xbf"):
            plain.read(3)
        yield from _dispatched(packing, plain, head.removeprefix(b"\xef\xbb\xbf"))
    except _CUT as error:
        what = "the gzip stream is cut" if isinstance(error, EOFError) else "the gzip stream is damaged"
        packing.line += 1
        packing.lose(f"{what}: the rest is not read")
    yield from packing.rest()


def _dispatched(packing: _Packing, stream: io.BufferedReader[_Counted], head: bytes) -> Iterator[Chunk]:
    first = head.lstrip()
    line = first.split(b"\n", 1)[0].strip()
    if is_json_log(head) if first[:1] in (b"{", b"[") else _is_text_log(head):
        return _log(packing, stream)
    if first.startswith(b"[") or line in (b"{", b"["):
        return _documents(packing, stream)
    return _lines(packing, stream)


def _is_text_log(head: bytes) -> bool:
    return any(mark in head for mark in _LOG_MARKS) or PREFIX.search(head) is not None


def _lines(packing: _Packing, stream: io.BufferedReader[_Counted]) -> Iterator[Chunk]:
    for line in _whole_lines(packing, stream):
        if line.strip():
            yield from packing.add(line)


def _whole_lines(packing: _Packing, stream: io.BufferedReader[_Counted]) -> Iterator[bytes]:
    """Every line; one beyond `MAX_LINE` is skipped piece by piece and named."""
    while line := stream.readline(MAX_LINE):
        packing.line += 1
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield line
            continue
        more = line = stream.readline(CHUNK_BYTES)
        while more and not more.endswith(b"\n"):
            more = stream.readline(CHUNK_BYTES)
        if line:
            packing.lose(f"a line of more than {MAX_LINE >> 20} MiB")


def _documents(packing: _Packing, stream: io.BufferedReader[_Counted]) -> Iterator[Chunk]:
    try:
        for element in elements(stream.read, MAX_LINE):
            packing.line += 1
            yield from packing.add(element)
    except UnreadableError as error:
        packing.line += 1
        packing.lose(str(error))


def _log(packing: _Packing, stream: io.BufferedReader[_Counted]) -> Iterator[Chunk]:
    """vLLM's log: answers joined with their requests; all other lines are no records and no damage."""
    log = RequestLog()
    answered = 0
    for line in _whole_lines(packing, stream):
        try:
            row = log.take(line)
        except UnreadableError as error:
            packing.lose(str(error))
            continue
        if row is not None:
            answered += 1
            yield from packing.add(row, len(line))
    if not answered:
        packing.lose("a vLLM log without answers: it needs --enable-log-requests --enable-log-outputs")


def _parquet(source: str, path: Path) -> Iterator[Chunk]:
    total = path.stat().st_size
    packing = _Packing(source, None)
    try:
        for share, row in parquet.rows(path):
            packing.line += 1
            packing.done = int(share * total)
            yield from packing.add(row, len(str(row.get("response") or row)))
    except UnreadableError as error:
        packing.lose(str(error))
    yield from packing.rest()


def _lost(source: str, line: int, reason: str) -> Chunk:
    return Chunk(source, (), (Damaged(source, line, reason),))


class _Packing:
    """Collects lines until they make a chunk. line: 1-based number of the latest line or element."""

    def __init__(self, source: str, stored: _Counted | None) -> None:
        self.line = 0
        self.done = 0
        self._source = source
        self._stored = stored
        self._items: list[tuple[int, Raw]] = []
        self._damaged: list[Damaged] = []
        self._bytes = 0

    def add(self, raw: Raw, weight: int | None = None) -> Iterator[Chunk]:
        """Take a line; weight: its bytes, where they are not its own."""
        self._items.append((self.line, raw))
        self._bytes += len(raw) if weight is None else weight
        if self._bytes >= CHUNK_BYTES:
            yield from self.rest()

    def lose(self, reason: str) -> None:
        self._damaged.append(Damaged(self._source, self.line, reason))

    def rest(self) -> Iterator[Chunk]:
        """What is collected, if anything."""
        if self._stored is not None:
            self.done = self._stored.count
        if self._items or self._damaged:
            yield Chunk(self._source, tuple(self._items), tuple(self._damaged), self.done, self._bytes)
        self._items, self._damaged, self._bytes = [], [], 0


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Counted(io.RawIOBase):
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
