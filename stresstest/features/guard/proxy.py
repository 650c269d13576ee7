"""Serving a request: the rule that holds for it, the way it takes, and what the client gets of a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp
from aiohttp import web

from stresstest.features.guard.asked import (
    Asked,
    PromptSearch,
    TooManyItemsError,
    is_invocation,
    judged_route,
    read_request,
    unread_route,
)
from stresstest.features.guard.assembled import can_be_streamed
from stresstest.features.guard.ending import HEADER
from stresstest.features.guard.exchange import ENDING, BodyRoom, Exchange, Ledger, NoRoomError
from stresstest.features.guard.faults import report
from stresstest.features.guard.intervene import Intervention
from stresstest.features.guard.relay import SERVER, CutError, Relay
from stresstest.features.guard.settings import GuardLimits, GuardSettings
from stresstest.features.guard.upstream import UpstreamFailure, error_body
from stresstest.model.guard import GuardPolicy

PROGRESS = 1024
_FAILED = "The guard failed to serve the request."
_LATE = "The body of the request did not arrive in time."


def refused(
    status: int, message: str, kind: str = "invalid_request_error", headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error of the guard's own, worded as the API words errors."""
    return web.Response(
        status=status,
        body=error_body(message, kind, status),
        content_type="application/json",
        headers={HEADER: "error", "Server": SERVER, **(headers or {})},
    )


_UNASKED = ("connect", "tls")
"""Failures of an upstream that was not asked: it has no answer to give up."""


class Proxy:
    """Serves requests; `handle` is the server's handler."""

    def __init__(self, settings: GuardSettings, relay: Relay, ledger: Ledger) -> None:
        self._settings = settings
        self._relay = relay
        self._ledger = ledger
        self._room = BodyRoom(settings.limits.bodies)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one request, whatever the upstream does."""
        if request.method == "CONNECT" or not request.raw_path.startswith("/"):
            return refused(400, "This is a proxy to one server: ask for a path of it.")
        exchange = Exchange(request, time.perf_counter(), self._room)
        limits = self._settings.limits
        if (request.content_length or 0) > limits.body:
            return refused(413, f"The body of a request is limited to {limits.body} bytes.")
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._serve(exchange)
        except UpstreamFailure as failure:
            return self._failed(exchange, failure.reason, failure.status, str(failure))
        except CutError as cut:
            return self._failed(exchange, cut.reason, 502, cut.notice)
        except TimeoutError:
            return self._failed(exchange, "time_limit", 504, "The answer takes longer than the guard allows.")
        except web.HTTPRequestEntityTooLarge:
            return refused(413, f"The body of a request is limited to {limits.body} bytes.")
        except NoRoomError:
            exchange.outcome = "refused"
            sentence = "The guard holds too much of other requests: there is no room for this one now."
            return refused(503, sentence, "overloaded_error", {"Retry-After": "1"})
        except asyncio.CancelledError:
            exchange.outcome, exchange.given_up = "client_gone", True
            raise
        except ConnectionError:  # raised on, it would be logged with a traceback
            exchange.outcome, exchange.given_up = "client_gone", True
            if request.transport is not None:
                request.transport.abort()
            return exchange.response or web.Response()
        except web.RequestPayloadError:
            return self._broken_off(exchange, refused(400, "The body of the request is not valid HTTP."))
        except Exception as error:  # noqa: BLE001  whatever it is, it is counted
            report(_FAILED, error)
            exchange.outcome, exchange.given_up = "guard_failed", True
            return self._broken_off(exchange, refused(500, _FAILED, "server_error"))
        finally:
            exchange.room.leave(exchange)
            self._ledger.settle(exchange)

    async def _serve(self, exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        expected = request.headers.get("expect", "").lower() == "100-continue"
        if expected and request.version >= aiohttp.HttpVersion11 and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        route = judged_route(request.method, request.path)
        if route is None and not is_invocation(request.method, request.path):
            return await self._pass_unread(exchange)
        exchange.route = route
        try:
            async with asyncio.timeout(self._settings.limits.arrival):
                exchange.body = await self._held_body(exchange)
        except TimeoutError:
            return refused(408, _LATE)
        try:  # whatever its Content-Encoding says: servers do not look at that of a request
            exchange.asked = read_request(route, exchange.body)
        except TooManyItemsError:
            return refused(413, "The body of the request has too many fields.")
        asked = exchange.asked
        if asked is None:
            return await self._relay.pass_on(exchange, await self._relay.send(exchange))
        exchange.route = asked.route
        await self._ledger.catch_up()
        self._apply_rule(exchange, asked)
        if not exchange.may_end:
            return await self._relay.pass_on(exchange, await self._relay.send(exchange))
        intervention = Intervention(self._relay, exchange, asked)
        return await (intervention.stream() if asked.stream else intervention.assemble())

    async def _pass_unread(self, exchange: Exchange) -> web.StreamResponse:
        """Pass on a request that is not judged, its body as it arrives."""
        request = exchange.request
        upload = Upload(request.content, self._settings.limits)
        if request.body_exists:
            exchange.body = aiter(upload)
        try:
            response = await self._relay.pass_on(exchange, await self._relay.send(exchange))
        except (UpstreamFailure, CutError):
            if not upload.late or exchange.response is not None:
                raise
            exchange.outcome = "refused"
            return refused(408, _LATE)
        finally:
            exchange.route = unread_route(request.method, request.path, prompted=upload.prompt.found)
        if response.status != 200:
            exchange.outcome = "upstream_error"
        return response

    async def _held_body(self, exchange: Exchange) -> bytes:
        """All of a request's body. Raises HTTPRequestEntityTooLarge, NoRoomError."""
        pieces = []
        async for piece in _limited(exchange.request.content, self._settings.limits.body):
            exchange.room.take(exchange, len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def _apply_rule(self, exchange: Exchange, asked: Asked) -> None:
        """Choose the rule of a request; what caps it changes its body here."""
        settings = self._settings
        rule = exchange.rule = settings.config.rule(asked.model, asked.route.value)
        readable = asked.stream or can_be_streamed(asked)
        exchange.may_end = rule.policy in ENDING and not settings.dry_run and readable
        if rule.policy is not GuardPolicy.CAP:
            return
        limit = settings.cap_for(asked, rule)
        changes = {} if limit is None else asked.capped(limit)
        if changes:
            exchange.action = rule.policy.value
            if not settings.dry_run:
                exchange.why = {"action": exchange.action, **changes}
                exchange.body = asked.changed(changes)

    def _failed(self, exchange: Exchange, reason: str, status: int, sentence: str) -> web.StreamResponse:
        """The error in place of an answer; once that has begun, the connection is closed without its end."""
        exchange.outcome, exchange.given_up = "upstream_error", reason not in _UNASKED
        self._ledger.metrics.upstream_failures.labels(reason).inc()
        response, transport = exchange.response, exchange.request.transport
        if response is not None and transport is not None:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            if sentence and streamed and response.headers.get("transfer-encoding") == "chunked":
                event = b"data: " + error_body(sentence, "upstream_error", status) + b"\n\n"
                transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        error = refused(status, sentence or "The upstream has cut its answer.", "upstream_error")
        return self._broken_off(exchange, error)

    @staticmethod
    def _broken_off(exchange: Exchange, error: web.Response) -> web.StreamResponse:
        """The error; once an answer has begun, the connection is closed without its end."""
        if exchange.response is None:
            return error
        if exchange.request.transport is not None:
            exchange.request.transport.close()
        return exchange.response


class Upload:
    """The body of a request that is not judged, piece by piece. late: it was given up, as it stood still.
    prompt: whether there is one in what has passed.

    A large one may take any time: it stands still when less than `PROGRESS` bytes of it come in the time that
    a body has. The time in which the upstream takes what has come does not count.
    """

    def __init__(self, body: aiohttp.StreamReader, limits: GuardLimits) -> None:
        self.late = False
        self.prompt = PromptSearch()
        self._pieces = _limited(body, limits.body)
        self._seconds = limits.arrival

    async def __aiter__(self) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        left, fresh = self._seconds, 0
        while True:
            began = clock()
            try:
                async with asyncio.timeout(left):
                    piece = await anext(self._pieces, b"")
            except TimeoutError:
                self.late = True
                raise
            if not piece:
                return
            left, fresh = left - (clock() - began), fresh + len(piece)
            if fresh >= PROGRESS:
                left, fresh = self._seconds, 0
            self.prompt.add(piece)
            yield piece


async def _limited(body: aiohttp.StreamReader, limit: int) -> AsyncIterator[bytes]:
    """The pieces of a request's body. Raises HTTPRequestEntityTooLarge."""
    size = 0
    async for piece in body.iter_any():
        size += len(piece)
        if size > limit:
            raise web.HTTPRequestEntityTooLarge(limit, size)
        yield piece
