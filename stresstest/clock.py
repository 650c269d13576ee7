"""One clock for arrivals, samples and windows: monotonic, anchored once to Unix time.

Differences are never disturbed by a stepped wall clock, and values of two processes
(a run and its resume) still lie on one axis.
"""

from __future__ import annotations

import time

_ANCHOR = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the Unix epoch on a monotonic axis."""
    return _ANCHOR + time.monotonic()
