"""What `stresstest guard` adds in front of a server of yours: the same requests in turn without and with it.

``python -m benchmarks.guard_live --base-url http://localhost:8000/v1 [--streams 64] [--tokens 400]``

A round sends the same requests, all at once, to the server and through a guard of its own on this machine;
every other round asks the guard first. Printed are the medians over all requests of the time to the first
chunk and of the pause between two chunks, the 99th percentile of the pauses, and tokens a second of all
requests together. Use a GPU's server: on a CPU's, the engine's own pauses hide everything else.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
import urllib.parse
from dataclasses import dataclass, field
from itertools import pairwise

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


async def model_of(url: str) -> str:
    """The first model that the server lists."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as reply:
        return str((await reply.json())["data"][0]["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    server = given.base_url.removesuffix("/").removesuffix("/v1")
    if urllib.parse.urlsplit(server).scheme != "http":
        parser.error("--base-url must begin with http://")
    port = free_port()
    model = asyncio.run(model_of(server))
    words = [sys.executable, "-m", "stresstest", "guard", "--upstream", server, "--port", str(port)]
    ways = {"none": Way(), "guard": Way()}
    with started(words, port):
        both = [("none", server), ("guard", f"http://127.0.0.1:{port}")]
        for url in (server, f"http://127.0.0.1:{port}"):  # neither way meets a cold server
            asyncio.run(ask(url, model, given.streams, 20, Way()))
        for turn in range(given.rounds):
            for name, url in both[:: -1 if turn % 2 else 1]:
                asyncio.run(ask(url, model, given.streams, given.tokens, ways[name]))
    print(f"{given.streams} streams of {given.tokens} tokens, {given.rounds} rounds:\n")
    print("| proxy | first chunk | pause: median, p99 | tokens/s |\n| --- | --- | --- | --- |")
    for name, way in ways.items():
        print(way.row(name))


if __name__ == "__main__":
    main()
