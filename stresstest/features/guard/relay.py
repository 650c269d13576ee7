"""Forwards one request and its answer, byte for byte, and watches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp
from aiohttp import web

from stresstest.features.guard.ending import HEADER, header_value
from stresstest.features.guard.exchange import LONGEST_WAIT, Exchange, Ledger
from stresstest.features.guard.upstream import Upstream, end_to_end
from stresstest.features.guard.watch import AnswerWatch, JudgeQueue
from stresstest.http_limits import ACCEPTED_ENCODING, MAX_REPLY_BYTES

SERVER = "stresstest-guard"
HIGH_WATER = 64 * 1024
"""Bytes that wait for a slow client before its upstream has to wait."""
_LOOK_FIRST, _LOOK_LONGEST = 0.005, 1.0
"""Seconds between two looks at a client that does not read; doubled each time, so that a look is late by no
more than the client was."""


_OK, _REDIRECT, _SERVER_ERROR = 200, 300, 500
"""Beginnings of classes of status codes. A gateway may have codes of its own for answers: Portkey's 246."""
_GIVEN_UP = frozenset({408, 446, 499})
"""Other statuses of an answer that was under way: of a time limit, of Portkey's guardrails, of nginx."""


class CutError(Exception):
    """The answer cannot continue although its headers were sent: the connection is closed without an end.

    notice: the guard's own sentence for the client; empty where the upstream has cut the answer, which is
    passed on as the same cut.
    """

    def __init__(self, reason: str, notice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.notice = notice


def endless_line() -> CutError:
    """Of a line without an end, which is never passed on."""
    return CutError("endless_line", "The upstream sent a line without an end, or an event that is too large.")


class Relay:
    """The way to the upstream and back."""

    def __init__(self, upstream: Upstream, queue: JudgeQueue, ledger: Ledger) -> None:
        self._upstream = upstream
        self._queue = queue
        self._ledger = ledger

    async def send(
        self, exchange: Exchange, changes: Mapping[str, Any] | None = None
    ) -> aiohttp.ClientResponse:
        """The upstream's response to the request. changes: of its body. Raises UpstreamFailure."""
        request, body = exchange.request, exchange.body
        if changes and exchange.asked is not None:
            body = exchange.asked.changed(changes)
        without = ["host", "expect"]
        if isinstance(body, bytes):
            without.append("content-length")
        if exchange.may_end:
            without.append("accept-encoding")  # what may be ended has to be read
        headers = end_to_end(request.headers, without=without)
        if exchange.may_end:
            headers["Accept-Encoding"] = ACCEPTED_ENCODING
        self._ledger.metrics.forward.observe(time.perf_counter() - exchange.began)
        return await self._upstream.send(request.method, request.raw_path, headers, body)

    async def pass_on(self, exchange: Exchange, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Forward a response as it is, and judge it."""
        async with upstream:
            response = await self.begin(exchange, upstream)
            watch = None
            if exchange.asked is not None:
                watch = self._watch_response(exchange, upstream)
            if watch is not None and watch.whole:
                size = min(upstream.content_length or 0, MAX_REPLY_BYTES)
                await watch.wait_for_room(LONGEST_WAIT, size)
            client = ClientPipe(exchange.request, response)
            with self.body(upstream) as body:
                while data := await body.read():
                    if client.write(data):
                        await client.drain()
                    if watch is not None and watch.add(data):
                        await self.judge(watch)
            await response.write_eof()
            return response

    def _watch_response(self, exchange: Exchange, upstream: aiohttp.ClientResponse) -> AnswerWatch | None:
        if not _OK <= upstream.status < _REDIRECT:
            exchange.outcome = "upstream_error"
            exchange.given_up = upstream.status >= _SERVER_ERROR or upstream.status in _GIVEN_UP
        elif is_encoded(upstream):
            exchange.outcome = "unread"
        else:
            return self.watch(exchange, streamed=upstream.content_type == "text/event-stream")
        return None

    def watch(self, exchange: Exchange, *, streamed: bool) -> AnswerWatch:
        """A watch on the answer to a request that is judged."""
        return exchange.watched(streamed=streamed, keep_text=self._ledger.journal.keeps_text)

    def settle_attempt(self, exchange: Exchange) -> None:
        """Count and log an answer that another one replaces."""
        self._ledger.settle(replace(exchange, outcome="retried"))
        exchange.counted = exchange.action

    async def judge(self, watch: AnswerWatch) -> None:
        """Queue what has passed, and wait where it is too much. Raises CutError for a line without an end."""
        if watch.whole:
            await watch.wait_for_room(LONGEST_WAIT)
            return
        self._queue.put(watch)
        if watch.is_behind:
            await watch.catch_up()
        if watch.endless:
            raise endless_line()

    def body(self, upstream: aiohttp.ClientResponse) -> UpstreamBody:
        """The body of a response."""
        return UpstreamBody(upstream, self._upstream.idle)

    async def begin(
        self, exchange: Exchange, upstream: aiohttp.ClientResponse, *, whole: bool = True
    ) -> web.StreamResponse:
        """Send the status and headers of the upstream's response. whole: all of its body will follow, and
        nothing else: only then the length that it tells is true."""
        headers = end_to_end(upstream.headers, without=() if whole else ("content-length",))
        headers.setdefault("Server", SERVER)
        if (location := headers.get("Location")) is not None:
            headers["Location"] = self._upstream.relative(location)
        if exchange.why is not None:
            headers[HEADER] = header_value(exchange.why)
        response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        if exchange.request.version < aiohttp.HttpVersion11 and "Content-Length" not in headers:
            response.force_close()  # the answer's end is the connection's
        await response.prepare(exchange.request)
        exchange.response = response
        return response


def is_encoded(upstream: aiohttp.ClientResponse) -> bool:
    """Whether a response is compressed, so that it passes unread."""
    return upstream.headers.get("content-encoding", "identity") != "identity"


class ClientPipe:
    """Writes a body straight to the client's connection, its headers being sent.

    aiohttp's own `write` costs half of what passing on a chunk does; the framing of a chunked body is three
    bytes of arithmetic.
    """

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if request.transport is None:
            raise ConnectionResetError
        self._transport = request.transport
        self._chunked = response.headers.get("transfer-encoding") == "chunked"

    def write(self, data: bytes) -> bool:
        """Send some bytes; True when the client reads so slowly that `drain` must be awaited."""
        transport = self._transport
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return transport.get_write_buffer_size() > HIGH_WATER or transport.is_closing()

    async def drain(self) -> None:
        """Wait until the client has read. Raises ConnectionResetError when it has left."""
        pause = _LOOK_FIRST
        while self._transport.get_write_buffer_size() > HIGH_WATER and not self._transport.is_closing():
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LOOK_LONGEST)
        if self._transport.is_closing():
            raise ConnectionResetError


class UpstreamBody:
    """The body of a response, piece by piece, with a limit on silence. A context manager.

    aiohttp's own limit restarts its timer for every piece; this one looks at the clock when its time is over.
    """

    def __init__(self, response: aiohttp.ClientResponse, idle: float) -> None:
        """idle: seconds for which the upstream may say nothing while it is waited for."""
        self._loop = asyncio.get_running_loop()
        self._content = response.content
        self._idle = idle
        self._waiting_since: float | None = None
        connection = response.connection  # None once all of it is there
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None
        self._timer = self._loop.call_later(idle, self._check)

    def __enter__(self) -> UpstreamBody:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    async def read(self) -> bytes:
        """What has arrived, at least one byte; empty at the end. Raises CutError."""
        self._waiting_since = self._loop.time()
        try:
            piece = await self._content.readany()
        except aiohttp.SocketTimeoutError:
            raise CutError("idle", "The upstream has fallen silent.") from None
        except (aiohttp.ClientError, OSError):
            raise CutError("cut") from None
        self._waiting_since = None
        return piece

    def _check(self) -> None:
        since = self._waiting_since
        silent = 0.0 if since is None else self._loop.time() - since
        if silent >= self._idle:
            self._content.set_exception(aiohttp.SocketTimeoutError("the upstream has fallen silent"))
        else:
            self._timer = self._loop.call_later(self._idle - silent, self._check)
