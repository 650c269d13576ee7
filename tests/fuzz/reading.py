"""Reads a byte stream as the product does, without a network, and checks what must hold for every one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import httpx2

from stresstest.endpoint import counting
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import StallLimit, Timeouts
from stresstest.endpoint.stream import ResponseStream, StreamLimits
from stresstest.endpoint.transport import BODY_EXTENSION, DirectBody
from stresstest.endpoint.wire import decode_chunk, split_parts
from stresstest.model import ServiceFailure, Token

URL = "http://127.0.0.1:9/v1"
LIMIT = 64
_ADDRESS = EndpointAddress.parse(URL, None)
_REQUEST = httpx2.Request("POST", URL)


class _Content:
    """What aiohttp hands over: these reads, then the end."""

    def __init__(self, reads: Sequence[bytes]) -> None:
        self._reads = iter([read for read in reads if read])

    async def readany(self) -> bytes:
        return next(self._reads, b"")


class _Response:
    def __init__(self, reads: Sequence[bytes]) -> None:
        self.content = _Content(reads)
        self.headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Read:
    """How a stream ended. count, source: the outcome's. stream: the product's object, closed."""

    tokens: tuple[Token, ...]
    failure: ServiceFailure | None
    count: int
    source: str
    stream: ResponseStream

    @property
    def facts(self) -> tuple[object, ...]:
        """Everything but the times: how the network cut the bytes must not show in it."""
        tokens = [(t.text, t.id, t.logprob, t.entropy, t.reasoning) for t in self.tokens]
        made = self.stream.assembler
        return tokens, self.failure, self.count, self.source, made.finish_reason, made.prompt_tokens


def endpoint() -> Endpoint:
    """An endpoint that can count nothing by asking."""
    found = Endpoint(URL)
    found.can_tokenize = found.can_estimate = False
    return found


async def read(reads: Sequence[bytes], asked: Endpoint, *, stop_at: int | None = None) -> Read:
    """One stream through `ResponseStream`, its count settled. stop_at: abort after that many tokens."""
    tokens: list[Token] = []

    def sink(arrived: list[Token]) -> bool:
        tokens.extend(arrived)
        return stop_at is not None and len(tokens) >= stop_at

    body = DirectBody(_Response(reads), _REQUEST)  # type: ignore[arg-type]
    response = httpx2.Response(200, stream=body, extensions={BODY_EXTENSION: body})
    async with asyncio.timeout(60) as guard:
        stream = ResponseStream(_ADDRESS, sink, guard, StallLimit(Timeouts()), StreamLimits.of(LIMIT))
        await stream.read(response)
        stream.close()
        failure = stream.determine_failure()
        count, source = await counting.resolve_token_count(
            asked, stream.assembler, limit=LIMIT, alive=failure is None
        )
    return Read(tuple(tokens), failure, count, source, stream)


def check(found: Read, stream: bytes) -> None:
    """What holds for every byte stream. Raises AssertionError."""
    made, failure = found.stream.assembler, found.failure
    assert made.produced == len(found.tokens), "tokens counted are not the tokens given"
    assert failure is not None or made.finish_reason is not None or found.stream.aborted, "no outcome"
    if failure is not None:
        assert 0 <= failure.at_token <= made.produced
        assert failure.message.isprintable()
        assert len(failure.message) < 500
    assert 0 <= found.count <= max(LIMIT, made.produced, 64, 8 * made.characters)
    assert found.source in {counting.SERVER, counting.TOTAL_SOURCE, counting.WORDS}
    for token in found.tokens:
        assert token.id is None or 0 <= token.id < 2**31
        assert token.logprob is None or (isfinite(token.logprob) and token.logprob < 0.01)
        assert token.entropy is None or (isfinite(token.entropy) and token.entropy >= 0)
    if not found.stream.aborted:
        _no_text_lost(found, stream)


def _no_text_lost(found: Read, stream: bytes) -> None:
    """The tokens' texts are the streamed text: all of it, and nothing else.

    An event whose numbers could not be worked with is the one thing that may be missing, and the last.
    """
    texts = _streamed(stream)
    given = Counter("".join(token.text for token in found.tokens))
    if given != Counter("".join(texts)):
        assert found.failure is not None
        assert given == Counter("".join(texts[:-1])), "text was lost"


def _streamed(stream: bytes) -> list[str]:
    """The text of each readable event up to the first that ends a stream, by a reader of its own."""
    texts: list[str] = []
    for payload in _payloads(stream):
        if payload == b"[DONE]":
            break
        try:
            chunk = decode_chunk(payload)
        except (ValueError, RecursionError):
            break
        if chunk.error is not None or chunk.object == "error":
            break
        choice = next((c for c in (chunk.choices or ()) if c.index == 0), None)
        if choice is not None:
            delta = choice.delta
            thought = (delta.reasoning or delta.reasoning_content or "") if delta else ""
            content = delta.content if delta else None
            if isinstance(content, list):
                thought, content = split_parts(content)
            texts.append(thought + (content or choice.text or ""))
    return texts


def _payloads(stream: bytes) -> list[bytes]:
    found: list[bytes] = []
    event: list[bytes] = []
    for line in [*stream.split(b"\n"), b""]:
        bare = line.removesuffix(b"\r")
        if bare.startswith(b"data:"):
            event.append(bare[5:].removeprefix(b" "))
        elif not bare and event:
            found.append(b"\n".join(event))
            event = []
    return found
