"""Answers on their way to a client: streamed, or collected; with the faults that a scenario gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as Many

from stresstest.simulation.engine.scheduling.sequence import Sequence
from stresstest.simulation.server.chunks import ChoiceStream

HIGH_WATER = 128 * 1024
"""Bytes waiting for a slow client beyond which no more events are made; the tokens wait in the sequence."""
_RETRY = 0.01


class ResponseWriter:
    """What both ways share: done when all sequences are over, or when a fault has cut the answer.

    over: set then. cut: the connection is to be closed without an end. silent: a stall is being acted out.
    """

    def __init__(self, sequences: Many[Sequence]) -> None:
        self.sequences = sequences
        self.over = asyncio.Event()
        self.cut = False
        self._loop = asyncio.get_running_loop()
        self._stalled: set[int] = set()
        self.silent = False

    @property
    def is_full(self) -> bool:
        return False

    def on_token(self) -> None:
        """Collects nothing: a whole answer is made when it is over."""
        if self.silent or self.cut:
            return
        for sequence in self.sequences:
            if self._fault_limit(sequence) is not None:
                self._apply_fault(sequence)
        if not self.cut and not self.silent and all(s.is_done for s in self.sequences):
            self.over.set()

    def on_engine_failure(self) -> None:
        """Close the connection without an end."""
        self.cut = True
        self.over.set()

    def _resume(self) -> None:
        self.silent = False
        self.on_token()

    def _fault_limit(self, sequence: Sequence) -> int | None:
        """The token at which a fault that has been reached and not yet acted out stops the answer."""
        fault = sequence.fault
        if fault is None or sequence.id in self._stalled or len(sequence.output) < fault.at_token:
            return None
        return fault.at_token

    def _apply_fault(self, sequence: Sequence) -> None:
        fault = sequence.fault
        if fault is None:
            return
        self._stalled.add(sequence.id)
        if fault.kind == "stall":
            self.silent = True
            self._loop.call_later(fault.seconds, self._resume)
        else:
            self.on_engine_failure()


class StreamingResponseWriter(ResponseWriter):
    """Writes events straight to the connection: one write a step, never waiting for the client.

    aiohttp's own `write` is a coroutine a chunk; the framing of a chunked body is three bytes of
    arithmetic. The response's headers must have been sent.
    """

    def __init__(self, choices: Many[ChoiceStream], transport: asyncio.Transport, *, chunked: bool) -> None:
        super().__init__([choice.sequence for choice in choices])
        self._choices = choices
        self._transport = transport
        self._chunked = chunked
        self._waiting = False

    @property
    def is_full(self) -> bool:
        return self.silent or self._transport.get_write_buffer_size() > HIGH_WATER

    def on_token(self) -> None:
        """Send what is new, as far as client and faults let it through."""
        if self.cut or self.over.is_set():
            return
        if self._transport.is_closing():
            self.over.set()
            return
        if self.is_full:
            self._again()
            return
        for choice in self._choices:
            limit = self._fault_limit(choice.sequence)
            self._write(choice.events(limit))
            if limit is not None:
                self._apply_fault(choice.sequence)
                return
        if all(choice.closed for choice in self._choices):
            self.over.set()

    def _write(self, data: bytes) -> None:
        if data:
            self._transport.write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def _again(self) -> None:
        if not self._waiting and not self.silent:
            self._waiting = True
            self._loop.call_later(_RETRY, self._retry)

    def _retry(self) -> None:
        self._waiting = False
        self.on_token()
