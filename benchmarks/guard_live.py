"""What `stresstest guard` adds in front of a server of yours: the same requests in turn without and with it.

``python -m benchmarks.guard_live --base-url http://localhost:8000/v1 [--streams 64] [--guards 2]``

A round sends the same requests, all at once, to the server, through a guard of its own on this machine, and
through several guards that share a port; every other round asks in the other order. Printed are the medians
over all requests of the time to the first chunk and of the pause between two chunks, the 99th percentile of
the pauses, and tokens a second of all requests together. Use a GPU's server: on a CPU's, the engine's own
pauses hide everything else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import aiohttp

from benchmarks.guard_cost import started
from tests.lab.serve import free_port

PROMPT = "Write a story in 20 numbered paragraphs."


@dataclass
class Way:
    """firsts, pauses: seconds. rates: tokens a second, one a round."""

    firsts: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        """One line of the table."""
        worst = sorted(self.pauses)[int(len(self.pauses) * 0.99)]
        first, pause = statistics.median(self.firsts), statistics.median(self.pauses)
        rate = statistics.median(self.rates)
        return f"| {name} | {1e3 * first:.1f} ms | {1e3 * pause:.2f}, {1e3 * worst:.2f} ms | {rate:,.0f} |"


async def stream(session: aiohttp.ClientSession, url: str, body: dict[str, object], way: Way) -> int:
    """Read one answer, and note when its chunks arrived. Returns the number of chunks."""
    begun = time.perf_counter()
    async with session.post(f"{url}/v1/chat/completions", json=body) as reply:
        reply.raise_for_status()
        moments = [time.perf_counter() async for line in reply.content if line.startswith(b"data: {")]
    way.firsts.append(moments[0] - begun)
    way.pauses.extend(later - earlier for earlier, later in pairwise(moments))
    return len(moments)


async def ask(url: str, model: str, streams: int, tokens: int, way: Way) -> None:
    """All requests of a round at once."""
    shared = {"model": model, "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 0.7}
    messages = [{"role": "user", "content": PROMPT}]
    timeout = aiohttp.ClientTimeout(900)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        begun = time.perf_counter()
        bodies = [{**shared, "messages": messages, "seed": seed} for seed in range(streams)]
        chunks = await asyncio.gather(*(stream(session, url, body, way) for body in bodies))
        way.rates.append(sum(chunks) / (time.perf_counter() - begun))


@contextlib.contextmanager
def guards(server: str, number: int) -> Iterator[str]:
    """The address of some guards that share a port."""
    port = free_port()
    words = [sys.executable, "-m", "stresstest", "guard", "--upstream", server, "--port", str(port)]
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            stack.enter_context(started(words, port))
        while listening(port) < number:
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


def listening(port: int) -> int:
    """How many sockets listen on a port."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


async def model_of(url: str) -> str:
    """The first model that the server lists."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as reply:
        return str((await reply.json())["data"][0]["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--guards", type=int, default=2, help="how many share a port")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    server = given.base_url.removesuffix("/").removesuffix("/v1")
    if urllib.parse.urlsplit(server).scheme != "http":
        parser.error("--base-url must begin with http://")
    model = asyncio.run(model_of(server))
    with guards(server, 1) as one, guards(server, given.guards) as several:
        ways = {"none": server, "guard": one, f"{given.guards} guards": several}
        measured = {name: Way() for name in ways}
        for url in ways.values():  # no way meets a cold server
            asyncio.run(ask(url, model, given.streams, 20, Way()))
        for turn in range(given.rounds):
            for name in list(ways)[:: -1 if turn % 2 else 1]:
                asyncio.run(ask(ways[name], model, given.streams, given.tokens, measured[name]))
    print(f"{given.streams} streams of {given.tokens} tokens, {given.rounds} rounds:\n")
    print("| proxy | first chunk | pause: median, p99 | tokens/s |\n| --- | --- | --- | --- |")
    for name, way in measured.items():
        print(way.row(name))


if __name__ == "__main__":
    main()
