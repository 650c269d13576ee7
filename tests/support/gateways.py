"""Gateways in front of a server: with a cache, dropping fields of requests, falling back to another model."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from aiohttp import ClientSession, web

Route = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]
"""Where a request goes (a base URL with /v1), and with which body."""


def caching_gateway(upstream: str, least: int = 1000) -> AbstractContextManager[str]:
    """The base URL of a gateway that answers what it has been asked before out of its cache, byte for byte,
    as nginx does. least: bytes of what is kept."""
    return _served(upstream, lambda body: (upstream, body), least=least)


def dropping_gateway(upstream: str, *fields: str) -> AbstractContextManager[str]:
    """The base URL of a gateway that drops these fields of a request, as LiteLLM does by `drop_params`."""
    return _served(upstream, lambda body: (upstream, {k: v for k, v in body.items() if k not in fields}))


def refusing_gateway(upstream: str, every: int) -> AbstractContextManager[str]:
    """The base URL of a gateway that has no place for one streamed request of so many, as TGI answers beyond
    `--max-concurrent-requests`."""
    asked = 0

    def route(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        nonlocal asked
        asked += bool(body.get("stream"))
        if body.get("stream") and asked % every == 0:
            raise web.HTTPTooManyRequests(headers={"Retry-After": "0"})
        return upstream, body

    return _served(upstream, route)


_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (-1, 1_000_000),
    "min_p": (0, 1),
    "repetition_penalty": (0, 2),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}


def checking_gateway(upstream: str, *fields: str) -> AbstractContextManager[str]:
    """The base URL of a gateway that has invalid values of these refused and drops valid ones, as NVIDIA
    Dynamo's frontend did before an SGLang worker."""

    def route(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        kept = {k: v for k, v in body.items() if k not in fields or not _RANGES[k][0] <= v <= _RANGES[k][1]}
        return upstream, kept

    return _served(upstream, route)


def fallback_gateway(
    upstream: str, other: str, falls_back: Callable[[dict[str, Any]], bool]
) -> AbstractContextManager[str]:
    """The base URL of a gateway that answers some requests with the model "fallback", served at `other`, as
    LiteLLM does by `fallbacks`."""

    def route(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return (other, body | {"model": "fallback"}) if falls_back(body) else (upstream, body)

    return _served(upstream, route)


@contextmanager
def _served(upstream: str, route: Route, *, least: int | None = None) -> Iterator[str]:
    """least: bytes of an answer that is kept; None keeps none."""
    loop = asyncio.new_event_loop()
    port: list[int] = []
    ready, leave = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with ClientSession() as session:
            runner = web.AppRunner(_gateway(upstream, route, session, least))
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


def _gateway(upstream: str, route: Route, session: ClientSession, least: int | None) -> web.Application:
    kept: dict[tuple[str, bytes], tuple[str, bytes]] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.read()
        key = (request.path, asked)
        if key in kept:
            kind, whole = kept[key]
            return web.Response(body=whole, headers={"Content-Type": kind})
        base_url, sent = route(json.loads(asked)) if asked else (upstream, None)
        url = base_url.removesuffix("/v1") + request.path_qs
        async with session.request(request.method, url, json=sent) as reply:
            kind, parts = reply.headers.get("Content-Type", ""), []
            response = web.StreamResponse(status=reply.status, headers={"Content-Type": kind})
            await response.prepare(request)
            async for part in reply.content.iter_any():
                parts.append(part)
                # The client may have aborted; the cache takes the whole answer.
                with suppress(ConnectionResetError):
                    await response.write(part)
        whole = b"".join(parts)
        is_answer = reply.status == 200 and request.path.endswith("completions")
        if least is not None and is_answer and len(whole) >= least:
            kept[key] = kind, whole
        return response

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    return app
