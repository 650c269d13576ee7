"""The exception hierarchy. Each error carries the message shown to the user and the exit code.

StresstestError                1  internal
├── UsageError                 2  bad option, file, task or key
├── EndpointError              3  unreachable, unauthorised, unknown model, unusable
├── StoreError                 2  database damaged, newer than this program, locked, not writable
├── InconclusiveError          4  too few data
└── InterruptedEarlyError    130  interrupted before anything was measured
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line. REGRESSION: a regression or an exceeded budget."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    ENDPOINT = 3
    INCONCLUSIVE = 4
    REGRESSION = 99
    INTERRUPTED = 130


class StresstestError(Exception):
    """Base of all errors shown to the user. ``str(error)`` is the message, ``hint`` suggests a remedy."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint
        if hint is not None:
            self.add_note(hint)  # in a traceback, as Python users see it


class UsageError(StresstestError):
    """Invalid input: an option, a file, a task or a key."""

    exit_code = ExitCode.USAGE


class EndpointError(StresstestError):
    """The endpoint cannot be reached or cannot be used."""

    exit_code = ExitCode.ENDPOINT


class StoreError(StresstestError):
    """The store that was named cannot be opened, read or written."""

    exit_code = ExitCode.USAGE


class UnreadableRunWarning(UserWarning):
    """Runs of the store that cannot be read and are left out of a list."""


class InconclusiveError(StresstestError):
    """Too little data for a conclusion."""

    exit_code = ExitCode.INCONCLUSIVE


class InterruptedEarlyError(StresstestError):
    """Ctrl-C before the first generation, so that nothing was saved."""

    exit_code = ExitCode.INTERRUPTED
