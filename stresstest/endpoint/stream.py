"""Reading one stream to its end: bytes to events to tokens to the sink, and what stopped it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from stresstest import clock
from stresstest.endpoint import failures
from stresstest.endpoint.address import Address
from stresstest.endpoint.assembly import Assembler
from stresstest.endpoint.outcome import Sink
from stresstest.endpoint.wire import EventReader, LineTooLongError, decode_chunk
from stresstest.model import FailureKind, ServiceFailure

if TYPE_CHECKING:
    import httpx2


class Stream:
    """One stream while it runs. `guard` is the caller's time limit; every progress moves it by `stall` s.

    made: its tokens and the server's words. begun: headers arrived. done: [DONE] arrived. failure: what
    stopped it. aborted: the sink did. first_token: clock seconds.
    """

    def __init__(self, address: Address, sink: Sink, guard: asyncio.Timeout, stall: float) -> None:
        self.made = Assembler()
        self.failure: ServiceFailure | None = None
        self.aborted = False
        self.begun = False
        self.done = False
        self.first_token: float | None = None
        self._address = address
        self._sink = sink
        self._reader = EventReader()
        self._guard = guard
        self._stall = stall
        self._armed = 0.0

    @property
    def produced(self) -> int:
        """Tokens so far."""
        return self.made.produced

    async def read(self, response: httpx2.Response) -> None:
        """Feed the sink until the stream ends, fails or is aborted."""
        from stresstest.endpoint.transport import BODY, DirectBody

        self.begun = True
        body = response.extensions.get(BODY)
        if isinstance(body, DirectBody) and "content-encoding" not in response.headers:
            while data := await body.read():
                if self._take(data):
                    return
        else:
            async with aclosing(response.aiter_bytes()) as incoming:
                async for data in incoming:
                    if self._take(data):
                        return
        if self._deliver(self._reader.finish(), clock.now(), final=True):
            return
        if self._reader.foreign and not self.produced:
            self.failure = self._foreign(response.headers.get("content-type", ""))

    def close(self) -> None:
        """Hand over the text that no token has claimed; text is never lost, but for what follows an abort."""
        if not self.aborted and (left := self.made.flush(clock.now())):
            self._sink(left)

    def judge(self) -> ServiceFailure | None:
        """Why this stream is lost, now that it has ended; None when it is whole or was aborted by us."""
        where = self._address.base_url
        reason = self.made.finish_reason
        if reason in ("abort", "error"):
            return ServiceFailure(
                FailureKind.ABORTED_BY_SERVER,
                f"The server at {where} gave the request up (finish reason '{reason}').",
                at_token=self.produced,
            )
        if reason is not None or self.aborted:
            return None  # whatever broke after the last token cost nothing
        if self.failure is not None:
            return self.failure
        how = "ended the stream without a finish reason" if self.done else "closed the stream"
        return ServiceFailure(
            FailureKind.CUT,
            f"The server at {where} {how} after {self.produced} output tokens.",
            at_token=self.produced,
        )

    def _take(self, data: bytes) -> bool:
        """One read; True when nothing more is to be read."""
        at = clock.now()
        try:
            payloads = self._reader.feed(data)
        except LineTooLongError:
            self.failure = failures.not_a_stream(self._address, b"", at_token=self.produced)
            return True
        if self._deliver(payloads, at):
            return True
        # Comments are no progress, and before the first token the request may still queue.
        # Moving the alarm costs; a tenth of its length is exact enough.
        if payloads and self.first_token is not None and at - self._armed > self._stall / 10:
            self._armed = at
            self._guard.reschedule(asyncio.get_running_loop().time() + self._stall * 1.1)
        return False

    def _deliver(self, payloads: Sequence[bytes], at: float, *, final: bool = False) -> bool:
        """Decode events and hand their tokens over; True when nothing more is to be read.

        final: the connection has ended, so an event that does not decode was cut; `judge` tells that.
        """
        made = self.made
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
                self.failure = failures.from_stream_error(chunk, self._address, at_token=made.produced)
                return True
            try:
                tokens = made.take(chunk, at)
            except (ValueError, ArithmeticError):
                made.finish_reason = None
                self.failure = self._malformed(payload)
                return True
            if tokens:
                if self.first_token is None:
                    self.first_token = at
                if self._sink(tokens) and made.finish_reason is None:
                    self.aborted = True
                    return True
        return self.failure is not None

    def _malformed(self, payload: bytes) -> ServiceFailure:
        # Redact before cutting: half a key would no longer be recognised.
        shown = self._address.clean(payload[:4096].decode("utf-8", "replace"))[:120]
        return ServiceFailure(
            FailureKind.MALFORMED,
            f"The server at {self._address.base_url} sent an event that is no valid JSON chunk: {shown}",
            at_token=self.produced,
        )

    def _foreign(self, content_type: str) -> ServiceFailure:
        """A 200 whose body is no event stream: a JSON error after all, or a web page."""
        beginning = self._reader.foreign
        if "json" in content_type or beginning.lstrip().startswith(b"{"):
            try:
                chunk = decode_chunk(beginning)
            except (ValueError, RecursionError):
                return failures.not_a_stream(self._address, beginning, at_token=0)
            if chunk.error is not None or chunk.object == "error":
                return failures.from_stream_error(chunk, self._address, at_token=0)
        return failures.not_a_stream(self._address, beginning, at_token=0)
