"""Limits on what a server can make a client read, and on where it can send it.

A hostile or broken server may answer a small request with gigabytes, with a few compressed kilobytes that
expand to gigabytes, or with a redirect to somebody else's address.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

MAX_ERROR_BYTES = 64 * 1024
"""Of the body of an error, which is quoted in a sentence."""
MAX_PAGE_BYTES = 24 * 1024 * 1024
"""Limit on a list of models or a page of metrics, after decompression. 100,000 models are 15 MB. As
objects it may take fifteen times as much."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Limit on an answer that passes the guard."""
ACCEPTED_ENCODING = "identity"
"""Compression is not requested, because it delays a stream's events. Compressed bodies are still read."""
_PIECE_BYTES = 1024 * 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}


class BodyTooLargeError(Exception):
    """A body exceeds its limit."""


class BodyDecodingError(Exception):
    """A body is damaged, or in an encoding that was not requested."""


class BodyDecoder:
    """Decompresses a body in pieces of at most 1 MiB, so that memory stays bounded whatever it expands to.

    encoding: the Content-Encoding header; "" or "identity" pass bytes through. Raises BodyDecodingError for
    an encoding other than gzip and deflate.
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise BodyDecodingError(f"the encoding {name[:40]!r} was not requested")
        self._plain = name in ("", "identity")
        self._started = False
        self._window = 15 if name == "deflate" else 31
        self._zlib = zlib.decompressobj(self._window)

    def decode(self, data: bytes) -> Iterator[bytes]:
        """The pieces that these bytes expand to. Raises BodyDecodingError."""
        if self._plain:
            yield data
            return
        while data:
            piece = self._inflate(data)
            data = self._zlib.unconsumed_tail
            if not data and self._zlib.eof and self._zlib.unused_data:
                data = self._zlib.unused_data  # gzip files may be concatenated
                self._zlib = zlib.decompressobj(self._window)
            if piece:
                yield piece
            elif self._zlib.eof:
                return

    def _inflate(self, data: bytes) -> bytes:
        try:
            piece = self._zlib.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            if self._started or self._window != 15:
                raise BodyDecodingError(str(error)) from error
            self._window = -15  # "deflate" is also sent without the zlib header
            self._zlib = zlib.decompressobj(self._window)
            self._started = True
            return self._inflate(data)
        self._started = True
        return piece


async def read_limited(response: httpx2.Response, limit: int = MAX_PAGE_BYTES) -> bytes:
    """The decompressed body of an open streamed response.

    Raises BodyTooLargeError above `limit` bytes, BodyDecodingError, and what reading raises.
    """
    decoder = BodyDecoder(response.headers.get("content-encoding", ""))
    return b"".join([piece async for piece in limited_pieces(response.aiter_raw(), decoder, limit)])


async def limited_pieces(
    body: AsyncIterator[bytes], decoder: BodyDecoder, limit: float
) -> AsyncIterator[bytes]:
    """The decompressed pieces of a body. Raises BodyTooLargeError above `limit` bytes, BodyDecodingError."""
    size = 0
    async for data in body:
        for piece in decoder.decode(data):
            size += len(piece)
            if size > limit:
                raise BodyTooLargeError(f"more than {limit / 2**20:.0f} MiB")
            yield piece


def environment_proxy(scheme: str, host: str) -> str | None:
    """The URL of the proxy that the environment sets for this address, if any (`http_proxy`, `all_proxy`,
    `no_proxy`). Raises ValueError for one that is no HTTP proxy."""
    proxies = urllib.request.getproxies()
    found = proxies.get(scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(host):
        return None
    url = found if "://" in found else f"http://{found}"
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an HTTP proxy")
    return url


async def refuse_foreign_redirect(response: httpx2.Response) -> None:
    """An httpx event hook: raise httpx2.TooManyRedirects for a redirect that leaves the server asked."""
    import httpx2

    if not response.has_redirect_location:
        return
    asked = response.request.url
    try:
        target = asked.join(response.headers["location"])
    except httpx2.InvalidURL:
        return  # httpx reports it
    if not _same_server(asked, target):
        raise httpx2.TooManyRedirects(f"redirect to {target.host}", request=response.request)


def _same_server(asked: httpx2.URL, target: httpx2.URL) -> bool:
    """Whether host and port are the same, or http is only upgraded to https on the default ports."""
    ports = [url.port or _DEFAULT_PORTS.get(url.scheme) for url in (asked, target)]
    if asked.host != target.host:
        return False
    if asked.scheme == target.scheme:
        return ports[0] == ports[1]
    return asked.scheme == "http" and ports == [80, 443]
