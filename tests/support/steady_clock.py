"""A clock of the event loop on which a pause of the machine is short, for tests of limits below a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_S = 0.04


@contextmanager
def steady_clock() -> Iterator[None]:
    """Within the block no step of the running loop takes longer than 0.04 s on its own clock.

    A limit of 0.2 s then ends silence, a little later than it would, and never ends a connection because
    another process had the processor for so long.
    """
    loop = asyncio.get_running_loop()
    real = loop.time
    shown = seen = real()

    def time() -> float:
        nonlocal shown, seen
        now = real()
        shown, seen = shown + min(now - seen, _LONGEST_S), now
        return shown

    loop.time = time  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.time = real  # type: ignore[method-assign]
