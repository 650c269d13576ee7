"""Other clients of a simulated server, whose requests run beside those of the tool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp


@contextmanager
def other_clients(base_url: str, number: int) -> Iterator[Callable[[], None]]:
    """Keep `number` requests in flight until the function that is yielded is called, or the block ends."""
    loop = asyncio.new_event_loop()
    leave = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(_load(base_url, number, leave),))

    def end() -> None:
        loop.call_soon_threadsafe(leave.set)

    thread.start()
    try:
        yield end
    finally:
        end()
        thread.join()
        loop.close()


async def _load(base_url: str, number: int, leave: asyncio.Event) -> None:
    async with aiohttp.ClientSession() as session:
        clients = [asyncio.create_task(_client(session, base_url, i)) for i in range(number)]
        await leave.wait()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _client(session: aiohttp.ClientSession, base_url: str, number: int) -> None:
    body = {
        "model": "sim",
        "messages": [{"role": "user", "content": f"Scrivi una storia in 60 paragrafi numerati {number}"}],
        "stream": True,
        "max_tokens": 8000,
        "ignore_eos": True,
    }
    while True:
        async with session.post(f"{base_url}/chat/completions", json=body) as response:
            async for _ in response.content.iter_any():
                pass
