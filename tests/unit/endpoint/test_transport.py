"""aiohttp under the SDK: every framing, TLS, proxies, and every way in which they break."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from stresstest.endpoint.client import Endpoint
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, Token
from tests.support.fake_vllm import Events, answer, fake_vllm

REQUEST = GenerationRequest("lab", 8, Decoding(), messages=(Message("user", "Ciao"),))
WORDS = ["Uno", " due", " tre"]
BODY = b"".join(answer(WORDS))
STREAM = b"content-type: text/event-stream\r\n"


@asynccontextmanager
async def raw_server(response: bytes, *, step: int = 0, anything: bool = False) -> AsyncIterator[str]:
    """Serves these bytes to whoever asks, `step` bytes a write, then closes; yields the base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (reader.read(1) if anything else reader.readuntil(b"\r\n\r\n"))
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

    async with Endpoint(url) as endpoint:
        endpoint.can_tokenize = endpoint.can_estimate = False
        outcome = await endpoint.generate(REQUEST, sink)
    return "".join(texts), outcome.failure.kind if outcome.failure else None


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
        (
            b"HTTP/1.1 200 OK\r\n" + STREAM + b"transfer-encoding: chunked\r\n\r\nqq\r\n",
            FailureKind.MALFORMED,
        ),
        (b"HTTP/1.1 200 OK\r\n" + STREAM + b"content-length: 99\r\n\r\ndata: ", FailureKind.CUT),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\nouch", FailureKind.HTTP_ERROR),
    ],
)
async def test_broken_answers_are_failures(response: bytes, kind: FailureKind) -> None:
    """Whatever speaks on that port, the result is a fact and not a traceback."""
    async with raw_server(response) as url:
        assert await text_from(url) == ("", kind)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
async def test_through_a_proxy(env: pytest.MonkeyPatch, name: str) -> None:
    """The environment's proxy is asked, with its password, which the server's key does not replace."""
    async with fake_vllm(Events(answer(WORDS))) as proxy:
        env.setenv(name, proxy.url.removesuffix("/v1").replace("//", "//ann:s3cret@"))
        assert await text_from("http://gpu.invalid/v1") == ("Uno due tre", None)
        asked = proxy.asked[0]
    assert asked.path == "http://gpu.invalid/v1/chat/completions"
    assert asked.headers["proxy-authorization"] == "Basic YW5uOnMzY3JldA=="
    assert asked.headers["authorization"] == "Bearer EMPTY"


async def test_no_proxy_is_obeyed(env: pytest.MonkeyPatch) -> None:
    """A host that the user excepts is reached directly."""
    env.setenv("http_proxy", "http://127.0.0.1:9")
    env.setenv("no_proxy", "127.0.0.1")
    async with fake_vllm(Events(answer(WORDS))) as server:
        assert await text_from(server.url) == ("Uno due tre", None)


@pytest.mark.parametrize("base", ["http://gpu.invalid/v1", "https://gpu.invalid/v1"])
@pytest.mark.parametrize(
    "proxy",
    [
        "http://ann:s3cret@127.0.0.1:9",
        "socks5://ann:s3cret@h",
        "x://ann:s3cret@h",
        "http://ann:s3cret@proxy.invalid:3128",
    ],
)
async def test_a_proxy_that_cannot_be_used(env: pytest.MonkeyPatch, base: str, proxy: str) -> None:
    """The sentence speaks of the proxy, not of the server, and does not show its password."""
    env.setenv("all_proxy", proxy)
    async with Endpoint(base) as endpoint:
        failure = (await endpoint.generate(REQUEST, lambda tokens: False)).failure
    assert failure is not None
    assert failure.kind is FailureKind.REFUSED
    assert failure.message.startswith("The proxy that the environment names")
    assert "s3cret" not in failure.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 of an authority of our own: both.pem; the authority's: both.pem.crt."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    found = tmp_path_factory.mktemp("tls") / "both.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(found))
    authority.cert_pem.write_to_path(f"{found}.crt")
    return found


def server_side(certificate: Path) -> ssl.SSLContext:
    """The server's half of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_over_tls(env: pytest.MonkeyPatch, certificate: Path) -> None:
    """With a trusted certificate https is the same path; an abort reaches the server there as well."""
    env.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    endless = Events(answer(["a"] * 2000, finish=None), pause=0.002)
    async with fake_vllm(Events(answer(WORDS)), tls=server_side(certificate)) as server:
        assert await text_from(server.url) == ("Uno due tre", None)
        server.script = endless
        async with Endpoint(server.url) as endpoint:
            outcome = await endpoint.generate(REQUEST, lambda tokens: True)
            await server.until(lambda: server.hung_up == 1 and server.open == 0)
    assert outcome.aborted


async def test_a_certificate_that_is_not_trusted(env: pytest.MonkeyPatch, certificate: Path) -> None:
    """One sentence with the reason."""
    async with fake_vllm(Events(answer(WORDS)), tls=server_side(certificate)) as server:
        async with Endpoint(server.url) as endpoint:
            failure = (await endpoint.generate(REQUEST, lambda tokens: False)).failure
        assert failure is not None
        assert failure.kind is FailureKind.REFUSED
        assert failure.message.startswith(f"No secure connection to {server.url}: ")
        assert "certificate" in failure.message


async def test_tls_where_there_is_none(env: pytest.MonkeyPatch) -> None:
    """https:// for a server that speaks plain HTTP is told as such, in one sentence."""
    plain = raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", anything=True)
    async with plain as url, Endpoint(url.replace("http:", "https:")) as endpoint:
        failure = (await endpoint.generate(REQUEST, lambda tokens: False)).failure
    assert failure is not None
    assert failure.message.startswith("No secure connection to https://127.0.0.1")


async def test_a_handshake_that_is_hung_up_on(env: pytest.MonkeyPatch) -> None:
    """A connection closed within the TLS handshake was not refused: the server is there."""
    async with raw_server(b"", anything=True) as url, Endpoint(url.replace("http:", "https:")) as endpoint:
        failure = (await endpoint.generate(REQUEST, lambda tokens: False)).failure
    assert failure is not None
    assert failure.message.endswith("closed the connection while it was being made. Does it speak https?")


@pytest.mark.parametrize("host", ["gpu.invalid", "a..b", "a" * 64])
async def test_an_unknown_host(env: pytest.MonkeyPatch, host: str) -> None:
    """A failing name lookup is told as one, also of what is no name at all."""
    async with Endpoint(f"http://{host}/v1") as endpoint:
        failure = (await endpoint.generate(REQUEST, lambda tokens: False)).failure
    assert failure is not None
    assert failure.message == f"The host of http://{host}/v1 is not known (name lookup failed)."


async def test_what_comes_in_one_read_with_the_head_survives_the_cut() -> None:
    """Head, tokens and the end in one write: aiohttp must not drop what it had before the error."""
    body = b"".join(answer(WORDS, finish=None, done=False)[:3])
    head = b"HTTP/1.1 200 OK\r\n" + STREAM + b"content-length: 99999\r\n\r\n"
    async with raw_server(head + body) as url:
        assert await text_from(url) == ("Uno due", FailureKind.CUT)


async def test_every_request_has_its_own_connection_and_none_is_left() -> None:
    """No request may fail because an idle connection had just been closed; closing leaves nothing open."""
    async with fake_vllm(Events(answer(WORDS))) as server:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                async with Endpoint(server.url) as endpoint:
                    for _ in range(2):
                        await endpoint.query("/models")
                        await endpoint.generate(REQUEST, lambda tokens: False)
                del endpoint
                gc.collect()
        assert all(asked.headers["connection"] == "close" for asked in server.asked)
        async with asyncio.timeout(60):
            while server.connections:
                await asyncio.sleep(0.01)
