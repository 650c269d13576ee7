"""The event loop that a campaign runs on (uvloop where there is one), and waiting that an interruption ends.

Half of what a streamed token costs the client is reading the socket; uvloop does that in C.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stresstest.errors import InterruptedEarlyError

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


async def run_unless_stopped(stop: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises InterruptedEarlyError when `stop` is set before it is done."""
    if stop is None:
        return await work
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise InterruptedEarlyError("Interrupted before anything was measured.")
        return task.result()
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
