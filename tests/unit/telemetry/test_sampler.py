"""The sampler against a real HTTP server: readings, failures, recovery, its end, and no leaked key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stresstest.clock import now
from stresstest.endpoint.address import EndpointAddress
from stresstest.model import ServerSample
from stresstest.telemetry.prometheus import MetricsSampler, metrics_url
from tests.support.deaf_port import deaf_port
from tests.support.paths import DATA

PAGE = (DATA / "metrics_vllm_old_names.txt").read_bytes()


class _Server(ThreadingHTTPServer):
    """Serves `answers` one after the other, the last one for ever; remembers the keys it was shown."""

    daemon_threads = True
    answers: list[tuple[int, bytes]]
    keys: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/metrics"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        if status == 307:
            self.send_header("Location", "/metrics/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server on a free port of this machine."""
    found = _Server(("127.0.0.1", 0), _Handler)
    found.answers, found.keys = [(200, PAGE)], []
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


async def _sample_until(sampler: MetricsSampler, enough: int) -> None:
    """Run a sampler until it has so many readings (a test that hangs here fails by its timeout)."""
    sampler.start()
    async with asyncio.timeout(60):
        while len(sampler.samples) < enough:
            await asyncio.sleep(0.005)
    await sampler.stop()


async def test_readings_are_kept_and_announced(server: _Server) -> None:
    """Each reading carries its time on the shared clock and reaches the callback in order."""
    announced: list[ServerSample] = []
    sampler = MetricsSampler(server.url, model=None, interval=0.01, timeout=60, on_sample=announced.append)
    before = now()
    await _sample_until(sampler, 3)
    after = now()
    times = [s.at for s in sampler.samples]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after
    assert announced == sampler.samples
    assert {s.running for s in sampler.samples} == {4.0}
    assert (sampler.failures, sampler.last_error) == (0, None)


async def test_stop_takes_a_last_reading(server: _Server) -> None:
    """Differences must reach the end of a run even when the interval is long; a second stop is nothing."""
    sampler = MetricsSampler(server.url, model=None, interval=3600, timeout=60)
    await _sample_until(sampler, 1)
    assert len(sampler.samples) == 2
    await sampler.stop()
    assert len(sampler.samples) == 2


async def test_a_key_that_a_server_echoes_as_a_finish_reason_is_not_kept(server: _Server) -> None:
    """It was stored with every reading, and stood in the report."""
    key, name = "sk-9f8e7d6c5b4a", "vllm:request_success_total"
    ends = [f'{name}{{finished_reason="{reason}"}} 3.0' for reason in (key, "stop")]
    server.answers = [(200, "\n".join(ends).encode() + b"\n")]
    hide = EndpointAddress.parse(server.url, key).hide_secrets
    sampler = MetricsSampler(server.url, model=None, interval=0.01, timeout=60, hide=hide)
    await _sample_until(sampler, 1)
    assert sampler.samples[0].finished == {"***": 3.0, "stop": 3.0}


async def test_failures_are_counted_and_survived(server: _Server) -> None:
    """An error, a page of another program and a redirect are survived; sampling goes on after them."""
    server.answers = [(500, b"oops"), (200, b"go_goroutines 8\n"), (307, b""), (200, PAGE)]
    sampler = MetricsSampler(server.url, model=None, interval=0.01, timeout=60)
    await _sample_until(sampler, 1)
    assert sampler.failures == 2
    assert sampler.last_error == "the page holds no metrics of vLLM"


async def test_a_server_that_is_not_there() -> None:
    """Connection refused is a counted failure with a reason; stopping works all the same."""
    with deaf_port() as port:
        url = f"http://127.0.0.1:{port}/metrics"
        sampler = MetricsSampler(url, model=None, interval=0.01, timeout=60)
        sampler.start()
        async with asyncio.timeout(60):
            while sampler.failures < 2:
                await asyncio.sleep(0.005)
        await sampler.stop()
    assert sampler.samples == []
    assert sampler.last_error is not None
    assert "ConnectError" in sampler.last_error


async def test_a_server_that_never_answers() -> None:
    """A reading gives up after its timeout instead of holding the run."""
    accepted: list[asyncio.StreamWriter] = []

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    sampler = MetricsSampler(f"http://127.0.0.1:{port}/metrics", model=None, interval=0.01, timeout=0.05)
    sampler.start()
    async with asyncio.timeout(60):
        while not sampler.failures:
            await asyncio.sleep(0.005)
    await sampler.stop()
    silent.close()
    for writer in accepted:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in accepted), return_exceptions=True)
    assert sampler.last_error is not None
    assert "Timeout" in sampler.last_error


async def test_the_key_is_sent_and_never_shown(server: _Server) -> None:
    """A protected page gets the key; neither the object nor an error that quotes a header shows it."""
    sampler = MetricsSampler(server.url, model=None, api_key="hunter2", interval=3600, timeout=60)
    await _sample_until(sampler, 1)
    assert set(server.keys) == {"Bearer hunter2"}
    assert "hunter2" not in repr(sampler)
    broken = MetricsSampler(server.url, model=None, api_key="hunter2\n", interval=0.01)
    broken.start()
    async with asyncio.timeout(60):
        while not broken.failures:
            await asyncio.sleep(0.005)
    await broken.stop()
    assert broken.last_error is not None
    assert "hunter2" not in broken.last_error


async def test_an_error_of_the_callback_comes_out_of_stop(server: _Server) -> None:
    """A store that cannot take readings any more is not hidden by the sampler."""

    def refuse(_sample: ServerSample) -> None:
        raise RuntimeError("disk full")

    sampler = MetricsSampler(server.url, model=None, interval=0.01, timeout=60, on_sample=refuse)
    with pytest.raises(RuntimeError, match="disk full"):
        await _sample_until(sampler, 1)


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/metrics"),
        ("http://localhost:8000/v1/", "http://localhost:8000/metrics"),
        ("https://host/prefix/v1?x=1", "https://host/prefix/metrics"),
        ("http://host:1", "http://host:1/metrics"),
    ],
)
def test_where_the_metrics_are(base_url: str, expected: str) -> None:
    """vLLM serves /metrics beside /v1, behind a path prefix too."""
    assert metrics_url(base_url) == expected
