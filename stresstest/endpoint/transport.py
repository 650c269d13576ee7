"""An aiohttp transport for the SDK's httpx client.

httpx2's own transport costs about 100 µs per streamed token, several times the cost of everything else;
aiohttp parses in C and returns a read in one step. Every request opens a new connection: none fails
because an idle connection was just closed, and every time to first token includes the same work.
"""

from __future__ import annotations

import functools
import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

from stresstest.endpoint.unsent_bodies import when_sent
from stresstest.http_limits import (
    ACCEPTED_ENCODING,
    MAX_ERROR_BYTES,
    MAX_PAGE_BYTES,
    BodyDecoder,
    BodyDecodingError,
    BodyTooLargeError,
    environment_proxy,
    limited_pieces,
)

BODY_EXTENSION = "stresstest.body"
"""Key of the DirectBody in a response's extensions."""

_SENT_HEADERS = frozenset(("authorization", "content-type", "accept", "user-agent"))
"""What passes of the SDK's headers: it adds any from the environment (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS),
which were not set for every server."""
_ACCOUNT_HEADERS = frozenset(("openai-organization", "openai-project"))
_OFFICIAL = ("https", "api.openai.com")
_READ_BUFFER = 4 * 1024 * 1024
_PIECE = 256 * 1024
"""Bytes of a body that are handed to the socket at once: it copies what it cannot send."""


def _proxy_for(scheme: str, host: str) -> URL | None:
    """The proxy that the environment sets for this address, if any. Raises ValueError for an invalid one.

    aiohttp's own lookup ignores all_proxy, and would let ~/.netrc override the API key.
    """
    found = environment_proxy(scheme, host)
    return None if found is None else URL(found)


def _released(request: httpx2.Request) -> list[bytes]:
    """The request's body, which the request no longer holds: pictures of all requests in flight are much."""
    content = [request.content]
    request.stream = httpx2.ByteStream(b"")
    request._content = b""
    return content


async def _in_pieces(content: list[bytes], sent: Callable[[], None]) -> AsyncIterator[memoryview]:
    """A body in pieces that wait until the one before is sent. sent: called after the last."""
    whole = memoryview(content.pop())
    for start in range(0, len(whole), _PIECE):
        yield whole[start : start + _PIECE]
    sent()


@contextmanager
def _as_httpx2(request: httpx2.Request) -> Iterator[None]:
    """Convert aiohttp's errors to httpx2's, for the SDK. Messages omit hosts and proxy credentials."""
    try:
        yield
    except aiohttp.ServerTimeoutError as error:
        raise httpx2.ConnectTimeout("connect", request=request) from error
    except aiohttp.ClientConnectorDNSError as error:
        if error.host.encode("ascii", "replace") != request.url.raw_host:
            raise httpx2.ProxyError("proxy", request=request) from error
        raise httpx2.ConnectError("name or service not known", request=request) from error
    except (aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError) as error:
        raise httpx2.ProxyError("proxy", request=request) from error
    except aiohttp.ClientConnectorCertificateError as error:
        raise httpx2.ConnectError(str(error.certificate_error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        # An aborted TLS handshake has an empty message.
        said = str(error.os_error) or type(error.os_error).__name__
        raise httpx2.ConnectError(said, request=request) from error
    except aiohttp.ServerDisconnectedError as error:
        raise httpx2.RemoteProtocolError("closed before an answer", request=request) from error
    except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as error:
        raise httpx2.RemoteProtocolError(str(error), request=request) from error
    except UnicodeError as error:  # a host that no name lookup accepts, such as a..b
        raise httpx2.ConnectError("name or service not known", request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(str(error), request=request) from error
    except (BodyDecodingError, BodyTooLargeError) as error:
        raise httpx2.DecodingError(str(error), request=request) from error


class DirectBody(httpx2.AsyncByteStream):
    """A response body. Streams are read by `read` or `pieces`; iteration, as httpx2 does it, is limited.

    read: returns all bytes available, at least one; empty at the end. Raises aiohttp's errors. None where the
    body is compressed.
    """

    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        encoding = response.headers.get("content-encoding", "")
        self.read = response.content.readany if encoding in ("", "identity") else None
        self._encoding = encoding
        self._response = response
        self._request = request

    async def pieces(self, limit: float = math.inf) -> AsyncGenerator[bytes, None]:
        """The decompressed body, without a limit for a reader that has its own. Raises httpx2's errors."""
        with _as_httpx2(self._request):
            async for piece in limited_pieces(self._received(), BodyDecoder(self._encoding), limit):
                yield piece

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._error() if self._response.status >= 400 else self.pieces(MAX_PAGE_BYTES)

    async def _error(self) -> AsyncGenerator[bytes, None]:
        """The beginning of an error, which the SDK decodes, whatever it builds of it."""
        left = MAX_ERROR_BYTES + 1
        async for piece in self.pieces():
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def _received(self) -> AsyncIterator[bytes]:
        while data := await self._response.content.readany():
            yield data

    async def aclose(self) -> None:
        self._response.close()


class DirectTransport(httpx2.AsyncBaseTransport):
    """An aiohttp session as a transport. Create it inside a running event loop. Raises httpx2's errors."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; the response's body is read on demand."""
        url = request.url
        sent = _SENT_HEADERS | (_ACCOUNT_HEADERS if (url.scheme, url.host) == _OFFICIAL else frozenset())
        try:
            proxy = _proxy_for(url.scheme, url.netloc.decode("ascii"))
        except ValueError as error:
            raise httpx2.ProxyError("proxy", request=request) from error
        content = await request.aread()
        headers = [(k, v) for k, v in request.headers.multi_items() if k in sent]
        headers.append(("accept-encoding", ACCEPTED_ENCODING))
        if len(content) > _PIECE:
            headers.append(("content-length", str(len(content))))
        body = _in_pieces(_released(request), when_sent()) if len(content) > _PIECE else content or None
        del content
        with _as_httpx2(request):
            response = await self._session.request(
                request.method,
                URL(str(url), encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                proxy=proxy,
                ssl=self._tls if url.scheme == "https" else True,
                timeout=aiohttp.ClientTimeout(connect=request.extensions.get("timeout", {}).get("connect")),
            )
        answer = DirectBody(response, request)
        # The body decompresses itself, within limits; httpx2 would decompress without any.
        kept = [(k, v) for k, v in response.raw_headers if k.lower() != b"content-encoding"]
        return httpx2.Response(
            response.status, headers=kept, stream=answer, extensions={BODY_EXTENSION: answer}
        )

    async def aclose(self) -> None:
        await self._session.close()

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        try:
            return httpx2.create_ssl_context()
        except OSError as error:
            why = "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read."
            raise httpx2.ConnectError(why) from error
