"""Requests sent at times of their own, whether the earlier ones are answered or not (an open loop)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from stresstest.campaign.execution.driver import GenerationTask, drive
from stresstest.campaign.execution.events import GenerationEvent
from stresstest.endpoint.client import Endpoint
from stresstest.errors import EndpointError
from stresstest.model import Generation


async def drive_open_loop(
    endpoint: Endpoint,
    tasks: Sequence[GenerationTask],
    arrivals: Sequence[float],
    *,
    on_event: Callable[[GenerationEvent], None] | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[Generation, None]:
    """Yield each task's generation as it ends; task i is sent `arrivals[i]` seconds from now.

    stop: when set, what is in flight is dropped. Requests that never got an answer are missing from what is
    yielded; raises EndpointError when that is all of them.
    """
    found: asyncio.Queue[Generation | None] = asyncio.Queue()
    errors: list[EndpointError] = []

    async def send(task: GenerationTask, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            async for generation in drive(
                endpoint, [task], concurrency=1, abort=False, on_event=on_event, stop=stop
            ):
                found.put_nowait(generation)
        except EndpointError as error:
            errors.append(error)
        finally:
            found.put_nowait(None)

    senders = [asyncio.create_task(send(task, at)) for task, at in zip(tasks, arrivals, strict=True)]
    stopping = asyncio.create_task(_cancel_at(stop, senders)) if stop is not None else None
    try:
        for _ in senders:
            while (generation := await found.get()) is not None:
                yield generation
    finally:
        for each in (*senders, *([stopping] if stopping is not None else [])):
            each.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
    if errors and len(errors) == len(tasks):
        raise errors[0]


async def _cancel_at(stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    await stop.wait()
    for task in tasks:
        task.cancel()
