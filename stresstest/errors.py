"""The one tree of errors. Each carries the sentence a user sees and the exit code.

StresstestError                1  internal
├── UsageError                 2  bad option, file, task or key
├── EndpointError              3  unreachable, unauthorised, unknown model, unusable
├── StoreError                 1  database damaged, newer than this program, locked
├── InconclusiveError          4  too few data
└── InterruptedEarlyError    130  stopped before there was anything to keep
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    INTERNAL = 1
    USAGE = 2
    ENDPOINT = 3
    INCONCLUSIVE = 4
    REGRESSION = 99
    INTERRUPTED = 130


class StresstestError(Exception):
    """Base of all errors meant for a user. ``str(error)`` is the sentence, ``hint`` what to do."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint


class UsageError(StresstestError):
    """The request itself is wrong: option, file, task, key."""

    exit_code = ExitCode.USAGE


class EndpointError(StresstestError):
    """The endpoint cannot be reached or cannot be used."""

    exit_code = ExitCode.ENDPOINT


class StoreError(StresstestError):
    """The store cannot be opened, read or written."""

    exit_code = ExitCode.INTERNAL


class InconclusiveError(StresstestError):
    """Too few data to answer."""

    exit_code = ExitCode.INCONCLUSIVE


class InterruptedEarlyError(StresstestError):
    """Ctrl-C before the first generation: there is nothing to keep."""

    exit_code = ExitCode.INTERRUPTED
