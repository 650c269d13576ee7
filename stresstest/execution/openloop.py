"""Requests sent at times of their own, whether the earlier ones are answered or not (an open loop)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError
from stresstest.execution.driver import Work, drive
from stresstest.execution.events import Event
from stresstest.model import Generation


async def drive_at(
    endpoint: Endpoint,
    works: Sequence[Work],
    arrivals: Sequence[float],
    *,
    on_event: Callable[[Event], None] | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[Generation, None]:
    """Yield each work's generation as it ends; work i is sent `arrivals[i]` seconds from now.

    stop: when set, what is in flight is dropped. Requests that never got an answer are missing from what is
    yielded; raises EndpointError when that is all of them.
    """
    found: asyncio.Queue[Generation | None] = asyncio.Queue()
    errors: list[EndpointError] = []

    async def one(work: Work, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            async for generation in drive(
                endpoint, [work], concurrency=1, abort=False, on_event=on_event, stop=stop
            ):
                found.put_nowait(generation)
        except EndpointError as error:
            errors.append(error)
        finally:
            found.put_nowait(None)

    tasks = [asyncio.create_task(one(work, at)) for work, at in zip(works, arrivals, strict=True)]
    stopping = asyncio.create_task(_cancel_at(stop, tasks)) if stop is not None else None
    try:
        for _ in tasks:
            while (generation := await found.get()) is not None:
                yield generation
    finally:
        for task in (*tasks, *([stopping] if stopping is not None else [])):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if errors and len(errors) == len(works):
        raise errors[0]


async def _cancel_at(stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    await stop.wait()
    for task in tasks:
        task.cancel()
