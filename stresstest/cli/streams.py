"""stdout and stderr that outlive their readers, and that can be written in any encoding."""

from __future__ import annotations

import codecs
import io
import json
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ERRORS = "stresstest-plainly"
# Never a quotation mark or a backslash: what is written may be JSON.
_PLAIN = {
    "–": "-",
    "—": "-",
    "−": "-",
    "·": "|",
    "…": "...",
    "→": ">",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "×": "x",
    "α": "alpha",
    "‘": "'",
    "’": "'",
    "“": "'",
    "”": "'",
}


class _Forgiving(io.RawIOBase):
    """A stream whose reader may go away (`… | head -1`), or whose disk may be full: what follows is dropped,
    and nothing is raised. failed: why, but for a reader that went away."""

    def __init__(self, fd: int) -> None:
        self._file = io.FileIO(fd, "w", closefd=False)
        self._gone = False
        self.failed: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int | None:
        if not self._gone:
            try:
                return self._file.write(data)
            except BrokenPipeError:
                self._gone = True
            except OSError as error:
                self._gone, self.failed = True, error
        return memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()


def guard_streams() -> None:
    """Make sys.stdout and sys.stderr forgiving, for the life of the process.

    A reader that goes away ends no measurement: every command comes to its own end, with its own exit code.
    What an encoding lacks is written in ASCII: signs by what stands for them, letters as JSON escapes, so
    that a JSON document stays one.
    """
    codecs.register_error(ERRORS, plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors=ERRORS)
            continue
        stream.flush()
        try:
            file = _Forgiving(stream.fileno())
        except io.UnsupportedOperation:  # a stand-in in memory: it has no reader that could go away
            continue
        guarded = io.TextIOWrapper(
            io.BufferedWriter(file),
            encoding=stream.encoding,
            errors=ERRORS,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, guarded)


def unwritten() -> OSError | None:
    """Why stdout is not whole, a full disk for example; None where it is, or nobody reads it."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failed if isinstance(raw, _Forgiving) else None


def plainly(error: UnicodeError) -> tuple[str, int]:
    """The codec error handler `ERRORS`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign) or json.dumps(sign)[1:-1] for sign in found), error.end


def nobody_listens() -> bool:
    """Whether stdout and stderr are both pipes without a reader. False where that cannot be told."""
    return hasattr(select, "poll") and all(_without_reader(fd) for fd in (1, 2))


def _without_reader(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(state & select.POLLERR for _, state in poll.poll(0))
