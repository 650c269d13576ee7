"""Results of requests, and the time limits on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stresstest.endpoint.assembly import TokenAssembler
from stresstest.model import ServiceFailure, Token

TokenSink = Callable[[list[Token]], bool]
"""Receives the tokens of one chunk; returns True to abort the stream."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds. connect: TCP and TLS. first: until the first token, queueing included.

    stall: between two events after the first token; longer on a server that has shown longer silences, unless
    it is fixed (`StallLimit`). probe: for a request that is not a generation.
    """

    connect: float = 10.0
    first: float = 300.0
    stall: float = 300.0
    probe: float = 15.0
    fixed: bool = False

    def with_stall(self, seconds: float) -> Timeouts:
        """The user's own stall limit, which does not follow the server. A first token may take as long."""
        return replace(self, stall=seconds, first=max(self.first, seconds), fixed=True)


class StallLimit:
    """How long a stream may stand still: it follows the silences that its server has ended by itself.

    A silence that was only long, not the last, is no stall; a starved server shows many such before one
    exceeds `PATIENCE` times the longest. The limit is at least `Timeouts.stall` and at most
    `LONGEST` seconds.

    longest: seconds of the longest silence before an event so far, the waits for first tokens included.
    """

    PATIENCE = 4.0
    LONGEST = 1200.0

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self.longest = 0.0

    @property
    def seconds(self) -> float:
        """The limit now."""
        least = self._timeouts.stall
        if self._timeouts.fixed:
            return least
        return max(least, min(self.PATIENCE * self.longest, self.LONGEST))

    def observe(self, silence: float) -> None:
        """An event has arrived after so many seconds without one."""
        self.longest = max(self.longest, silence)


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How one stream ended. Times are clock seconds.

    finish_reason, stop_reason: from the server, None if it sent none; an end of the model's own and the cap
    in vLLM's words. failure: why the stream was lost.
    aborted: the sink ended the stream. output_tokens: as counted by `token_source` ("server", "tokenize",
    "tiktoken (estimate)", "words"); unless that is "server", token positions are counted in words.
    answered_by: the model that the stream itself names. reasoning_tokens: by the server's count. answer_id,
    created: the stream's own name and Unix time. fingerprint: the `system_fingerprint` of the stream;
    behind a gateway that names the `provider`, that name.
    event_ends: characters of the text after each event that brought some, where tokens were not counted.
    gateway_retries: attempts of a gateway's own before this answer, none of which was shown.
    """

    finish_reason: str | None
    failure: ServiceFailure | None
    aborted: bool
    prompt_tokens: int | None
    output_tokens: int
    token_source: str
    started: float
    first_token: float | None
    ended: float
    stop_reason: int | str | None = None
    answered_by: str | None = None
    reasoning_tokens: int | None = None
    answer_id: str | None = None
    created: int | None = None
    fingerprint: str | None = None
    event_ends: Sequence[int] = ()
    gateway_retries: int = 0


@dataclass(frozen=True, slots=True)
class TrialGeneration:
    """A short generation that shows what a server sends. assembler: holds what it sent besides tokens."""

    outcome: StreamOutcome
    assembler: TokenAssembler
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The reply to a request that is not a generation. The repr omits the body, which may quote a key."""

    status: int
    body: bytes = field(repr=False)
    content_type: str = ""
