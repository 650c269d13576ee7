"""stdout and stderr that survive the loss of their readers and accept any character in any encoding."""

from __future__ import annotations

import codecs
import io
import json
import os
import select
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stresstest.errors import UsageError
from stresstest.output_file import refuse_overwriting, write_over

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ENCODING_ERRORS = "stresstest-plainly"
# No replacement is a quotation mark or a backslash: the text may be JSON.
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


class _TolerantStream(io.RawIOBase):
    """A stream whose reader may go away (`… | head -1`) or whose disk may be full: later output is dropped
    and no error is raised. failed: the error, unless the reader went away."""

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


class LogStream(io.TextIOWrapper):
    """Text for a file or a pipe that steers neither a terminal nor the CI server that reads it.

    GitHub Actions executes lines that begin with `::` after blanks, and `##[` anywhere in a line; Azure
    Pipelines and TeamCity execute `##vso[` and `##teamcity[`. A model's name or a key of a log could hold any
    of these. A blank is inserted into them. Control characters are dropped,
    unless the environment asks for colours in a log (FORCE_COLOR), which are control characters.
    """

    _blank = True
    """Whether the line holds only blanks so far."""
    _colon = False
    """Whether it holds blanks and one colon."""
    _hashes = 0
    """How many `#` it ends with, or with them and letters."""

    def write(self, text: str, /) -> int:
        given, plain = len(text), 0
        if not (_printable(text) or os.environ.get("FORCE_COLOR")):
            from stresstest.render.text import sanitize

            text = sanitize(text)
        if not ("::" in text or "##" in text or self._colon or self._hashes):
            plain = max(text.rfind("\n"), text.rfind("\r")) + 1
            self._blank = self._blank or plain > 0
        super().write(text[:plain] + "".join(map(self._without_command, text[plain:])))
        return given

    def write_command(self, line: str) -> None:
        """Write one line as it is: a workflow command of our own, whose text is escaped."""
        super().write(f"{line}\n")

    def _without_command(self, character: str) -> str:
        completes = (character == ":" and self._colon) or (character == "[" and self._hashes >= 2)
        if character in "\n\r":
            self._blank, self._colon, self._hashes = True, False, 0
            return character
        self._colon = character == ":" and self._blank
        self._blank = self._blank and character.isspace()
        if character == "#":
            self._hashes += 1
        elif self._hashes < 2 or not (character.isascii() and character.isalpha()):
            self._hashes = 0
        return f" {character}" if completes else character


def as_logged(text: str) -> str:
    """The text as a `LogStream` writes it, for a file that somebody may print in a pipeline."""
    raw = io.BytesIO()
    stream = LogStream(raw, encoding="utf-8", errors="backslashreplace", newline="")
    stream.write(text)
    stream.flush()
    return raw.getvalue().decode()


def _printable(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def write_workflow_command(line: str) -> None:
    """Write a workflow command for GitHub Actions on stderr."""
    if isinstance(sys.stderr, LogStream):
        sys.stderr.write_command(line)
    else:
        sys.stderr.write(f"{line}\n")


def guard_streams() -> None:
    """Make sys.stdout and sys.stderr tolerant of write errors, for the life of the process.

    A command whose reader goes away still finishes, with its own exit code. Characters that the encoding
    lacks are written in ASCII: punctuation and signs by a substitute, letters as JSON escapes, so that a
    JSON document stays valid. What is not a terminal may be a CI server's log: see `LogStream`.
    """
    codecs.register_error(ENCODING_ERRORS, replace_unencodable)
    _open_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors=ENCODING_ERRORS)
            continue
        stream.flush()
        try:
            file = _TolerantStream(stream.fileno())
        except io.UnsupportedOperation:  # an in-memory stream, which has no reader that could go away
            continue
        guarded = LogStream(
            io.BufferedWriter(file),
            encoding=stream.encoding,
            errors=ENCODING_ERRORS,
            line_buffering=stream.line_buffering or stream.write_through,  # as with PYTHONUNBUFFERED
        )
        setattr(sys, name, guarded)


def _open_closed() -> None:
    """Open the null device in place of streams that were closed at the start (`2>&-`, some daemons).

    The next file, such as the store, would get their number else, and with it what a library writes there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(fd, mode, encoding="utf-8", closefd=False))


def stdout_failure() -> OSError | None:
    """Why stdout is incomplete, such as a full disk; None if it is complete or its reader went away."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failed if isinstance(raw, _TolerantStream) else None


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """The codec error handler registered as `ENCODING_ERRORS`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character) or json.dumps(character)[1:-1] for character in found), error.end


def is_output_closed() -> bool:
    """Whether stdout and stderr are both pipes without a reader. False on systems that cannot tell."""
    return hasattr(select, "poll") and all(_without_reader(fd) for fd in (1, 2))


def _without_reader(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(state & select.POLLERR for _, state in poll.poll(0))


def save(text: str, output: str | None, *, quiet: bool = False) -> None:
    """Write to a file, or to stdout if `output` is None. Raises UsageError for a file it cannot write.

    Markdown and XML are written as a log would be: a pipeline may print them. HTML and JSON are not changed.
    """
    if output is None:
        typer.echo(text, nl=False)
        return
    if not output.lower().endswith((".html", ".json")):
        text = as_logged(text)
    write_lines([text], output)
    if not quiet:
        _say_written(output)


def write_document(pieces: Iterable[str], output: str | None) -> None:
    """Write JSON, in pieces, to a file, or to stdout if `output` is None; a line ends it. Raises UsageError
    for a file it cannot write."""
    lines = chain(pieces, ["\n"])
    if output is None:
        sys.stdout.writelines(lines)
        sys.stdout.flush()  # before anything that stderr says
        return
    write_lines(lines, output)
    _say_written(output)


def _say_written(output: str) -> None:
    from stresstest.render.text import single_line

    typer.echo(f"Wrote {single_line(output)}.", err=True)


def write_lines(lines: Iterable[str], output: str) -> None:
    """Write a file as it is, such as training data, by `write_over`. Raises UsageError if it cannot."""
    refuse_overwriting(output)
    path = Path(output)
    try:
        write_over(path, lines)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.") from None
