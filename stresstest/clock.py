"""The clock of arrivals, samples and windows: monotonic, anchored to Unix time at import.

A change of the wall clock does not affect differences, and timestamps of two processes
(a run and its resume) are comparable.
"""

from __future__ import annotations

import secrets
import time

_ANCHOR = time.time() - time.monotonic()
_SLACK_S = 60.0
"""Seconds by which the clocks of two processes may differ."""


def now() -> float:
    """Seconds since the Unix epoch, monotonic within the process."""
    return _ANCHOR + time.monotonic()


def is_within(then: float, window: float) -> bool:
    """Whether a moment lies at most `window` seconds back. No moment of the future does."""
    return -_SLACK_S <= now() - then <= window


def new_id() -> str:
    """A new identifier that sorts by time (UTC), such as 20261121-173000-4f2a."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def format_time(then: float) -> str:
    """A moment in UTC, such as 2026-11-21 17:30."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(then))
