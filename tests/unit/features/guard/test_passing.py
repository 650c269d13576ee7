"""What passes through the guard is what came: bytes, errors, cuts, silence, and who has left."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from stresstest.errors import UsageError
from stresstest.features.guard.relay import HIGH_WATER, ClientPipe
from stresstest.features.guard.settings import GuardLimits, GuardSettings, checked_upstream
from stresstest.features.guard.upstream import Upstream
from tests.support.fake_vllm import DONE, Events, Hang, Page, Reset, page, sse
from tests.support.guarded import ASK, CHAT, HEALTHY, chat_events, guarded, raw
from tests.support.steady_clock import steady_clock

STREAM = chat_events(HEALTHY)
BODY = {"id": "c", "choices": [{"index": 0, "message": {"content": HEALTHY}, "finish_reason": "stop"}]}
TOOLS = sse(
    {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [{"index": 0}]}}]},
    {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
)
STREAMS = {
    "chat": [*STREAM, DONE],
    "split anywhere": [bytes([b]) for b in b"".join([*STREAM[:4], DONE])],
    "several events a piece": [b"".join([*STREAM, DONE])],
    "tools": [*TOOLS, DONE],
    "reasoning": [*chat_events(HEALTHY, reasoning=True), DONE],
    "error in the stream": [*STREAM[:5], *sse({"error": {"message": "no", "code": 500}}), DONE],
    "comments and CRLF": [b": ping\r\n\r\n", b'data: {"choices": []}\r\n\r\n', b"data: [DONE]\r\n\r\n"],
    "no chunk at all": [b"data: nonsense\n\n", b"\xff\xfe\n\n"],
    "no end of the stream": STREAM,
    "nothing": [],
}


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_passes_byte_for_byte(name: str) -> None:
    """Whatever is in it, and however its bytes are cut."""
    async with guarded(Events(STREAMS[name])) as here:
        through, direct = await here.ask(), await here.direct()
        assert (through.status, through.body) == (direct.status, direct.body)
        assert through.headers["Content-Type"] == direct.headers["Content-Type"]


@pytest.mark.parametrize(
    "answer",
    [
        page(BODY),
        page({"error": {"message": "max_tokens is too large", "code": 400}}, 400),
        Page(b"", 204),
        Page(b"not json", 500, "text/plain"),
        Page(gzip.compress(b"{}"), headers={"content_encoding": "gzip"}),
        Page(b"[]", headers={"x_one": "a, b", "set_cookie": "a=1; Path=/"}),
        Page(b"", 302, headers={"location": "http://elsewhere.example/"}),
    ],
)
async def test_a_whole_answer_passes_with_its_status_and_headers(answer: Page) -> None:
    """Errors, redirects and compressed bodies too: none is read, followed or unpacked in between."""
    async with guarded(answer) as here:
        for path in (CHAT, "/v1/completions"):
            async with here.session.post(here.url + path, json=ASK, allow_redirects=False) as response:
                assert response.status == answer.status
                assert await response.read() == answer.body
                for name, value in answer.headers.items():
                    assert response.headers[name.replace("_", "-")] == value


@pytest.mark.parametrize(
    ("base", "location", "passed"),
    [
        ("http://vllm:8000", "http://vllm:8000/v1/chat/completions?a=%2F#b", "/v1/chat/completions?a=%2F#b"),
        ("http://vllm:8000/api", "HTTP://VLLM:8000/api/v1/x", "/v1/x"),
        ("http://vllm", "http://vllm:80/v1/x", "/v1/x"),
        ("http://vllm:8000/api", "http://vllm:8000/apis/x", "http://vllm:8000/apis/x"),
        ("http://vllm:8000", "http://vllm:8000//evil.example/x", "/.//evil.example/x"),
        *(
            ("http://vllm:8000", location, location)
            for location in (
                *("https://vllm:8000/x", "http://vllm:8001/x", "http://elsewhere.example/", "/v1/x", "x"),
                *("//vllm:8000/x", "mailto:a@vllm", "http://[", ""),
            )
        ),
    ],
)
async def test_a_redirect_to_the_upstream_leads_through_the_guard(
    base: str, location: str, passed: str
) -> None:
    """FastAPI names itself where a slash at the end is missing: clients went on without the guard."""
    upstream = Upstream(GuardSettings(base))
    assert upstream.relative(location) == passed
    await upstream.close()


async def test_a_redirect_is_passed_on_as_a_path() -> None:
    """Whatever was asked for."""
    async with guarded(Hang()) as here:
        own = here.upstream.url.removesuffix("/v1")
        here.upstream.everything = Page(b"", 307, headers={"location": f"{own}/v1/models"})
        async with here.session.get(here.url + "/v1/models/", allow_redirects=False) as response:
            assert response.headers["Location"] == "/v1/models"


async def test_every_path_and_method_passes_with_what_it_carries() -> None:
    """Path, query, method, headers and body arrive as they were sent; those of the connection do not."""
    async with guarded(Hang()) as here:
        here.upstream.everything = page({"ok": True})
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            body = b'{"a": 1}' if method in ("POST", "PUT", "PATCH") else None
            async with here.session.request(
                method,
                here.url + "/tokenize/%2F?x=%20y&x=2",
                data=body,
                headers={
                    "Authorization": "Bearer sk-1",
                    "X-Mine": "1",
                    "Connection": "x-gone",
                    "X-Gone": "1",
                },
            ) as response:
                assert response.status == 200
            asked = here.upstream.asked[-1]
            assert (asked.method, asked.path) == (method, "/tokenize/%2F?x=%20y&x=2")
            assert asked.body == (json.loads(body) if body else None)
            assert asked.headers["authorization"] == "Bearer sk-1"
            assert asked.headers["x-mine"] == "1"
            assert "x-gone" not in asked.headers
        here.upstream.everything = Page(b"")
        async with here.session.head(here.url + "/version") as response:
            assert response.status == 200


async def test_the_upstreams_own_pages_are_not_the_guards() -> None:
    """/metrics and /health stay the upstream's; the guard's are below /guard/."""
    async with guarded(Hang()) as here:
        async with here.session.get(here.url + "/metrics") as response:
            assert "stresstest_guard" not in await response.text()
        async with here.session.get(here.url + "/guard/health") as response:
            assert response.status == 200
        async with here.session.get(here.url + "/guard/nothing") as response:
            assert response.status == 404
        assert "stresstest_guard_in_flight" in await here.series()


async def test_pipelined_requests_are_answered_in_order_on_one_connection() -> None:
    """HTTP/1.1 keep-alive: the second request was sent before the first was answered."""
    async with guarded(page({"ok": 1})) as here, raw(here) as (reader, writer):
        body = json.dumps(ASK).encode()
        post = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        writer.write(post % (CHAT.encode(), len(body), body))
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        replies = await reader.read(-1)
        assert replies.index(b'{"ok": 1}') < replies.index(b"0.32.0")


@pytest.mark.parametrize("target", [b"http://elsewhere.example/v1/models", b"elsewhere.example:443", b"*"])
async def test_it_is_no_open_proxy(target: bytes) -> None:
    """Only paths of the one upstream are served."""
    async with guarded(page({})) as here, raw(here) as (reader, writer):
        method = b"CONNECT" if b":443" in target else b"OPTIONS" if target == b"*" else b"GET"
        writer.write(method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read(-1)).split(b" ")[1] in (b"400", b"405")
        assert not here.upstream.asked


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_upstream_along(stream: bool) -> None:
    """The server must not go on generating for nobody."""
    script = Events([*STREAM[:3]], end="stall") if stream else Hang()
    async with guarded(script) as here:
        asked = asyncio.create_task(here.ask(body={**ASK, "stream": stream}))
        await here.upstream.until(lambda: len(here.upstream.asked) == 1)
        asked.cancel()
        await here.upstream.until(lambda: here.upstream.hung_up == 1 or here.upstream.open == 0)


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_a_cut_answer_arrives_as_a_cut_answer(end: str) -> None:
    """Never as one that has ended in order."""
    async with guarded(Events(STREAM[:5], end=end)) as here:
        with pytest.raises(aiohttp.ClientPayloadError):
            await here.ask()
        assert (await here.series())["stresstest_guard_upstream_failures_total{cut}"] == 1


@pytest.mark.parametrize(
    ("script", "status"), [(Reset(), 502), (Reset(refuse=True), 502), (Hang(), 504)], ids=str
)
async def test_an_upstream_without_an_answer_is_a_clear_error(script: Any, status: int) -> None:
    """In the words of the API, so that clients show the sentence."""
    idle = 0.2 if status == 504 else 60.0
    async with guarded(script, limits=GuardLimits(idle=idle, drain=1)) as here:
        reply = await here.ask()
        assert reply.status == status
        assert reply.json["error"]["message"].startswith("The upstream")


async def test_a_silent_upstream_is_given_up() -> None:
    """After the idle limit, with a sentence in the stream and without its end."""
    async with guarded(Events(STREAM[:3], end="stall"), limits=GuardLimits(idle=0.2, drain=1)) as here:
        got = b""
        with steady_clock(), pytest.raises(aiohttp.ClientPayloadError):
            async with here.session.post(here.url + CHAT, json=ASK) as response:
                async for piece in response.content.iter_any():
                    got += piece
        assert b"has fallen silent" in got
        assert b"[DONE]" not in got


@pytest.mark.parametrize("policy", ["count", "abort"])
async def test_a_slow_upstream_is_not_silent(policy: str) -> None:
    """The limit is for a pause, however long the whole answer takes."""
    slow = Events([*STREAM[:15], DONE], pause=0.05)
    async with guarded(slow, {"policy": policy}, limits=GuardLimits(idle=0.5, drain=1)) as here:
        with steady_clock():
            assert (await here.ask()).body.endswith(DONE)


@pytest.mark.parametrize("policy", ["count", "abort"])
async def test_a_line_without_end_is_ended(policy: str) -> None:
    """A hostile upstream cannot fill the guard's memory with one event."""
    endless = Events([b"data: "] + [b"x" * 200_000] * 90, end="stall")
    async with guarded(endless, {"policy": policy}) as here:
        with pytest.raises(aiohttp.ClientPayloadError):
            await here.ask()
        assert (await here.series())["stresstest_guard_upstream_failures_total{endless_line}"] == 1


async def test_requests_are_limited() -> None:
    """A body above the limit is refused before anything is sent on, announced or not."""
    async with guarded(page({}), limits=GuardLimits(body=1000, drain=1)) as here:
        assert (await here.ask(body={**ASK, "x": "y" * 1000})).status == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        async with here.session.post(here.url + CHAT, data=pieces()) as response:
            assert response.status == 413
        async with here.session.get(here.url + "/version", headers={"X-Long": "x" * 40_000}) as response:
            assert response.status == 400
        assert not here.upstream.asked


async def test_connections_are_limited_and_silent_ones_dropped() -> None:
    """Whoever opens connections and says nothing takes no place for long."""
    one = GuardLimits(connections=1, drain=1)
    async with guarded(page({}), limits=one) as here, raw(here), raw(here) as (refused, _writer):
        assert (await refused.read(-1)).startswith(b"HTTP/1.1 503 ")
    async with guarded(page({}), limits=GuardLimits(arrival=0.1, drain=1)) as here, raw(here) as (silent, _):
        assert await silent.read(-1) == b""


async def test_a_slow_reader_slows_the_upstream() -> None:
    """Back-pressure: what nobody reads is not fetched, so that memory stays bounded."""
    many = Events([b"data: " + b"x" * 60_000 + b"\n\n"] * 2000)
    async with guarded(many) as here, raw(here) as (_reader, writer):
        body = json.dumps(ASK).encode()
        _reader._limit = 1024  # type: ignore[attr-defined]
        writer.write(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)
        )
        await here.upstream.until(lambda: here.upstream.open == 1)
        await asyncio.sleep(0.3)
        assert here.upstream.open == 1  # 120 MB are not through
        writer.close()


async def test_a_client_that_does_not_read_costs_next_to_nothing() -> None:
    """A hundred of them took a tenth of a core: each was looked at 200 times a second."""

    class Deaf:
        looks, waited = 0, 0.0

        def get_write_buffer_size(self) -> int:
            self.looks += 1
            return 0 if self.waited > 60 else 2 * HIGH_WATER

        def is_closing(self) -> bool:
            return False

    transport = Deaf()

    async def sleep(seconds: float) -> None:
        transport.waited += seconds

    request: Any = SimpleNamespace(transport=transport)
    client = ClientPipe(request, web.StreamResponse())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stresstest.features.guard.relay.asyncio.sleep", sleep)
        await client.drain()
    assert transport.looks < 3 * 60


@pytest.mark.parametrize("how", ["time is up", "leaves", "stops sending"])
async def test_a_client_that_does_not_read_is_not_waited_for_without_end(how: str) -> None:
    """Its upstream is closed when its time is over or when it is gone."""
    many = Events([b"data: " + b"x" * 60_000 + b"\n\n"] * 2000)
    limits = GuardLimits(seconds=1.0 if how == "time is up" else 3600.0, drain=1)
    async with guarded(many, limits=limits) as here, raw(here) as (reader, writer):
        reader._limit = 1024  # type: ignore[attr-defined]
        body = json.dumps(ASK).encode()
        writer.write(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)
        )
        await here.upstream.until(lambda: here.upstream.open == 1)
        await asyncio.sleep(0.3)
        if how == "leaves":
            writer.transport.abort()
        elif how == "stops sending":
            writer.write_eof()
        async with asyncio.timeout(60):
            await here.upstream.until(lambda: here.upstream.open == 0)
        writer.transport.abort()


async def test_a_client_that_leaves_in_mid_stream_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients leave all day: each is counted, none is logged with a traceback."""

    async def gone(*_: Any) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async with guarded(Events([*STREAM, DONE]), {"policy": "abort"}) as here:
        monkeypatch.setattr(web.StreamResponse, "write", gone)
        with pytest.raises(aiohttp.ClientError):
            await here.ask()
        monkeypatch.undo()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,client_gone,{CHAT}}}"] == 1
    assert "Traceback" not in caplog.text


async def test_the_end_waits_for_streams_that_run() -> None:
    """A restart drains: the answer that has begun is whole."""
    async with aiohttp.ClientSession() as session:
        slow = Events([*STREAM, DONE], pause=0.002)
        async with guarded(slow, limits=GuardLimits(drain=60)) as here:
            response = await session.post(here.url + CHAT, json=ASK)
            reading = asyncio.create_task(response.read())
        assert (await reading).endswith(DONE)


@pytest.mark.parametrize(
    "url", ["vllm:8000", "ftp://vllm", "http://", "http://me:pw@vllm", "http://vllm/?key=1", "http://v:x"]
)
def test_what_is_no_upstream_is_refused(url: str) -> None:
    """And what may hold a password is not repeated."""
    with pytest.raises(UsageError) as refused:
        checked_upstream(url)
    assert "pw" not in str(refused.value)


def test_an_upstream_may_be_named_with_its_api_folder() -> None:
    """As clients name it; their paths bring /v1 themselves."""
    assert checked_upstream("http://vllm:8000/v1/") == "http://vllm:8000"
    assert checked_upstream("https://host/prefix") == "https://host/prefix"
