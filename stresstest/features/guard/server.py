"""Starting, draining and stopping a guard."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_text
from stresstest.features.guard.exchange import Ledger
from stresstest.features.guard.journal import Journal, Sink
from stresstest.features.guard.lines import tell
from stresstest.features.guard.metrics import GuardMetrics, named_series
from stresstest.features.guard.proxy import Proxy, refused
from stresstest.features.guard.relay import SERVER, Relay
from stresstest.features.guard.settings import GuardLimits, GuardSettings
from stresstest.features.guard.upstream import Upstream, UpstreamFailure, end_to_end, error_body
from stresstest.features.guard.watch import JudgeQueue
from stresstest.telemetry.page_sampler import MAX_PAGE

OWN_FOLDER = "/guard/"
"""Paths below it are the guard's own: the upstream's /metrics and /health pass through like any other."""
UPSTREAM_HEADER = "X-Stresstest-Upstream"
"""Of the health page: which upstream is guarded, as a digest of its address."""
_ASK_SECONDS = 2.0
_LAG_SAMPLE = 0.25
_LAST_STEPS, _LAST_JUDGING = 0.3, 1.0
"""Seconds at the end in which requests that are ended may note what was seen, and in which that is judged."""


class GuardServer(web.Server):
    """Accepts connections, up to a limit, and drops those whose first request does not arrive in time."""

    def __init__(self, handler: Any, limits: GuardLimits) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            request_factory=self._request,
            access_log=None,
            logger=_without_requests(),
            auto_decompress=False,
            keepalive_timeout=75.0,
            max_line_size=limits.header,
            max_field_size=limits.header,
        )
        self._limits = limits
        self._silent: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take a connection, or say that there are too many."""
        super().connection_made(handler, transport)
        if len(self.connections) > self._limits.connections:
            body = error_body("The guard has too many connections.", "overloaded_error", 503)
            head = f"HTTP/1.1 503 Service Unavailable\r\nServer: {SERVER}\r\nRetry-After: 1\r\n"
            head += (
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            transport.write(head.encode() + body)
            transport.close()
            return
        loop = asyncio.get_running_loop()
        self._silent[transport] = loop.call_later(self._limits.arrival, transport.abort)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        if handler.transport is not None:
            self.spoke(handler.transport)
        super().connection_lost(handler, exc)

    def spoke(self, transport: asyncio.BaseTransport | None) -> None:
        """A request has arrived on this connection, or it is closed."""
        if transport is not None and (timer := self._silent.pop(transport, None)) is not None:
            timer.cancel()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        self.spoke(protocol.transport)
        loop = asyncio.get_running_loop()
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=self._limits.body
        )


@dataclass(frozen=True, slots=True)
class RunningGuard:
    """A guard that answers. url: scheme, host and port."""

    url: str
    metrics: GuardMetrics


@contextlib.asynccontextmanager
async def serve_guard(
    settings: GuardSettings,
    journal: Journal,
    *,
    sinks: Sequence[Sink] = (),
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[RunningGuard]:
    """Serve for the length of a `with` block; at its end nothing new is accepted, and what runs may end.

    sinks: told of every judged choice, beside the journal. port 0: a free one. Raises OSError where the port
    is taken.
    """
    _warm_up(settings)
    metrics = GuardMetrics()
    queue = JudgeQueue(metrics.step.observe)
    upstream = Upstream(settings)
    ledger = Ledger(metrics, journal, queue, dry_run=settings.dry_run, sinks=sinks)
    handler = Handler(Proxy(settings, Relay(upstream, queue, ledger), ledger), upstream, metrics, settings)
    server = GuardServer(handler.handle, settings.limits)
    serving = web.ServerRunner(server, shutdown_timeout=settings.limits.drain)
    await serving.setup()
    sampling = asyncio.create_task(_sample_lag(metrics.lag.observe))
    with journal.writing(metrics.log_dropped.inc):
        try:
            site = web.TCPSite(serving, host, port, backlog=1024, reuse_port=bool(port) or None)
            await site.start()
            bound = serving.addresses[0][1]
            shown = f"[{host}]" if ":" in host else host
            yield RunningGuard(f"http://{shown}:{bound}", metrics)
        finally:
            sampling.cancel()
            try:
                await serving.cleanup()
                await handler.end()
                await queue.empty()
            except asyncio.CancelledError:
                await _end_at_once(server, handler, queue, journal)
                raise
            finally:
                await upstream.close()


async def guards_another(host: str, port: int, upstream: str) -> bool:
    """Whether a guard of another upstream answers at this address: the two would share its requests."""
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}{OWN_FOLDER}health"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_ASK_SECONDS)) as session,
            session.get(address, allow_redirects=False) as answer,
        ):
            return answer.headers.get(UPSTREAM_HEADER, _digest(upstream)) != _digest(upstream)
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
        return False


def _digest(upstream: str) -> str:
    return hashlib.sha256(upstream.encode()).hexdigest()[:16]


async def _end_at_once(server: GuardServer, handler: Handler, queue: JudgeQueue, journal: Journal) -> None:
    """Nobody waits any longer: what was seen of the open answers is judged and logged as far as it takes no
    time, and the rest is told."""
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()
    left = await handler.end() + queue.judge_for(_LAST_JUDGING)
    journal.hurried = True
    if left:
        what = "1 answer was" if left == 1 else f"{left:,} answers were"
        tell(f"warning: {what} not judged to the end: there is no line of the log, and no count")


class Handler:
    """Tells the guard's own pages from what passes through."""

    def __init__(
        self, proxy: Proxy, upstream: Upstream, metrics: GuardMetrics, settings: GuardSettings
    ) -> None:
        self._proxy = proxy
        self._upstream = upstream
        self._metrics = metrics
        self._series = settings.config.series
        self._health = {UPSTREAM_HEADER: _digest(settings.upstream)}
        self._open: set[asyncio.Task[Any]] = set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one request."""
        if request.path.startswith(OWN_FOLDER):
            return await self._own_page(request)
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with self._metrics.in_flight.track_inprogress():
                return await self._proxy.handle(request)
        finally:
            self._open.discard(task)

    async def end(self) -> int:
        """End what is still served; how many requests there are all the same."""
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=_LAST_STEPS)
        return len(self._open)

    async def _own_page(self, request: web.BaseRequest) -> web.StreamResponse:
        name = request.path.removeprefix(OWN_FOLDER)
        if request.method != "GET" or name not in ("health", "metrics"):
            return refused(404, f"The guard's own pages are {OWN_FOLDER}health and {OWN_FOLDER}metrics.")
        if name == "health":
            return web.Response(text="ok\n", headers=self._health)
        page = self._metrics.page() + await self._upstream_series()
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _upstream_series(self) -> bytes:
        """The named series of the upstream's metrics; none where it has no such page."""
        if not self._series:
            return b""
        try:
            async with asyncio.timeout(5):
                response = await self._upstream.send("GET", "/metrics", end_to_end(CIMultiDict()), None)
                async with response:
                    page = await _read(response.content) if response.status == 200 else b""
        except (UpstreamFailure, TimeoutError, aiohttp.ClientError):
            return b""
        return named_series(page, self._series)


async def _read(content: aiohttp.StreamReader) -> bytes:
    """All of a page; nothing of one that is too large: half a line would be a wrong number."""
    page = bytearray()
    while piece := await content.readany():
        page += piece
        if len(page) > MAX_PAGE:
            return b""
    return bytes(page)


def _without_requests() -> logging.Logger:
    """The server's log. What is not HTTP is not quoted in it: its lines may hold keys."""

    def unquoted(record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
            record.exc_info, record.msg = None, "A request from %s was refused: it is not valid HTTP."
        return True

    log = logging.getLogger("stresstest.guard")
    if not log.filters:
        log.addFilter(unquoted)
    return log


async def _sample_lag(observe: Callable[[float], object]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SAMPLE
        await asyncio.sleep(_LAG_SAMPLE)
        observe(max(0.0, loop.time() - due))


def _warm_up(settings: GuardSettings) -> None:
    """Load what the detectors need, which takes half a second that no request should wait for."""
    for language in {rule.language for rule in settings.config.rules}:
        detect_text(_SAMPLE, DetectorSpec(language=language))


_SAMPLE = "The old miller walks to the square, and looks at the moon that rises above the roofs. " * 8
