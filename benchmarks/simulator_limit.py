"""The simulator's limit: streams with 20 logprobs a token, as many tokens a second as two cores give.

    python benchmarks/simulator_limit.py --streams 500 --seconds 20

The server runs as `stresstest sim` does, as fast as possible; the reader is a process of its own that opens
raw sockets and counts bytes and events without decoding them. Printed: tokens and bytes a second, and the
CPU time that a token costs the server, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import cast

from stresstest.campaign.execution.eventloop import run
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.simulation.engine.scenario.spec import EngineSpec
from stresstest.simulation.server.start import serve_scenario
from stresstest.tasks import load_task


class Counter(asyncio.Protocol):
    """One raw connection: sends a request, waits for its first bytes, and counts once it is let loose."""

    def __init__(self, request: bytes, totals: list[int]) -> None:
        self._request = request
        self._totals = totals
        self.started = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.started.is_set() and self.transport is not None:
            self.started.set()
            self.transport.pause_reading()
        self._totals[0] += len(data)
        self._totals[1] += data.count(b"data: {")


def request_bytes(n: int, logprobs: int) -> bytes:
    """A chat request as stresstest sends it."""
    (message,) = load_task("narrative").prompt("it", n, 400).messages
    body = {
        "model": "sim",
        "messages": [{"role": message.role, "content": message.content}],
        "max_tokens": 16_000,
        "stream": True,
        "seed": n,
        "ignore_eos": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if logprobs:
        body |= {"logprobs": True, "top_logprobs": logprobs}
    payload = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload


def read(port: int, streams: int, logprobs: int, seconds: float, warm_up: float, pipe: Connection) -> None:
    """The reader's process: sends (bytes, events, seconds, CPU seconds) of the time after the warm-up.

    No stream is read before all have begun, so that all run at once.
    """

    async def open_one(n: int, totals: list[int]) -> Counter:
        loop = asyncio.get_running_loop()
        request = request_bytes(n, logprobs)
        _, opened = await loop.create_connection(lambda: Counter(request, totals), "127.0.0.1", port)
        return opened

    async def count() -> tuple[int, int, float, float]:
        totals = [0, 0]
        opened = await asyncio.gather(*(open_one(n, totals) for n in range(streams)))
        await asyncio.gather(*(each.started.wait() for each in opened))
        transports = [each.transport for each in opened if each.transport is not None]
        for transport in transports:
            transport.resume_reading()
        await asyncio.sleep(warm_up)
        pipe.send("begin")
        began, before, used = time.perf_counter(), tuple(totals), time.process_time()
        await asyncio.sleep(seconds)
        took, spent = time.perf_counter() - began, time.process_time() - used
        pipe.send("end")
        found = totals[0] - before[0], totals[1] - before[1], took, spent
        for transport in transports:
            transport.abort()
        return found

    pipe.send(run(count()))


async def measure(streams: int, logprobs: int, seconds: float, warm_up: float) -> dict[str, float]:
    """Serve in this process, read in another."""
    healthy = load_scenario("healthy")
    engine = EngineSpec(
        kv_cache_tokens=64 * 1024 * 1024, max_num_seqs=streams, max_num_batched_tokens=1 << 20
    )
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    async with serve_scenario(replace(healthy, engine=engine), speed=0) as running:
        port = int(running.base_url.rsplit(":", 1)[1].split("/")[0])
        reader = context.Process(target=read, args=(port, streams, logprobs, seconds, warm_up, theirs))
        reader.start()
        await asyncio.to_thread(ours.recv)
        before = resource.getrusage(resource.RUSAGE_SELF)
        written = running.engine.stats.generation_tokens
        await asyncio.to_thread(ours.recv)
        after = resource.getrusage(resource.RUSAGE_SELF)
        written = running.engine.stats.generation_tokens - written
        size, events, took, reader_cpu = await asyncio.to_thread(ours.recv)
        reader.join()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "streams": streams,
        "logprobs": logprobs,
        "seconds": round(took, 2),
        "tokens_written": written,
        "events_read_per_s": round(events / took),
        "megabytes_per_s": round(size / took / 1e6, 1),
        "bytes_per_event": round(size / max(1, events)),
        "server_cpu_us_per_token": round(1e6 * cpu / max(1, written), 1),
        "server_cpu_share": round(cpu / took, 2),
        "reader_cpu_share": round(reader_cpu / took, 2),
        "limit_tokens_per_s": round(written / cpu),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--logprobs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=2.0)
    args = parser.parse_args()
    found = run(measure(args.streams, args.logprobs, args.seconds, args.warm_up))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
