"""What `stresstest guard` adds to a stream: delay, CPU and memory, beside proxies that only pass it on.

``python -m benchmarks.guard_cost [--streams 100 500] [--pace 10] [--tokens 200] [--token-ids]``

A source replays healthy chat chunks, one token a chunk, each stream at the same pace, its steps spread over
time; each chunk holds the moment at which it was sent, so that a client on the same machine knows its way's
length. As vLLM's, the chunks hold token ids only where they are asked for; without, the guard cuts the text
into words itself. In turn the client reads from the source, from a plain aiohttp proxy (`plain` below), from
the guard, and from nginx and HAProxy where they are installed. CPU is that of the proxy's processes, memory
what they hold in the middle of the streams above what they held before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import aiohttp
from aiohttp import web

from benchmarks.client_cost import story
from stresstest.campaign.execution.eventloop import loop_factory

STAMP = b'"created": '
_TICKS = os.sysconf("SC_CLK_TCK")
_MILLISECOND = 1e6
"""Nanoseconds."""


def events(seed: int, tokens: int, *, looping: bool = False, ids: bool = False) -> list[tuple[bytes, bytes]]:
    """Each chunk before and after its stamp. looping: the second half repeats 20 tokens."""
    made = []
    texts = story(seed, tokens)
    if looping:
        half = tokens // 2
        texts = [*texts[:half], *(texts[half + i % 20] for i in range(tokens - half))]
    for i, text in enumerate(texts, start=1):
        delta = {"content": text}
        finish = "length" if i == tokens else None
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        choice["token_ids"] = [sum(text.encode()) * 7 % 1200] if ids else None
        body = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 0}
        event = f"data: {json.dumps({**body, 'model': 'lab', 'choices': [choice]})}\n\n".encode()
        head, _, tail = event.partition(STAMP + b"0")
        made.append((head + STAMP, tail))
    return made


def source(pipe: Connection, tokens: int, pace: float, looping: int = 0, ids: bool = False) -> None:
    """The server process. looping: one answer in this number of answers loops; 0 means none."""
    texts = [events(seed, tokens, ids=ids) for seed in range(looping - 1 if looping else 8)]
    texts += [events(looping, tokens, looping=True)] if looping else []
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length:" in head:
                await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            parts = texts[served % len(texts)]
            served += 1
            loop = asyncio.get_running_loop()
            begun = loop.time()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
                b"connection: close\r\n\r\n"
            )
            for i, (before, after) in enumerate(parts):
                await asyncio.sleep(max(0.0, begun + i / pace - loop.time()))
                if writer.is_closing():
                    return
                event = b"%b%d%b" % (before, time.monotonic_ns(), after)
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            await writer.drain()
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run())


def plain(pipe: Connection, upstream: str) -> None:
    """A pass-through proxy as one writes it with aiohttp, on the same event loop as the guard."""

    async def run() -> None:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, timeout=aiohttp.ClientTimeout()
        )

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            url = upstream + request.raw_path
            async with session.request(request.method, url, data=await request.read()) as answer:
                response = web.StreamResponse(status=answer.status)
                response.content_type = answer.content_type
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        loop.run(run())


class Client(asyncio.Protocol):
    """One stream: how long each chunk was on its way, in nanoseconds."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        self.ways: list[int] = []
        self._over = over
        self._last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        body = b'{"model": "lab", "messages": [{"role": "user", "content": "Scrivi."}], "stream": true}'
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        at = data.find(STAMP)
        while at >= 0:
            end = data.find(b",", at)
            if end > 0:
                self.ways.append(now - int(data[at + len(STAMP) : end]))
            at = data.find(STAMP, at + 1)
        if (self._last + data[-32:]).find(b"[DONE]") >= 0:
            self._transport.close()
        self._last = data[-32:]

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)


def cpu_seconds(processes: list[int]) -> float:
    """User and system time of some processes."""
    total = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident(processes: list[int]) -> float:
    """Resident memory of some processes, in KiB."""
    total = 0
    for process in processes:
        status = Path(f"/proc/{process}/status").read_text()
        total += int(status.partition("VmRSS:")[2].split()[0])
    return total


@dataclass(frozen=True)
class Measured:
    """first, between: milliseconds on the way of first chunks, and of all, as (median, 99th percentile).
    cpu: microseconds of the proxy a chunk. memory: KiB a stream."""

    first: tuple[float, float]
    between: tuple[float, float]
    cpu: float
    memory: float
    chunks: int


def _given(client: Client) -> Client:
    return client


async def _load(port: int, streams: int, pace: float, middle: asyncio.Event) -> list[list[int]]:
    loop = asyncio.get_running_loop()
    clients, ends = [], []
    for i in range(streams):
        over = loop.create_future()
        client = Client(over)
        await loop.create_connection(partial(_given, client), "127.0.0.1", port)
        clients.append(client)
        ends.append(over)
        await asyncio.sleep(1 / pace / streams * 4)
        if i == streams - 1:
            middle.set()
    await asyncio.gather(*ends)
    return [client.ways for client in clients]


def quantiles(values: list[int]) -> tuple[float, float]:
    """(median, 99th percentile) in milliseconds."""
    ordered = sorted(values)
    return statistics.median(ordered) / _MILLISECOND, ordered[int(len(ordered) * 0.99)] / _MILLISECOND


def measure(port: int, processes: list[int], streams: int, pace: float, tokens: int) -> Measured:
    """One run of all streams through whatever listens on the port."""

    async def run() -> tuple[list[list[int]], float]:
        middle = asyncio.Event()
        loading = asyncio.create_task(_load(port, streams, pace, middle))
        await middle.wait()
        await asyncio.sleep(tokens / pace / 3)
        held = resident(processes)
        return await loading, held

    before, memory = cpu_seconds(processes), resident(processes)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        ways, held = runner.run(run())
    time.sleep(0.5)  # the guard judges the last chunks
    spent = cpu_seconds(processes) - before
    every = [way for each in ways for way in each]
    if len(every) < streams * tokens * 0.98:
        raise SystemExit(f"only {len(every)} of {streams * tokens} chunks arrived")
    firsts = [each[0] for each in ways if each]
    return Measured(
        quantiles(firsts), quantiles(every), spent / len(every) * 1e6, (held - memory) / streams, len(every)
    )


@contextlib.contextmanager
def started(words: list[str], port: int) -> Iterator[tuple[int, list[int]]]:
    """A proxy that is a program, once it listens, with its processes."""
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/guard/health", timeout=5).close()
                break
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield port, [process.pid, *map(int, children)]
    finally:
        process.terminate()
        process.wait(30)


def nginx(folder: Path, port: int, upstream: int) -> list[str]:
    """nginx with one worker, not buffering."""
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n"
        f" server {{ listen 127.0.0.1:{port};\n"
        f" location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1;\n"
        " proxy_buffering off; } } }\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf")]


def haproxy(folder: Path, port: int, upstream: int) -> list[str]:
    """HAProxy with one thread."""
    (folder / "haproxy.cfg").write_text(
        "global\n nbthread 1\n maxconn 4096\ndefaults\n mode http\n option http-no-delay\n"
        " timeout client 300s\n timeout server 300s\n"
        f" timeout connect 9s\nlisten all\n bind 127.0.0.1:{port}\n server up 127.0.0.1:{upstream}\n"
    )
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


def guard(port: int, upstream: int) -> list[str]:
    """The guard with its detectors, without a rule."""
    words = ["-m", "stresstest", "guard", "--upstream", f"http://127.0.0.1:{upstream}", "--port", str(port)]
    return [sys.executable, *words]


@contextlib.contextmanager
def forked(target: object, *args: object) -> Iterator[tuple[int, list[int]]]:
    """A process of this file, as (its port, [its id])."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(there, *args), daemon=True)  # type: ignore[arg-type]
    process.start()
    try:
        assert process.pid is not None
        yield here.recv(), [process.pid]
    finally:
        process.terminate()
        process.join()


def run(streams: int, pace: float, tokens: int, ids: bool = False) -> dict[str, Measured]:
    """All proxies in one run."""
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as name, forked(source, tokens, pace, 0, ids) as (upstream, own):
        folder = Path(name)
        found["none"] = measure(upstream, own, streams, pace, tokens)
        base = f"http://127.0.0.1:{upstream}"
        with forked(plain, base) as (port, processes):
            found["plain aiohttp"] = measure(port, processes, streams, pace, tokens)
        with started(guard(18088, upstream), 18088) as (port, processes):
            found["guard"] = measure(port, processes, streams, pace, tokens)
        for program, words in (("nginx", nginx), ("haproxy", haproxy)):
            if shutil.which(program):
                with started(words(folder, 18089, upstream), 18089) as (port, processes):
                    found[program] = measure(port, processes, streams, pace, tokens)
    return found


def table(found: dict[str, Measured], streams: int, pace: float) -> str:
    """The results as Markdown."""
    rows = [
        f"{streams} streams at {pace:g} tokens/s each:\n",
        "| proxy | first chunk: median, p99 | any chunk: median, p99 | CPU a token | tokens/s a core "
        "| of plain | KiB a stream |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    reference = found["plain aiohttp"].cpu
    for name, each in found.items():
        first, between = ("{:.2f}, {:.2f} ms".format(*pair) for pair in (each.first, each.between))
        if name == "none":
            rows.append(f"| {name} | {first} | {between} | – | – | – | – |")
            continue
        rate = 1e6 / each.cpu if each.cpu else float("inf")
        rows.append(
            f"| {name} | {first} | {between} | {each.cpu:.0f} µs | {rate:,.0f} "
            f"| {each.cpu / reference:.2f} | {each.memory:.0f} |"
        )
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--pace", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--token-ids", action="store_true", help="each chunk holds its token's id")
    given = parser.parse_args()
    for streams in given.streams:
        found = run(streams, given.pace, given.tokens, given.token_ids)
        sys.stdout.write(table(found, streams, given.pace) + "\n")


if __name__ == "__main__":
    main()
