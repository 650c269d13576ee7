"""Gateways in front of a server: one with a cache, and one that drops fields of the requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aiohttp import ClientSession, web


@contextmanager
def caching_gateway(upstream: str) -> Iterator[str]:
    """The base URL of a gateway that answers what it has been asked before out of its cache, byte for byte,
    as nginx does. upstream: with its /v1."""
    with _served(upstream, cache=True) as url:
        yield url


@contextmanager
def dropping_gateway(upstream: str, *fields: str) -> Iterator[str]:
    """The base URL of a gateway that drops these fields of a request, as LiteLLM does by `drop_params`."""
    with _served(upstream, drops=fields) as url:
        yield url


@contextmanager
def _served(upstream: str, *, cache: bool = False, drops: tuple[str, ...] = ()) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    port: list[int] = []
    ready, leave = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with ClientSession() as session:
            runner = web.AppRunner(_gateway(upstream.removesuffix("/v1"), session, cache, drops))
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port.append(runner.addresses[0][1])
            ready.set()
            await leave.wait()
            await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield f"http://127.0.0.1:{port[0]}/v1"
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(30)


def _gateway(upstream: str, session: ClientSession, cache: bool, drops: tuple[str, ...]) -> web.Application:
    kept: dict[tuple[str, bytes], tuple[str, bytes]] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if drops and body:
            fields = json.loads(body)
            body = json.dumps({k: v for k, v in fields.items() if k not in drops}).encode()
        key = (request.path, body)
        if key in kept:
            kind, whole = kept[key]
            return web.Response(body=whole, headers={"Content-Type": kind})
        sent = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        async with session.request(
            request.method, upstream + request.path_qs, data=body, headers=sent
        ) as reply:
            kind, parts = reply.headers.get("Content-Type", ""), []
            response = web.StreamResponse(status=reply.status, headers={"Content-Type": kind})
            await response.prepare(request)
            async for part in reply.content.iter_any():
                parts.append(part)
                with suppress(
                    ConnectionResetError
                ):  # the client has aborted; the cache takes the whole answer
                    await response.write(part)
        if cache and reply.status == 200 and request.path.endswith("completions"):
            kept[key] = kind, b"".join(parts)
        return response

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    return app
