"""Requests to the upstream, and which headers pass in either direction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import aiohttp
import msgspec
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from stresstest.features.guard.settings import GuardSettings

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection, not of the message (RFC 9110, 7.6.1)."""
_NO_HTTP = "The upstream gave no valid HTTP response."
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header and no reason phrase may hold (RFC 9110, 5.5)."""
_KEEP_IDLE = 2.0
"""Seconds: shorter than uvicorn keeps an idle connection (5), so that none is used just as it is closed."""


class UpstreamFailure(Exception):
    """The upstream gave no usable answer. status: for the client; reason: one word for the metrics."""

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason


def end_to_end(headers: MultiMapping[str], *, without: Iterable[str] = ()) -> CIMultiDict[str]:
    """The headers that pass, in their order: all but those of the connection, and `without`."""
    connection = ",".join(headers.getall("connection", ()))
    named = {name.strip().lower() for name in connection.split(",")}
    dropped = _HOP_BY_HOP | named | set(without)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)


def error_body(message: str, kind: str, code: int) -> bytes:
    """An error as the OpenAI API words it."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})


class Upstream:
    """The one server behind the guard. Create it inside a running event loop.

    idle: seconds without a byte after which an answer counts as failed.
    """

    def __init__(self, settings: GuardSettings) -> None:
        limits = settings.limits
        self._base = settings.upstream
        self.idle = limits.idle
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect, sock_read=limits.idle),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=limits.header,
            max_field_size=limits.header,
        )

    async def send(
        self, method: str, target: str, headers: CIMultiDict[str], body: Any
    ) -> aiohttp.ClientResponse:
        """The response, its body unread. target: path and query as received. Raises UpstreamFailure."""
        try:
            response = await self._session.request(
                method,
                URL(self._base + target, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorCertificateError:
            raise UpstreamFailure(502, "tls", "The upstream's certificate cannot be verified.") from None
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamFailure(504, "connect", "The upstream cannot be reached in time.") from None
        except aiohttp.ClientConnectorError:
            raise UpstreamFailure(502, "connect", "The upstream cannot be reached.") from None
        except TimeoutError:
            raise UpstreamFailure(504, "timeout", "The upstream did not answer in time.") from None
        except (aiohttp.ClientError, ConnectionError, ValueError):
            raise UpstreamFailure(502, "protocol", _NO_HTTP) from None
        told = (response.reason or "", *response.headers.values())
        if any(map(_CONTROL.search, told)):  # could not be passed on, and is meant for no good
            response.close()
            raise UpstreamFailure(502, "protocol", _NO_HTTP)
        return response

    def relative(self, location: str) -> str:
        """Where a redirect leads: within the upstream as a path, so that clients follow it through the guard
        (FastAPI redirects to a whole address where a slash at the end is missing); elsewhere as it is."""
        try:
            base, found = URL(self._base), URL(location)
            same = all(getattr(found, name) == getattr(base, name) for name in ("scheme", "host", "port"))
            found = URL(location, encoded=True)
        except ValueError:  # no address
            return location
        folder = base.raw_path.rstrip("/")
        if not same or not found.raw_path.startswith(f"{folder}/"):
            return location
        path = found.raw_path_qs.removeprefix(folder)
        if path.startswith("//"):
            path = f"/.{path}"  # no address of another host
        return f"{path}#{found.raw_fragment}" if found.raw_fragment else path

    async def close(self) -> None:
        await self._session.close()
