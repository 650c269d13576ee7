"""What a hostile or broken server can make the client read is limited in bytes, tokens and time."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from stresstest.endpoint.assembly import TokenAssembler
from stresstest.endpoint.capabilities import fetch_served_models
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import count_text, prompt_ids
from stresstest.endpoint.failures import failure_from_status
from stresstest.endpoint.outcome import HttpReply, StreamOutcome, Timeouts
from stresstest.endpoint.stream import StreamLimits
from stresstest.endpoint.wire import MAX_EVENT
from stresstest.http_limits import MAX_ERROR_BYTES
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, ServiceFailure, Token
from tests.support.fake_vllm import Events, Page, chunk, fake_vllm, sse
from tests.support.steady_clock import steady_clock

REQUEST = GenerationRequest("lab", 8, Decoding(), messages=(Message("user", "Ciao"),))
BOMB = gzip.compress(b"\0" * (300 << 20), 9)
"""300 KB that expand to 300 MB."""


async def generated(parts: Sequence[bytes], *, pause: float = 0.0, stall: float = 60.0) -> StreamOutcome:
    """The outcome of one generation of at most 8 tokens from a server that streams `parts`."""
    limits = Timeouts(stall=stall)
    async with (
        fake_vllm(Events(parts, pause=pause)) as server,
        Endpoint(server.url, timeouts=limits) as endpoint,
    ):
        endpoint.can_tokenize = endpoint.can_estimate = False
        with steady_clock():
            return await endpoint.generate(REQUEST, lambda _tokens: False)


async def queried(**pages: Page) -> HttpReply | ServiceFailure:
    """The reply to GET /v1/models from a server with these pages below /v1."""
    async with fake_vllm(Page(status=404)) as server, Endpoint(server.url) as endpoint:
        server.pages.update({f"/v1/{path}": page for path, page in pages.items()})
        return await endpoint.query("/models")


def tokens(n: int) -> list[bytes]:
    return sse(*(chunk(f" parola{i}", ids=[i]) for i in range(n)))


def test_a_server_that_ignores_max_tokens_is_closed_and_named() -> None:
    """It would stream for ever; that it ignores caps is evidence, and the failure says so."""
    outcome = asyncio.run(generated(tokens(500)))
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.CAP_IGNORED
    assert outcome.failure.at_token == StreamLimits.of(8).tokens + 1
    assert (
        "ignores max_tokens: it had sent 73 output tokens where 8 were the limit" in outcome.failure.message
    )


@pytest.mark.parametrize("counted_by", ["ids", "logprobs", "usage"])
def test_an_event_of_more_tokens_than_the_cap_is_not_turned_into_tokens(counted_by: str) -> None:
    """One event of 12 MB became three million tokens, 5 GB, and minutes in which nothing stopped the run."""
    n = 100_000
    event = chunk("a " * n, ids=list(range(n)) if counted_by == "ids" else None)
    if counted_by == "logprobs":
        event["choices"][0]["logprobs"] = {"content": [{} for _ in range(n)]}
    if counted_by == "usage":
        event["usage"] = {"prompt_tokens": 5, "completion_tokens": n}
    outcome = asyncio.run(generated([*tokens(3), *sse(event)]))
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.at_token) == (FailureKind.CAP_IGNORED, 3)


def test_a_finish_reason_in_every_chunk_ends_nothing() -> None:
    """It switched off the limit, and with it the abort of a loop."""
    outcome = asyncio.run(generated(sse(*(chunk(f" {i}", ids=[i], finish="length") for i in range(500)))))
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.CAP_IGNORED
    assert outcome.failure.at_token == StreamLimits.of(8).tokens + 1


def test_text_that_nobody_counts_has_a_limit() -> None:
    """Chunks of a megabyte without a count are tokens of a megabyte: eight streams of them took gigabytes."""
    outcome = asyncio.run(generated(sse(*(chunk("word " * 20_000) for _ in range(20)))))
    assert outcome.failure is not None
    assert "far more than max_tokens tokens can hold" in outcome.failure.message
    assert outcome.failure.at_token == 0


@pytest.mark.parametrize("size", [50, 20_000], ids=["short events", "long events"])
@pytest.mark.parametrize("text", ["字典水火", "!?;.", " one two"], ids=["Chinese", "signs", "words"])
def test_words_that_nobody_counts_have_a_limit(text: str, size: int) -> None:
    """128 signs a token were allowed, and each takes up to 1 KB in detectors and lists: eight streams of a
    server that ignores max_tokens took gigabytes."""
    request = replace(REQUEST, max_tokens=1000)
    arrived: list[Token] = []

    def sink(tokens: Sequence[Token]) -> bool:
        arrived.extend(tokens)
        return False

    async def steps() -> StreamOutcome:
        event = sse(chunk(text * (size // len(text))))[0]
        async with fake_vllm(Events([event] * (60_000 // size))) as server, Endpoint(server.url) as endpoint:
            endpoint.can_tokenize = endpoint.can_estimate = False
            return await endpoint.generate(request, sink)

    outcome = asyncio.run(steps())
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.CAP_IGNORED
    limit = StreamLimits.of(1000).uncounted
    assert len(arrived) <= (limit // 2 if "one" in text else limit) + 1 < 9000  # one is held until the end


@pytest.mark.parametrize(
    "token",
    [
        " gelegen",
        " a",
        "字",
        "时候",
        "ที",
        '":',
        "    ",
        ");",
        " Donaudampfschifffahrtskapitän",
        "--",
        " 123",
    ],
)
def test_an_answer_of_max_tokens_that_nobody_counts_is_whole(token: str) -> None:
    """Tokens of real vocabularies, up to the cap and a little beyond it."""
    n = 16_384
    made = TokenAssembler()
    for at in range(0, n + 64, 64):
        made.add_uncounted("", token * 64, float(at))
    made.flush(1.0)
    limits = StreamLimits.of(n)
    assert "".join(made.uncounted_texts) == token * (n + 64)
    assert made.characters <= limits.characters
    assert 0 < made.uncounted_size <= limits.uncounted


def test_an_event_of_many_megabytes_is_no_event() -> None:
    """Its limit follows from the cap, as a whole answer may come in one event."""
    outcome = asyncio.run(generated(sse({"padding": "x" * 2 * StreamLimits.of(8).event})))
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.MALFORMED
    assert StreamLimits.of(100_000).event == MAX_EVENT


def test_a_few_tokens_above_the_cap_that_end_in_order_are_an_answer() -> None:
    """Servers count specials differently; only what is far beyond the cap is a failure."""
    parts = [*tokens(20), *sse(chunk("", ids=[], finish="length"))]
    outcome = asyncio.run(generated(parts))
    assert outcome.failure is None
    assert outcome.finish_reason == "length"


def test_a_stream_of_empty_events_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events without tokens postpone the stall limit, but not for ever."""
    monkeypatch.setattr("stresstest.endpoint.stream._SECONDS_PER_TOKEN", 0.01)
    parts = [*tokens(1), *(part for _ in range(400) for part in sse(chunk("")))]
    outcome = asyncio.run(generated(parts, pause=0.005, stall=0.2))
    assert outcome.failure is not None
    assert "did not end it in time" in outcome.failure.message


def test_a_stream_with_far_too_many_bytes_is_closed() -> None:
    """A megabyte a token, from a server that never ends the stream."""
    padding = "x" * (1 << 20)
    parts = [*tokens(1), *(sse({**chunk(""), "padding": padding})[0] for _ in range(40))]
    outcome = asyncio.run(generated(parts))
    assert outcome.failure is not None
    assert "far more than max_tokens tokens can hold" in outcome.failure.message


def test_an_event_that_never_ends_is_no_event_stream() -> None:
    """Lines without the blank line that ends an event were collected without a limit."""
    outcome = asyncio.run(generated([b"data: " + b"x" * (1 << 20) + b"\n"] * 20))
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("status", [200, 500])
def test_a_compressed_bomb_is_not_expanded(status: int) -> None:
    """2 MB of gzip became 4.2 GB: a reply is decompressed in pieces, up to its limit."""
    bomb = Page(BOMB, status, headers={"content-encoding": "gzip"})
    tracemalloc.start()
    try:
        reply = asyncio.run(queried(models=bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if status == 200:
        assert isinstance(reply, ServiceFailure)
        assert "cannot be decompressed or is too large" in reply.message
    else:  # of an error, the beginning is read
        assert isinstance(reply, HttpReply)
        assert reply.body == b"\0" * (MAX_ERROR_BYTES + 1)
    assert peak < 200 << 20


@pytest.mark.parametrize("path", ["version", "tokenize", "v1/chat/completions"])
def test_a_reply_is_not_built_of_what_nobody_asked_for(path: str) -> None:
    """60 KB of gzip, 60 MB of JSON, took 1.6 GB as Python objects; an error that much for every request."""
    packed = gzip.compress(b'{"version":"1","count":1,"x":[' + b"[]," * 1_000_000 + b"1]}", 1)
    status = 500 if "chat" in path else 200

    async def steps() -> None:
        async with fake_vllm(Page(status=404)) as server, Endpoint(server.url, model="m") as endpoint:
            server.pages[f"/{path}"] = Page(packed, status, headers={"content-encoding": "gzip"})
            server.pages["/v1/models"] = Page(b'{"data":[]}')
            if path == "version":
                assert (await fetch_served_models(endpoint)) == ([], False)
            elif path == "tokenize":
                assert await count_text(endpoint, "a") == 1
            else:
                failure = (await endpoint.generate(REQUEST, lambda _tokens: False)).failure
                assert failure is not None
                assert failure.status == 500

    tracemalloc.start()
    try:
        asyncio.run(steps())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


async def test_more_token_ids_than_a_prompt_can_have_are_none() -> None:
    """Eight million ids of a prompt of four letters were kept, and copied into every task: gigabytes."""
    ask = [Message("user", "Ciao")]
    async with fake_vllm(Page(status=404)) as server, Endpoint(server.url) as endpoint:

        async def ids(number: int, prompt: str | list[Message], context: int | None = None) -> int | None:
            server.pages["/tokenize"] = Page(b'{"tokens":[' + b",".join([b"7"] * number) + b"]}")
            found = await prompt_ids(endpoint, prompt, context=context)
            return None if found is None else len(found)

        assert await ids(1000, ask) == await ids(1000, ask, 1000) == 1000
        assert await ids(1001, ask, 1000) is None
        assert await ids(20_000, ask) is await ids(20_000, ask, 2**31 - 1) is None
        assert await ids(20_000, "字" * 10_000) == 20_000  # a byte-level token has a byte
        assert await ids(0, ask) is None
        server.pages["/tokenize"] = Page(b'{"tokens":[1,-2]}')
        assert await prompt_ids(endpoint, ask) is None
        server.pages["/tokenize"] = Page(b'{"tokens":["a"]}')
        assert await prompt_ids(endpoint, ask) is None


def test_an_encoding_that_was_not_requested_is_a_sentence() -> None:
    """Brotli and others are neither requested nor read."""
    reply = asyncio.run(queried(models=Page(b"\x1b\x00", headers={"content-encoding": "br"})))
    assert isinstance(reply, ServiceFailure)
    assert reply.kind is FailureKind.MALFORMED


def test_a_compressed_reply_is_read() -> None:
    """Some gateways compress what nobody asked them to compress."""
    packed = Page(gzip.compress(b'{"a":1}'), headers={"content-encoding": "gzip"})
    found = asyncio.run(queried(models=packed))
    assert isinstance(found, HttpReply)
    assert found.body == b'{"a":1}'


@pytest.mark.parametrize("location", ["http://192.0.2.1/v1/models", "https://127.0.0.1:1/v1/models"])
def test_a_redirect_to_another_server_is_refused(location: str) -> None:
    """Prompts and keys go to the server that the user named, and to no other."""
    reply = asyncio.run(queried(models=Page(status=307, headers={"location": location})))
    assert isinstance(reply, ServiceFailure)
    assert "it is not followed" in reply.message


def test_a_redirect_within_the_server_is_followed() -> None:
    """A gateway may add a slash or a prefix."""
    moved = Page(status=307, headers={"location": "/v1/listing"})
    found = asyncio.run(queried(models=moved, listing=Page(b'{"data": []}')))
    assert isinstance(found, HttpReply)
    assert found.body == b'{"data": []}'


def test_an_error_page_of_opening_brackets_takes_linear_time() -> None:
    """65,536 of them held the event loop for three seconds; a hundred times the prose page is the limit."""

    def seconds(body: bytes) -> float:
        address = Endpoint("http://127.0.0.1:9/v1").address
        began = time.process_time()
        for _ in range(5):
            failure_from_status(500, body, address)
        return time.process_time() - began

    assert seconds(b"<" * 65536) < 100 * max(seconds(b"word " * 13107), 0.001)
