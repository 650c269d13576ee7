"""What comes back from the wire, and how long we wait for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stresstest.endpoint.assembly import Assembler
from stresstest.model import ServiceFailure, Token

Sink = Callable[[list[Token]], bool]
"""Takes the tokens of one chunk; returns True to have the stream closed."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. connect: TCP and TLS. first: until the first token, queueing included.

    stall: between two events after it. probe: for a question that is no generation.
    """

    connect: float = 10.0
    first: float = 300.0
    stall: float = 60.0
    probe: float = 15.0


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How one stream ended. Times are clock seconds.

    finish_reason: the server's word, None when it gave none. failure: why it was lost, if it was.
    aborted: the sink asked for the end. output_tokens: as counted by `token_source` ("server",
    "tokenize", "tiktoken (estimate)", "chunks"); where that is not "server", token positions are chunks.
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


@dataclass(frozen=True, slots=True)
class Trial:
    """A short generation made to see what a server sends. made: the assembler's record of it."""

    outcome: StreamOutcome
    made: Assembler
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a question that is no generation. The body may quote a key, so it is never shown."""

    status: int
    body: bytes = field(repr=False)
    content_type: str = ""
