"""Lines of JSON for somebody who may stop reading: a thread of its own writes them, so that nothing else
waits. What steers a terminal or a CI server is escaped in them."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, TextIO

from stresstest.render.steering import escape_steering

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of lines that wait to be written. A line that is alone always has room."""
MAX_LINES = 10_000
PATIENCE, HURRY = 2.0, 0.3
"""Seconds at the end for what still waits; and where nobody waits for the end."""
_RETRY = 0.1
"""Seconds until a full pipe that does not block is tried again."""
_PAUSE = 60.0
"""Seconds at least between two sentences about lines that were dropped."""
_STDERR_PATIENCE = 0.5


class LogFile:
    """A file that lines are appended to, opened again where it was renamed or removed, as logrotate does.

    As `logging.handlers.WatchedFileHandler`. A named pipe is written while somebody reads it. Raises OSError
    where the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_to_append(path)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, data: memoryview) -> int | None:
        """Append; how many bytes were taken, None for a pipe that is full or that nobody reads."""
        if self._file is None:
            self._file = _open_to_append(self._path)
        elif self._is_gone(self._file):
            opened = _open_to_append(self._path)
            self._file.close()
            self._file = opened
        if self._file is None:
            return None
        try:
            return self._file.write(data)
        except BrokenPipeError:
            self._file.close()
            self._file = None
            return None

    def _is_gone(self, file: io.FileIO) -> bool:
        opened = os.fstat(file.fileno())
        if not stat.S_ISREG(opened.st_mode):
            return False
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != (opened.st_dev, opened.st_ino)


def _open_to_append(path: Path) -> io.FileIO | None:
    """The file, without waiting for who reads a named pipe; None for one that nobody reads."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    try:
        return io.FileIO(os.open(path, flags, 0o666), "ab")
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


class LineWriter:
    """Writes lines in their order, and drops them where too many wait or they cannot be written.

    write: of a file without a buffer, as a buffer that is in use when the program ends would keep it from
    ending. on_drop: called with a number of dropped lines, from any thread. torn: the file ends within a
    line, which the first one is not to continue.
    """

    def __init__(
        self,
        write: Callable[[memoryview], int | None],
        on_drop: Callable[[int], object],
        *,
        torn: bool = False,
    ) -> None:
        self._write_some = write
        self._on_drop = on_drop
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._untold = 0
        self._told_at = -_PAUSE
        self._torn = torn
        self._failing = self._closing = self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="guard-log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Have a line written; never waits, and never fails."""
        with self._changed:
            full = len(self._lines) >= MAX_LINES or self._size + len(line) > MAX_BYTES
            if self._closing or (full and self._lines):
                self._drop(1)
            else:
                self._lines.append(line)
                self._size += len(line)
                self._changed.notify()
        if self._closed:
            self._tell_dropped()

    def close(self, patience: float | None = None) -> None:
        """Write what waits, for so many seconds at most; the rest is dropped, and what comes later, too."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(PATIENCE if patience is None else patience)
        with self._changed:
            self._drop(len(self._lines))
            self._lines.clear()
            self._closed = True
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._changed:
            dropped, self._untold = self._untold, 0
        if dropped:
            tell(_sentence(dropped))

    def _run(self) -> None:
        while (line := self._next()) is not None:
            failure: Exception | None = None
            try:
                self._write(line)
            except (OSError, ValueError) as error:  # ValueError: it was closed meanwhile
                failure = error
            with self._changed:
                if self._lines:  # not given up meanwhile
                    self._size -= len(self._lines.popleft())
                    self._drop(0 if failure is None else 1)
            self._tell_of(failure)

    def _next(self) -> bytes | None:
        """The first line that waits; it stays in the queue while it is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closing)
            return self._lines[0] if self._lines else None

    def _write(self, line: bytes) -> None:
        line = escape_steering(line.decode("utf-8", "replace")).encode()
        left = memoryview(b"\n" + line if self._torn else line)
        while left:
            written = self._write_some(left)
            if written is None:
                time.sleep(_RETRY)
            else:
                left = left[written:]
                self._torn = bool(left)

    def _drop(self, lines: int) -> None:
        if lines:
            self._untold += lines
            self._on_drop(lines)

    def _tell_of(self, failure: Exception | None) -> None:
        """One sentence when writing begins to fail, and one when all is written again."""
        if self._closing:  # `close` has the last word
            return
        if failure is not None:
            if not self._failing:
                self._failing = True
                why = getattr(failure, "strerror", None) or failure
                tell(f"warning: the log cannot be written, so its lines are dropped: {why}")
            return
        with self._changed:
            now = time.monotonic()
            if self._lines or not self._untold or now - self._told_at < _PAUSE:
                return
            dropped, self._untold, self._told_at, self._failing = self._untold, 0, now, False
        tell(_sentence(dropped))


def _sentence(dropped: int) -> str:
    what = "1 line of the log was" if dropped == 1 else f"{dropped:,} lines of the log were"
    return f"warning: {what} dropped: nobody read them in time, or they could not be written"


def ends_within_line(path: Path) -> bool:
    """Whether a file's last line has no end: whoever wrote it was killed, or the disk was full."""
    try:
        if not path.is_file():  # a pipe has no end to look at
            return False
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return file.read(1) not in (b"", b"\n")
    except OSError:
        return False  # it may be written without being readable


def unbuffered(stream: TextIO) -> IO[bytes]:
    """A writer to the file below a stream; where there is none, to the stream's buffer."""
    try:
        return io.FileIO(stream.fileno(), "w", closefd=False)
    except io.UnsupportedOperation:
        return stream.buffer


def tell(sentence: str) -> None:
    """One line on stderr. Where nobody reads that either, the program goes on without."""

    def write() -> None:
        try:
            unbuffered(sys.stderr).write(f"{sentence}\n".encode())
        except (OSError, ValueError, AttributeError):
            return  # nobody is left to be told

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(_STDERR_PATIENCE)
