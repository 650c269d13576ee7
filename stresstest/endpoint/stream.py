"""Reads one stream to its end: bytes to events, events to tokens, tokens to the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest import clock
from stresstest.endpoint import failures
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.assembly import TokenAssembler, TooManyTokensError
from stresstest.endpoint.gateway_headers import GatewayAnswer, gateway_answer
from stresstest.endpoint.outcome import StallLimit, TokenSink
from stresstest.endpoint.wire import MAX_EVENT, EventReader, LineTooLongError, decode_chunk
from stresstest.model import FailureKind, ServiceFailure

if TYPE_CHECKING:
    import httpx2


_END_S = 30.0
"""Seconds that the end of the connection may take after the finish reason."""
_SLACK_TOKENS = 64
_SLACK_BYTES = 16 * 1024 * 1024
_BYTES_PER_TOKEN = 32 * 1024
"""A chunk of one token with 20 logprobs has 2 to 4 kB."""
_EVENT_BYTES, _EVENT_BYTES_PER_TOKEN = 2 * 1024 * 1024, 4 * 1024
"""Of one event, which may hold the whole answer."""
_CHARACTERS, _CHARACTERS_PER_TOKEN = 64 * 1024, 128
"""Of an answer: the longest tokens of a vocabulary are runs of blanks or signs of about so many."""
_UNCOUNTED = 4 * 1024
_SECONDS_PER_TOKEN = 2.0


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Where a stream is closed, because its server does not end it. event: bytes of one event. characters: of
    the text. uncounted: halves of words that nobody counted. A word has at least one token, and a token, on
    the average, at most two signs or characters of a script without blanks. seconds: after the first token,
    beside one silence of the stall limit."""

    max_tokens: int
    tokens: int
    bytes: int
    event: int
    characters: int
    uncounted: int
    seconds: float

    @classmethod
    def of(cls, max_tokens: int) -> StreamLimits:
        """The limits of a request with this cap."""
        tokens = max_tokens + max(_SLACK_TOKENS, max_tokens // 4)
        return cls(
            max_tokens,
            tokens=tokens,
            bytes=_SLACK_BYTES + max_tokens * _BYTES_PER_TOKEN,
            event=min(_EVENT_BYTES + max_tokens * _EVENT_BYTES_PER_TOKEN, MAX_EVENT),
            characters=_CHARACTERS + max_tokens * _CHARACTERS_PER_TOKEN,
            uncounted=_UNCOUNTED + 2 * tokens,
            seconds=max_tokens * _SECONDS_PER_TOKEN,
        )


class ResponseStream:
    """A stream being read.

    guard: the caller's time limit, postponed by the stall limit whenever events arrive, up to `limits`.
    assembler: converts chunks into tokens. begun: headers have arrived. done: [DONE] has arrived. failure:
    what ended the stream. aborted: the sink ended it. gateway: what the headers tell of who answers.
    first_token: clock seconds. allowed: seconds that the stream may stand still now.
    """

    def __init__(
        self,
        address: EndpointAddress,
        sink: TokenSink,
        guard: asyncio.Timeout,
        stall: StallLimit,
        limits: StreamLimits,
    ) -> None:
        self.assembler = TokenAssembler(most=2 * limits.tokens)
        self.failure: ServiceFailure | None = None
        self.aborted = False
        self.begun = False
        self.done = False
        self.gateway = GatewayAnswer()
        self.first_token: float | None = None
        self._address = address
        self._sink = sink
        self._reader = EventReader(limits.event)
        self._guard = guard
        self._stall = stall
        self._limits = limits
        self._received = 0
        self._armed = 0.0
        self._heard = clock.now()
        self.allowed = stall.seconds

    @property
    def produced(self) -> int:
        """Output tokens so far."""
        return self.assembler.produced

    async def read(self, response: httpx2.Response) -> None:
        """Pass tokens to the sink until the stream ends, fails or is aborted."""
        from stresstest.endpoint.transport import BODY_EXTENSION, DirectBody

        self.begun = True
        self.gateway = gateway_answer(response.headers)
        body = response.extensions[BODY_EXTENSION]
        assert isinstance(body, DirectBody)
        if body.read is not None:
            while data := await body.read():
                if self._take(data):
                    return
        else:
            async with aclosing(body.pieces()) as incoming:
                async for data in incoming:
                    if self._take(data):
                        return
        if self._deliver(self._reader.finish(), clock.now(), final=True):
            return
        if self._reader.foreign and not self.produced:
            self.failure = self._not_an_event_stream(response.headers.get("content-type", ""))

    def close(self) -> None:
        """Pass the buffered text to the sink, unless the stream was aborted."""
        if not self.aborted and (left := self.assembler.flush(clock.now())):
            self._sink(left)

    def determine_failure(self) -> ServiceFailure | None:
        """Why the ended stream was lost; None if it is complete or was aborted by the sink."""
        where = self._address.base_url
        reason = self.assembler.finish_reason
        if reason in ("abort", "error"):
            return ServiceFailure(
                FailureKind.ABORTED_BY_SERVER,
                f"The server at {where} gave the request up (finish reason '{reason}').",
                at_token=self.produced,
            )
        if reason is not None or self.aborted:
            return None  # a failure after the last token does not matter
        if self.failure is not None:
            return self.failure
        how = "ended the stream without a finish reason" if self.done else "closed the stream"
        return ServiceFailure(
            FailureKind.CUT,
            f"The server at {where} {how} after {self.produced} output tokens.",
            at_token=self.produced,
        )

    def _take(self, data: bytes) -> bool:
        """Process the bytes of one read; True to stop reading."""
        at = clock.now()
        self._received += len(data)
        try:
            payloads = self._reader.feed(data)
        except LineTooLongError:
            self.failure = failures.not_a_stream_failure(self._address, b"", at_token=self.produced)
            return True
        if self._received > self._limits.bytes:
            self.failure = failures.endless_stream_failure(self._address, "bytes", at_token=self.produced)
            return True
        if self._deliver(payloads, at):
            return True
        # Comments are not progress.
        return self._postpone(at) if payloads else False

    def _postpone(self, at: float) -> bool:
        """An event has arrived: the next may take the stall limit again. True to stop reading."""
        self._stall.observe(at - self._heard)
        self._heard = at
        if self.assembler.finish_reason is not None:
            # What may still come is a count. Some servers leave the connection open.
            self._guard.reschedule(asyncio.get_running_loop().time() + min(self.allowed, _END_S))
            return False
        # Before the first token the request may still be queued. Rescheduling is expensive, so it happens at
        # most once in a tenth of the limit.
        if self.first_token is None or at - self._armed <= self.allowed / 10:
            return False
        self.allowed = self._stall.seconds
        if at - self.first_token > self._limits.seconds + self.allowed:
            self.failure = failures.endless_stream_failure(self._address, "time", at_token=self.produced)
            return True
        self._armed = at
        self._guard.reschedule(asyncio.get_running_loop().time() + self.allowed * 1.1)
        return False

    def _deliver(self, payloads: Sequence[bytes], at: float, *, final: bool = False) -> bool:
        """Decode events and pass their tokens to the sink; True to stop reading.

        final: the connection has ended, so an event that cannot be decoded is incomplete, not malformed.
        """
        made = self.assembler
        for payload in payloads:
            if payload == b"[DONE]":
                self.done = True
                return True
            try:
                chunk = decode_chunk(payload)
            except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
                if not final:
                    self.failure = self._malformed(payload)
                return True
            if chunk.error is not None or chunk.object == "error":
                self.failure = failures.failure_from_stream_error(
                    chunk, self._address, at_token=made.produced
                )
                return True
            before, ended = made.produced, made.finish_reason is not None
            try:
                tokens = made.add_chunk(chunk, at)
            except TooManyTokensError:
                return self._close_endless()
            except (ValueError, ArithmeticError):
                made.finish_reason = None
                self.failure = self._malformed(payload)
                return True
            if made.characters > self._limits.characters or made.uncounted_size > self._limits.uncounted:
                made.finish_reason = None
                self.failure = failures.endless_stream_failure(self._address, "bytes", at_token=before)
                return True
            if self.first_token is None and (tokens or made.characters):
                self.first_token = at
            if tokens:
                # What follows a finish reason had not finished.
                going_on = ended or made.finish_reason is None
                if self._sink(tokens) and going_on:
                    self.aborted = True
                    return True
                # Chunks without a count may be smaller than tokens: they have limits of their own.
                counted = made.produced - len(made.uncounted_texts)
                if counted > self._limits.tokens and going_on:
                    return self._close_endless()
        return self.failure is not None

    def _close_endless(self) -> bool:
        """The server goes on beyond `max_tokens`. True: to stop reading."""
        made = self.assembler
        made.finish_reason = None
        self.failure = failures.cap_ignored_failure(
            self._address, self._limits.max_tokens, at_token=made.produced
        )
        return True

    def _malformed(self, payload: bytes) -> ServiceFailure:
        # Redact before truncating: a truncated key would not be recognised.
        shown = self._address.redact(payload[:4096].decode("utf-8", "replace"))[:120]
        return ServiceFailure(
            FailureKind.MALFORMED,
            f"The server at {self._address.base_url} sent an event that is not a valid JSON chunk: {shown}",
            at_token=self.produced,
        )

    def _not_an_event_stream(self, content_type: str) -> ServiceFailure:
        """The failure for a 200 response whose body is a JSON error, a web page or other text."""
        beginning = self._reader.foreign
        if "json" in content_type or beginning.lstrip().startswith(b"{"):
            try:
                chunk = decode_chunk(beginning)
            except (ValueError, RecursionError):
                return failures.not_a_stream_failure(self._address, beginning, at_token=0)
            if chunk.error is not None or chunk.object == "error":
                return failures.failure_from_stream_error(chunk, self._address, at_token=0)
        return failures.not_a_stream_failure(self._address, beginning, at_token=0)
