"""The event loop that a campaign runs on: uvloop where there is one, else asyncio's own.

Half of what a streamed token costs the client is reading the socket; uvloop does that in C.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's factory, or None for asyncio's default (Windows, PyPy)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the fastest loop at hand."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
