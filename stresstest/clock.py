"""One clock for arrivals, samples and windows: monotonic, anchored once to Unix time.

Differences are never disturbed by a stepped wall clock, and values of two processes
(a run and its resume) still lie on one axis.
"""

from __future__ import annotations

import secrets
import time

_ANCHOR = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the Unix epoch on a monotonic axis."""
    return _ANCHOR + time.monotonic()


def new_id() -> str:
    """A name for what is stored: sorts by time, reads aloud: 20261121-173000-4f2a."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
