"""Plain HTTP/1.1 straight on asyncio's sockets, under the SDK's client.

The default transport passes every read through four layers of asynchronous generators and a state
machine made for both sides of a connection: about 100 µs a streamed token, several times what everything
else costs. This one lets h11 read the head, and then only takes the chunk framing off. One connection
serves one request. TLS and proxies stay with the default transport.
"""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import h11
import httpx2

BODY = "stresstest.body"
"""The response extension under which a DirectBody is found."""


def applies_to(base_url: str) -> bool:
    """True for http:// addresses that no proxy of the environment stands in front of."""
    parts = urlsplit(base_url)
    if parts.scheme != "http":
        return False
    proxies = urllib.request.getproxies()
    proxied = proxies.get("http") or proxies.get("all")
    return not proxied or bool(urllib.request.proxy_bypass(parts.netloc))


class Framing:
    """Takes HTTP/1.1 framing off a body. `ended` once the body is complete."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.ended = False
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self._left: int | None = int(length) if length is not None and not self._chunked else None
        self._tail = b""
        self._rest = 0
        if status in (204, 304) or self._left == 0:
            self.ended = True

    @property
    def by_close(self) -> bool:
        """The body ends where the connection does."""
        return not self._chunked and self._left is None

    def feed(self, data: bytes) -> bytes:
        """The body's bytes in `data`. Raises ValueError for broken chunk framing."""
        if self._chunked:
            return self._dechunk(data)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            self.ended = self._left == 0
        return data

    def _dechunk(self, data: bytes) -> bytes:
        if self._tail:
            data, self._tail = self._tail + data, b""
        found: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._rest > 2:
                part = data[at : at + self._rest - 2]
                found.append(part)
                self._rest -= len(part)
                at += len(part)
            elif self._rest:  # the line end after a chunk's data
                skipped = min(self._rest, size - at)
                self._rest -= skipped
                at += skipped
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    if size - at > 1024:
                        raise ValueError("endless chunk size line")
                    self._tail = data[at:]
                    break
                length = int(data[at:end].split(b";", 1)[0], 16)
                at = end + 2
                if length == 0:
                    self.ended = True
                else:
                    self._rest = length + 2
        return found[0] if len(found) == 1 else b"".join(found)


class _Connection(asyncio.Protocol):
    """One request's connection: the head as a future, the body as reads."""

    def __init__(self, request: httpx2.Request) -> None:
        self._loop = asyncio.get_running_loop()
        self._request = request
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=256 * 1024)
        self._transport: asyncio.Transport | None = None
        self._framing: Framing | None = None
        self._ready: list[bytes] = []
        self._closed = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._response: h11.Response | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        framing = self._framing
        if framing is None:
            self._read_head(data)
        else:
            self._take(framing, data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if exc is not None and self._error is None:
            self._error = httpx2.ReadError(str(exc), request=self._request)
        self._wake()

    async def send(self, body: bytes) -> h11.Response:
        """Send the request and wait for the response's head."""
        request = self._request
        target = request.url.raw_path
        headers = [(k, v) for k, v in request.headers.raw if k.lower() != b"connection"]
        headers.append((b"connection", b"close"))
        event = h11.Request(method=request.method, target=target, headers=headers)
        out = self._parser.send(event) or b""
        out += self._parser.send(h11.Data(data=body)) or b""
        out += self._parser.send(h11.EndOfMessage()) or b""
        if self._transport is not None:
            self._transport.write(out)
        while self._response is None:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise httpx2.RemoteProtocolError("closed before an answer", request=request)
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._response

    async def read(self) -> bytes:
        """The next bytes of the body, as many as there are; empty at its end."""
        ready = self._ready
        while not ready:
            if self._framing is not None and self._framing.ended:
                return b""
            if self._error is not None:
                raise self._error
            if self._closed:
                if self._framing is not None and self._framing.by_close:
                    return b""
                raise httpx2.RemoteProtocolError("closed inside the body", request=self._request)
            self._waiter = self._loop.create_future()
            await self._waiter
        if len(ready) == 1:
            return ready.pop()
        data = b"".join(ready)
        ready.clear()
        return data

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _read_head(self, data: bytes) -> None:
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
            while isinstance(event, h11.InformationalResponse):
                event = self._parser.next_event()
            if not isinstance(event, h11.Response):
                return
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
            framing = self._framing = Framing(event.status_code, headers)
        except (h11.RemoteProtocolError, ValueError) as error:
            self._error = httpx2.RemoteProtocolError(str(error), request=self._request)
            return
        self._response = event
        left = self._parser.trailing_data[0]
        if left:
            self._take(framing, left)

    def _take(self, framing: Framing, data: bytes) -> None:
        try:
            body = framing.feed(data)
        except ValueError as error:
            self._error = httpx2.RemoteProtocolError(str(error), request=self._request)
            return
        if body:
            self._ready.append(body)


class DirectBody(httpx2.AsyncByteStream):
    """A response's body; `read` is the short way, iteration the one that httpx2 knows."""

    def __init__(self, connection: _Connection) -> None:
        self.read = connection.read
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def aclose(self) -> None:
        self._connection.close()


class DirectTransport(httpx2.AsyncBaseTransport):
    """One fresh connection a request. Raises httpx2's own errors."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; the response's body is read as it is asked for."""
        body = await request.aread()
        connection = await self._connect(request)
        head: h11.Response | None = None
        try:
            head = await connection.send(body)
        finally:
            if head is None:
                connection.close()
        stream = DirectBody(connection)
        return httpx2.Response(
            head.status_code, headers=list(head.headers), stream=stream, extensions={BODY: stream}
        )

    async def _connect(self, request: httpx2.Request) -> _Connection:
        limits = request.extensions.get("timeout", {})
        host, port = request.url.host, request.url.port or 80
        try:
            async with asyncio.timeout(limits.get("connect")):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(request), host, port
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("connect", request=request) from error
        except socket.gaierror as error:
            raise httpx2.ConnectError("name or service not known", request=request) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        return connection
