"""Failures on the wire: the right kind, a sentence that a user understands, and never a credential."""

from __future__ import annotations

import asyncio
import os
import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stresstest.endpoint import failures
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.failures import endpoint_error
from stresstest.errors import EndpointError, ExitCode, UsageError
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, ServiceFailure
from tests.support.deaf_port import deaf_port
from tests.support.fake_vllm import Answer, Events, Page, fake_vllm, page, sse
from tests.support.paths import PACKAGE

KEY = "sk-Gq7-very-secret"
REQUEST = GenerationRequest("lab", 8, Decoding(), messages=(Message("user", "Ciao"),))


async def fail(reply: Answer, request: GenerationRequest = REQUEST, key: str | None = None) -> ServiceFailure:
    """The failure that one answer makes."""
    async with fake_vllm(reply) as server, Endpoint(server.url, api_key=key) as endpoint:
        endpoint.can_estimate = False
        outcome = await endpoint.generate(request, lambda tokens: False)
    assert outcome.failure is not None
    return outcome.failure


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.BAD_REQUEST),
        (401, FailureKind.UNAUTHORIZED),
        (403, FailureKind.UNAUTHORIZED),
        (404, FailureKind.NOT_FOUND),
        (408, FailureKind.TIMEOUT),
        (422, FailureKind.BAD_REQUEST),
        (429, FailureKind.RATE_LIMITED),
        (500, FailureKind.HTTP_ERROR),
        (503, FailureKind.HTTP_ERROR),
    ],
)
async def test_status_to_kind(status: int, kind: FailureKind) -> None:
    """Each status becomes its kind, with the status and the server's reason in the sentence."""
    failure = await fail(page({"error": {"message": "because of reasons"}}, status))
    assert (failure.kind, failure.status) == (kind, status)
    if kind is FailureKind.UNAUTHORIZED:
        assert "Set --api-key or OPENAI_API_KEY" in failure.message
    else:
        assert "because of reasons" in failure.message


@pytest.mark.parametrize(
    ("status", "detail", "hint"),
    [
        (422, {"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}, "--no-seed"),
        (400, "top_logprobs is not supported by this model", "--no-logprobs"),
        (422, {"loc": ["body", "seeds_of_doubt"], "msg": "unknown"}, None),
        (404, "no seed here", "--base-url"),
    ],
)
async def test_a_field_that_is_refused_names_the_option(status: int, detail: Any, hint: str | None) -> None:
    """Mistral's API takes no `seed`: its refusal is a list of validation errors."""
    said = failures.endpoint_error(await fail(page({"message": {"detail": [detail]}}, status))).hint
    assert (said is None) if hint is None else (said is not None and hint in said)


async def test_unknown_model_names_what_is_served() -> None:
    """A 404 for a model tells which models there are."""
    wrong = GenerationRequest("lap", 8, Decoding(), messages=(Message("user", "Ciao"),))
    failure = await fail(page({"error": {"message": "no such model"}}, 404), wrong)
    assert "does not serve 'lap'; it serves: lab." in failure.message


async def test_retry_after_is_read() -> None:
    """The server's own wish is kept for whoever retries."""
    assert (await fail(page({}, 429, retry_after="7"))).retry_after == 7.0
    assert (await fail(page({}, 503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))).retry_after == 0.0
    assert (await fail(page({}, 429, retry_after="soon"))).retry_after is None


async def test_refused_connection_asks_the_right_question() -> None:
    """Nobody listens: the sentence says so and names the address."""
    with deaf_port() as port:
        url = f"http://127.0.0.1:{port}/v1"
        async with Endpoint(url) as endpoint:
            outcome = await endpoint.generate(REQUEST, lambda tokens: False)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.REFUSED
    assert outcome.failure.message == f"The server at {url} refused the connection. Is vLLM running there?"


@contextmanager
def no_more_files() -> Iterator[None]:
    """No file is opened within."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_what_this_machine_lacks_is_not_the_servers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped SSL_CERT_FILE was told as a server that closed the connection, and no more open files as one
    that refused it."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/authority.pem")
    with deaf_port() as port:
        async with Endpoint(f"https://127.0.0.1:{port}/v1") as endpoint:
            uncertified = await endpoint.generate(REQUEST, lambda tokens: False)
        async with Endpoint(f"http://127.0.0.1:{port}/v1") as endpoint:
            with no_more_files():
                unopened = await endpoint.generate(REQUEST, lambda tokens: False)
    assert uncertified.failure is not None
    assert "the certificates that SSL_CERT_FILE" in uncertified.failure.message
    assert unopened.failure is not None
    assert "may not open as many files (ulimit -n)" in unopened.failure.message
    assert endpoint_error(unopened.failure).hint is None


async def test_closed_before_an_answer() -> None:
    """A connection closed without a word is a cut, not a refusal."""

    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(slam, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Endpoint(f"http://127.0.0.1:{port}/v1") as endpoint:
        outcome = await endpoint.generate(REQUEST, lambda tokens: False)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.CUT


async def test_html_error_page_is_shown_without_tags() -> None:
    """A proxy's error page becomes one short line."""
    body = b"<html><head><title>502 Bad Gateway</title></head>\n<body>" + b"x" * 2000 + b"</body></html>"
    failure = await fail(Page(body, 502, content_type="text/html"))
    assert "502 Bad Gateway" in failure.message
    assert "<" not in failure.message
    assert len(failure.message) < 450


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_the_key_is_in_no_message_repr_or_traceback(status: int) -> None:
    """Servers quote keys back; neither the failure, the error nor a traceback with locals may hold it."""
    said = page({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status)
    async with fake_vllm(said) as server:
        server.pages["/v1/models"] = said
        url = server.url.replace("http://", "http://ann:pa55w%C3%B6rd@")
        async with Endpoint(url, api_key=KEY) as endpoint:
            outcome = await endpoint.generate(REQUEST, lambda tokens: False)
            with pytest.raises(EndpointError) as caught:
                await profile_endpoint(endpoint, "lab")
            shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            ours = [frame for frame in shown.stack if Path(frame.filename).is_relative_to(PACKAGE)]
            assert any("endpoint" in (frame.locals or {}) for frame in ours)
            locals_shown = [str(frame.locals) for frame in ours]
            everything = [repr(outcome), repr(endpoint), str(caught.value), *locals_shown]
            everything += traceback.format_exception(caught.value)
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    for text in everything:
        assert KEY not in text
        assert "pa55w" not in text
    assert caught.value.exit_code is ExitCode.ENDPOINT


async def test_the_key_in_a_stream_error_and_in_garbage() -> None:
    """Also what arrives inside a stream is cleaned."""
    for reply in (
        Events(sse({"error": {"message": f"key {KEY}"}})),
        Events([b"data: {" + b" " * 100 + KEY.encode() + b"\n\n"]),
        Page(f"nothing but {KEY}".encode(), content_type="text/plain"),
    ):
        assert KEY not in repr(await fail(reply, key=KEY))


async def test_credentials_in_the_url_are_used_and_hidden() -> None:
    """A password in the base URL authenticates and is seen nowhere."""
    async with fake_vllm(page({}, 500)) as server:
        url = server.url.replace("http://", "http://ann:s3cret@")
        async with Endpoint(url) as endpoint:
            await endpoint.generate(REQUEST, lambda tokens: False)
        assert server.asked[0].headers["authorization"] == "Basic YW5uOnMzY3JldA=="
        assert endpoint.base_url == server.url
        assert "s3cret" not in repr(endpoint) + repr(endpoint.address)


def test_clean_text() -> None:
    """One line, no control characters, no secret, at most 300 characters."""
    address = EndpointAddress.parse("http://h/v1", KEY)
    assert address.redact(f"a\x1b[2J\n\n{KEY}\t b") == "a [2J *** b"
    assert len(address.redact("x" * 5000)) == 300


@pytest.mark.parametrize(
    ("given", "base", "root"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1", "http://localhost:8000"),
        ("https://h/proxy/v1", "https://h/proxy/v1", "https://h/proxy"),
        ("http://[::1]:80/v1?key=x", "http://[::1]:80/v1", "http://[::1]:80"),
    ],
)
def test_addresses(given: str, base: str, root: str) -> None:
    """/metrics and its kin live at the server's root, not under /v1."""
    address = EndpointAddress.parse(given, None)
    assert (address.base_url, address.root) == (base, root)


@pytest.mark.parametrize("given", ["localhost:8000", "ftp://h/v1", "http://", "http://h:port/v1", ""])
def test_impossible_addresses(given: str) -> None:
    """What is no address is a usage error with an example, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        Endpoint(given)
    assert caught.value.hint is not None


def test_impossible_keys() -> None:
    """A key that no header can hold is refused without being quoted."""
    with pytest.raises(UsageError) as caught:
        Endpoint("http://h/v1", api_key="kéy-secret")
    assert "secret" not in str(caught.value)


def test_closest_model_is_suggested() -> None:
    """Of several served models the closest is named."""
    address = EndpointAddress.parse("http://h/v1", None)
    sentence = failures.unknown_model_sentence(address, "qwen2-7b", ["llama-3", "qwen2.5-7b"])
    assert "Did you mean 'qwen2.5-7b'?" in sentence
