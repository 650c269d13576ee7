"""Policies that end an answer: what the client gets when a choice is known to fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from stresstest.endpoint.wire import LineTooLongError
from stresstest.features.guard.answer import ChoiceWatch, UnreadableAnswerError
from stresstest.features.guard.asked import Asked
from stresstest.features.guard.assembled import AnswerAssembly, streaming_changes
from stresstest.features.guard.ending import (
    FIELD,
    FINISH_REASON,
    HEADER,
    WholeEvents,
    explanation,
    header_value,
    last_events,
)
from stresstest.features.guard.exchange import Exchange
from stresstest.features.guard.relay import SERVER, CutError, Relay, endless_line, is_encoded
from stresstest.features.guard.upstream import UpstreamFailure, end_to_end
from stresstest.model import GenerationVerdict
from stresstest.model.guard import GuardPolicy

_WITHOUT_THINKING: Mapping[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
Failing = tuple[ChoiceWatch, GenerationVerdict]


class Intervention:
    """Serves one request whose answer may be ended."""

    def __init__(self, relay: Relay, exchange: Exchange, asked: Asked) -> None:
        self._relay = relay
        self._exchange = exchange
        self._asked = asked

    async def stream(self) -> web.StreamResponse:
        """Pass a stream on until it ends by itself or is ended."""
        exchange = self._exchange
        upstream = await self._relay.send(exchange)
        if not _is_stream(upstream) or is_encoded(upstream):
            return await self._relay.pass_on(exchange, upstream)
        async with upstream:
            response = await self._relay.begin(exchange, upstream, whole=False)
            failing = await self._relay_events(upstream, response, None)
        if failing is not None and self._may_ask_again(failing, streamed=True):
            failing = await self._relay_second(failing, response)
        end = b""
        if failing is not None and exchange.watch is not None:
            self._note(GuardPolicy.ABORT, failing)
            exchange.ended = FINISH_REASON
            end = last_events(self._asked, exchange.watch.reader, exchange.why or {})
        await response.write_eof(end)
        return response

    async def assemble(self) -> web.StreamResponse:
        """Ask for a stream, and answer with the body that it makes."""
        exchange, asked = self._exchange, self._asked
        changes = streaming_changes(asked)
        upstream = await self._relay.send(exchange, changes)
        if not _is_stream(upstream):
            return await self._relay.pass_on(exchange, upstream)
        failing, assembly = await self._collect(upstream)
        if failing is not None and self._may_ask_again(failing, streamed=False):
            second = await self._ask_again(failing, changes)
            if second is not None:
                upstream = second
                failing, assembly = await self._collect(second)
        if failing is not None:
            self._note(GuardPolicy.ABORT, failing)
            exchange.ended = FINISH_REASON
        headers = end_to_end(upstream.headers, without=("content-type", "content-length", "server"))
        headers.extend({"Content-Type": "application/json", "Server": SERVER})
        if exchange.why is not None:
            headers[HEADER] = header_value(exchange.why)
        if assembly.error is not None:
            exchange.outcome = "upstream_error"
            return web.Response(status=500, body=assembly.error, headers=headers)
        if failing is None and not assembly.complete:
            raise CutError("cut")
        assert exchange.watch is not None
        return web.Response(body=assembly.body(exchange.watch.reader, exchange.why), headers=headers)

    async def _relay_events(
        self, upstream: aiohttp.ClientResponse, response: web.StreamResponse, mark: dict[str, Any] | None
    ) -> Failing | None:
        """Pass whole events on; what tripped the watch, or None at the end of the stream.

        mark: to be put into the first event, which follows others: it names the role a second time.
        """
        watch = self._relay.watch(self._exchange, streamed=True)
        events = WholeEvents()
        with self._relay.body(upstream) as body:
            while data := await body.read():
                if watch.add(data):
                    await self._relay.judge(watch)
                if watch.tripped is not None:
                    return watch.tripped
                try:
                    whole = events.give_up(data) if watch.crowded_out else events.add(data)
                except LineTooLongError:
                    raise endless_line() from None
                if whole and mark is not None and (marked := _marked(whole, mark)) is not None:
                    whole, mark = marked, None
                if whole:
                    await response.write(whole)
        if events.held:
            await response.write(events.held)
        return None

    async def _relay_second(self, failing: Failing, response: web.StreamResponse) -> Failing | None:
        """Where the reasoning was ended, continue with the answer to a request without reasoning."""
        upstream = await self._ask_again(failing, {})
        if upstream is None:
            return failing
        async with upstream:
            return await self._relay_events(upstream, response, self._exchange.why)

    async def _ask_again(self, failing: Failing, changes: Mapping[str, Any]) -> aiohttp.ClientResponse | None:
        """The second attempt, which replaces the first; None where it fails, so that the first is ended.

        What the first has shown is counted once the second begins.
        """
        rule = self._exchange.rule
        asked = rule.changes or _WITHOUT_THINKING
        self._note(rule.policy, failing, changed=",".join(asked))
        try:
            upstream = await self._relay.send(self._exchange, {**changes, **asked})
        except UpstreamFailure:
            return None
        if not _is_stream(upstream) or is_encoded(upstream):
            upstream.close()
            return None
        self._relay.settle_attempt(self._exchange)
        return upstream

    async def _collect(self, upstream: aiohttp.ClientResponse) -> tuple[Failing | None, AnswerAssembly]:
        """Read a stream until it ends or trips the watch."""
        watch = self._relay.watch(self._exchange, streamed=True)
        assembly = AnswerAssembly(self._asked.route)
        async with upstream:
            if is_encoded(upstream):
                raise CutError("unreadable", "The upstream compresses answers although it was asked not to.")
            with self._relay.body(upstream) as body:
                while data := await body.read():
                    if watch.add(data):
                        await self._relay.judge(watch)
                    try:
                        self._exchange.room.take(self._exchange, assembly.add(data))
                    except (UnreadableAnswerError, LineTooLongError):
                        notice = "The upstream sent what is not an answer of this API."
                        raise CutError("unreadable", notice) from None
                    if watch.tripped is not None:
                        return watch.tripped, assembly
        return None, assembly

    def _may_ask_again(self, failing: Failing, *, streamed: bool) -> bool:
        """Whether a second attempt can replace the answer: once, and none of it was passed on."""
        exchange = self._exchange
        if exchange.action is not None or exchange.watch is None:
            return False
        if exchange.rule.policy is GuardPolicy.RETRY:
            return not streamed
        thinking = not failing[0].answering and len(exchange.watch.reader.choices) == 1
        return exchange.rule.policy is GuardPolicy.END_THINKING and thinking

    def _note(self, action: GuardPolicy, failing: Failing, **more: Any) -> None:
        exchange = self._exchange
        if exchange.action is not None:
            more["after"] = exchange.action
        exchange.action = action.value
        exchange.why = explanation(action.value, failing, **more)


def _is_stream(upstream: aiohttp.ClientResponse) -> bool:
    return upstream.status == 200 and upstream.content_type == "text/event-stream"


def _marked(events: bytes, why: dict[str, Any]) -> bytes | None:
    """The events; in the first chunk, the role is removed and the guard's field says why it follows others.
    None if there are only comments."""
    end = b"\n\n" if b"\n\n" in events else b"\r\n\r\n"
    parts = events.split(end)
    for n, part in enumerate(parts):
        try:
            found = msgspec.json.decode(part.removeprefix(b"data:").strip())
            for choice in found["choices"]:
                choice["delta"].pop("role", None)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        parts[n] = b"data: " + msgspec.json.encode({**found, FIELD: why})
        return end.join(parts)
    return None
