"""The short way over the socket gives the same bytes as the long one, however HTTP frames them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.endpoint.client import Endpoint, Timeouts
from stresstest.endpoint.transport import Framing, applies_to
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, Token
from tests.fake_vllm import Events, answer, fake_vllm

REQUEST = GenerationRequest("lab", 8, Decoding(), messages=(Message("user", "Ciao"),))
WORDS = ["Uno", " due", " tre"]
BODY = b"".join(answer(WORDS))
STREAM = b"content-type: text/event-stream\r\n"


@asynccontextmanager
async def raw_server(response: bytes, *, step: int = 0) -> AsyncIterator[str]:
    """Serves these bytes to whoever asks, `step` bytes a write, then closes; yields the base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = step or max(1, len(response))
        for at in range(0, len(response), size):
            writer.write(response[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def text_from(url: str) -> tuple[str, FailureKind | None]:
    """(text, failure) of one generation."""
    texts: list[str] = []

    def sink(tokens: list[Token]) -> bool:
        texts.extend(token.text for token in tokens)
        return False

    async with Endpoint(url, timeouts=Timeouts(connect=2, first=2, stall=2, probe=2)) as endpoint:
        endpoint.can_tokenize = endpoint.can_estimate = False
        outcome = await endpoint.generate(REQUEST, sink)
    return "".join(texts), outcome.failure.kind if outcome.failure else None


def chunked(body: bytes, size: int) -> bytes:
    """`body` in HTTP chunks of `size` bytes, with an extension and a trailer as the grammar allows."""
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%X;x=y\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\nx-end: 1\r\n\r\n"


@given(
    body=st.binary(max_size=60),
    size=st.integers(1, 30),
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=5),
)
def test_chunks_come_off_whatever_the_reads(body: bytes, size: int, cuts: list[int]) -> None:
    """Chunk sizes and reads may end anywhere; the body is what was framed, and its end is known."""
    framing, sent, found, at, turn = (
        Framing(200, {"transfer-encoding": "chunked"}),
        chunked(body, size),
        b"",
        0,
        0,
    )
    while at < len(sent):
        step = cuts[turn % len(cuts)]
        found += framing.feed(sent[at : at + step])
        at, turn = at + step, turn + 1
    assert found == body
    assert framing.ended


def test_broken_chunk_framing_is_an_error() -> None:
    """A chunk size that is no number is not taken for text."""
    with pytest.raises(ValueError, match="invalid literal"):
        Framing(200, {"transfer-encoding": "chunked"}).feed(b"zz\r\nhello\r\n")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + STREAM + b"content-length: %d\r\n\r\n" % len(BODY),
        b"HTTP/1.1 200 OK\r\n" + STREAM + b"\r\n",
        b"HTTP/1.0 200 OK\r\n" + STREAM + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + STREAM + b"\r\n",
    ],
    ids=["length", "until close", "HTTP/1.0", "after 100"],
)
@pytest.mark.parametrize("step", [0, 11])
async def test_bodies_of_every_framing(head: bytes, step: int) -> None:
    """With a length, or to the end of the connection, in one read or in many."""
    async with raw_server(head + BODY, step=step) as url:
        assert await text_from(url) == ("Uno due tre", None)


async def test_a_compressed_stream() -> None:
    """A proxy that compresses is read as well, by the long way."""
    packed = gzip.compress(BODY)
    head = b"HTTP/1.1 200 OK\r\n" + STREAM + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    async with raw_server(head % len(packed) + packed) as url:
        assert await text_from(url) == ("Uno due tre", None)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (b"", FailureKind.CUT),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", FailureKind.MALFORMED),
        (b"HTTP/1.1 200 OK\r\n" + STREAM + b"transfer-encoding: chunked\r\n\r\nqq\r\n", FailureKind.CUT),
        (b"HTTP/1.1 200 OK\r\n" + STREAM + b"content-length: 99\r\n\r\ndata: ", FailureKind.CUT),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\nouch", FailureKind.HTTP_ERROR),
    ],
)
async def test_broken_answers_are_failures(response: bytes, kind: FailureKind) -> None:
    """Whatever speaks on that port, the result is a fact and not a traceback."""
    async with raw_server(response) as url:
        assert await text_from(url) == ("", kind)


async def test_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proxy in the environment the SDK's own transport is used, and the result is the same."""
    async with fake_vllm(Events(answer(WORDS))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert await text_from("http://gpu.invalid/v1") == ("Uno due tre", None)
        assert proxy.asked[0].path == "http://gpu.invalid/v1/chat/completions"


def test_where_the_short_way_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never past a proxy that the user has set, never for TLS."""
    for name in ("http_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert applies_to("http://localhost:8000/v1")
    assert not applies_to("https://localhost:8000/v1")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert not applies_to("http://gpu:8000/v1")
    monkeypatch.setenv("no_proxy", "gpu")
    assert applies_to("http://gpu:8000/v1")
