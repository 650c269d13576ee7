"""aiohttp under the SDK's client.

httpx2's own transport costs about 100 µs a streamed token, several times what everything else costs;
aiohttp parses in C and hands a read over in one step. Every request has a connection of its own: none
fails because an idle one had just been closed, and every wait for a first token includes the same work.
"""

from __future__ import annotations

import functools
import ssl
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

BODY = "stresstest.body"
"""The response extension under which a DirectBody is found."""

_READ_BUFFER = 4 * 1024 * 1024


def _proxy_for(scheme: str, host: str) -> URL | None:
    """The proxy of the environment for this address. Raises ValueError for an impossible one.

    aiohttp's own look-up knows no all_proxy, and would set ~/.netrc against the key.
    """
    proxies = urllib.request.getproxies()
    found = proxies.get(scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(host):
        return None
    proxy = URL(found if "://" in found else f"http://{found}")
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ValueError("not an HTTP proxy")
    return proxy


@contextmanager
def _as_httpx2(request: httpx2.Request) -> Iterator[None]:
    """aiohttp's errors as the SDK knows them. Their texts leave out hosts and proxy credentials."""
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
        # A handshake that was hung up on is an error without words.
        said = str(error.os_error) or type(error.os_error).__name__
        raise httpx2.ConnectError(said, request=request) from error
    except aiohttp.ServerDisconnectedError as error:
        raise httpx2.RemoteProtocolError("closed before an answer", request=request) from error
    except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as error:
        raise httpx2.RemoteProtocolError(str(error), request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(str(error), request=request) from error


class DirectBody(httpx2.AsyncByteStream):
    """A response's body; `read` is the short way, iteration the one that httpx2 knows."""

    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self.read = response.content.readany
        """The next bytes, as many as there are; empty at the end. Raises aiohttp's errors."""
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2(self._request):
            while data := await self.read():
                yield data

    async def aclose(self) -> None:
        self._response.close()


class DirectTransport(httpx2.AsyncBaseTransport):
    """An aiohttp session; made inside a running loop. Raises httpx2's errors."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; the response's body is read as it is asked for."""
        url = request.url
        try:
            proxy = _proxy_for(url.scheme, url.netloc.decode("ascii"))
        except ValueError as error:
            raise httpx2.ProxyError("proxy", request=request) from error
        with _as_httpx2(request):
            response = await self._session.request(
                request.method,
                URL(str(url), encoded=True),
                headers=[(k, v) for k, v in request.headers.multi_items() if k != "connection"],
                data=await request.aread() or None,
                allow_redirects=False,
                proxy=proxy,
                ssl=self._tls if url.scheme == "https" else True,
                timeout=aiohttp.ClientTimeout(connect=request.extensions.get("timeout", {}).get("connect")),
            )
        body = DirectBody(response, request)
        return httpx2.Response(
            response.status, headers=response.raw_headers, stream=body, extensions={BODY: body}
        )

    async def aclose(self) -> None:
        await self._session.close()

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()
