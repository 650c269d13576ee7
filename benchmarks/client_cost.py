"""What one streamed token costs the measuring client, in CPU, beside the obvious ways to do it.

A separate process replays pre-serialised vLLM chat chunks (top-20 logprobs, about 1.5 kB, one token a
chunk), each stream at the same pace, as an engine's steps do. The client's own CPU time is divided by
the tokens received, for the openai SDK's plain loop, this tool's path with and without its detectors,
and aiohttp with orjson as the floor. All in one run: compare the ratios, not the microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import random
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection

import aiohttp
import openai
import orjson

from stresstest.campaign.execution.eventloop import loop_factory
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite
from stresstest.endpoint.client import Endpoint
from stresstest.model import Decoding, GenerationRequest, Message, Token

PATTERN = r"^\s*Paragrafo\s*(\d+)"
REQUEST = GenerationRequest("lab", 9999, Decoding(), messages=(Message("user", "Scrivi."),))
Loop = Callable[[str, int], Coroutine[None, None, int]]


WHO = ("Il pescatore", "La ragazza", "Un vecchio maestro", "Il guardiano del faro", "Sua sorella")
DOES = ("guardava in silenzio", "raccontava piano", "cercava da anni", "riparava con cura")
WHAT = ("la barca di legno", "il giardino sul mare", "una lettera ingiallita", "la strada per il monte")
WHEN = ("prima dell'alba", "nelle sere d'inverno", "quando pioveva forte", "senza dirlo a nessuno")
WHERE = ("Trani", "Lecce", "Parma", "Urbino", "Siena", "Enna", "Gaeta", "Alba")


def story(seed: int, length: int) -> list[str]:
    """Token texts of healthy Italian in numbered paragraphs: no detector may fire, all have work."""
    pick = random.Random(seed).choice
    tokens: list[str] = []
    paragraph = 0
    while len(tokens) < length:
        paragraph += 1
        text = f"Paragrafo {paragraph} ."
        for _ in range(4):
            text += f" {pick(WHO)} {pick(DOES)} {pick(WHAT)} {pick(WHEN)} tra {pick(WHERE)} e {pick(WHERE)} ."
        for word in text.split(" "):
            half = len(word) // 2 if len(word) > 6 else len(word)
            lead = "" if word == "." else " "
            tokens += [piece for piece in (lead + word[:half], word[half:]) if piece]
        tokens.append("\n\n")
    return tokens[:length]


def wire(seed: int, length: int) -> list[bytes]:
    """The story's chunks as they go over the wire, HTTP chunk framing included."""
    rng = random.Random(seed)
    made: list[bytes] = []
    for i, text in enumerate(story(seed, length), start=1):
        weights = sorted((rng.random() ** 6 for _ in range(20)), reverse=True)
        total = sum(weights) * 1.05
        tops = [
            {"token": f" pa{j}", "logprob": math.log(w / total), "bytes": [32, 112, 97, 48 + j % 10]}
            for j, w in enumerate(weights)
        ]
        logprobs = {
            "content": [{**tops[0], "token": text, "bytes": list(text.encode()), "top_logprobs": tops}]
        }
        number = sum(text.encode()) * 7 % 1200
        choice = {
            "index": 0,
            "delta": {"content": text},
            "logprobs": logprobs,
            "finish_reason": "length" if i == length else None,
            "token_ids": [number],
        }
        usage = {"prompt_tokens": 20, "total_tokens": 20 + i, "completion_tokens": i}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "lab"}
        event = f"data: {json.dumps({**head, 'choices': [choice], 'usage': usage})}\n\n".encode()
        made.append(f"{len(event):x}\r\n".encode() + event + b"\r\n")
    made.append(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    return made


def source(pipe: Connection, length: int, pace: float) -> None:
    """The server process: replay one of four streams a request at `pace` tokens per second each."""
    streams = [wire(seed, length) for seed in range(4)]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        request = await reader.readuntil(b"\r\n\r\n")
        size = next(ln for ln in request.lower().split(b"\r\n") if ln.startswith(b"content-length:"))
        await reader.readexactly(int(size.split(b":")[1]))
        parts = streams[served % len(streams)]
        served += 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        writer.write(head)
        for i, part in enumerate(parts):
            await asyncio.sleep(max(0.0, begun + i / pace - loop.time()))
            writer.write(part)
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
        pipe.send((server.sockets[0].getsockname()[1], sum(map(len, streams[0])) // length))
        await server.serve_forever()

    asyncio.run(run())


async def sdk_loop(url: str, streams: int) -> int:
    """The openai SDK as its documentation shows it; reads the text and nothing else."""

    async def one(client: openai.AsyncOpenAI) -> int:
        seen = 0
        stream = await client.chat.completions.create(
            model="lab",
            messages=[{"role": "user", "content": "Scrivi."}],
            stream=True,
            logprobs=True,
            top_logprobs=20,
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content is not None:
                seen += 1
        return seen

    async with openai.AsyncOpenAI(base_url=url, api_key="EMPTY", max_retries=0) as client:
        return sum(await asyncio.gather(*(one(client) for _ in range(streams))))


async def _ours(url: str, streams: int, *, detect: bool) -> int:
    async def one(endpoint: Endpoint) -> int:
        suite = (
            DetectorSuite(DetectorSpec(language="it", unit_pattern=PATTERN, prompt_text="Scrivi."))
            if detect
            else None
        )
        seen = 0

        def sink(tokens: list[Token]) -> bool:
            nonlocal seen
            seen += len(tokens)
            if suite is not None:
                for token in tokens:
                    suite.update(token)
                if seen % 8 == 0 and suite.alarm is not None:
                    raise SystemExit("the benchmark's text is not healthy: a detector fired")
            return False

        outcome = await endpoint.generate(REQUEST, sink)
        if outcome.failure is not None:
            raise SystemExit(outcome.failure.message)
        return seen

    async with Endpoint(url) as endpoint:
        return sum(await asyncio.gather(*(one(endpoint) for _ in range(streams))))


async def ours_with_detectors(url: str, streams: int) -> int:
    """The whole path of `stresstest run`."""
    return await _ours(url, streams, detect=True)


async def ours_without_detectors(url: str, streams: int) -> int:
    """The stream path alone: tokens, times, entropies."""
    return await _ours(url, streams, detect=False)


async def floor(url: str, streams: int) -> int:
    """aiohttp lines and orjson, nothing kept: what Python can hardly go below."""

    async def one(session: aiohttp.ClientSession) -> int:
        seen = 0
        async with session.post(f"{url}/chat/completions", json={"model": "lab"}) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    seen += len(orjson.loads(line[6:])["choices"])
        return seen

    unlimited = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(read_bufsize=2**22, connector=unlimited) as session:
        return sum(await asyncio.gather(*(one(session) for _ in range(streams))))


async def sdk_on_uvloop(url: str, streams: int) -> int:
    """The SDK's loop on the event loop that we run on: shown beside it, so that nobody has to guess."""
    return await sdk_loop(url, streams)


async def floor_on_uvloop(url: str, streams: int) -> int:
    """The floor on the event loop that we run on."""
    return await floor(url, streams)


LOOPS: dict[str, Loop] = {
    "openai SDK, plain loop, no detectors": sdk_loop,
    "openai SDK, the same on uvloop": sdk_on_uvloop,
    "stresstest, all detectors": ours_with_detectors,
    "stresstest, no detectors": ours_without_detectors,
    "aiohttp + orjson, nothing kept (floor)": floor,
    "aiohttp + orjson on uvloop": floor_on_uvloop,
}
PLAIN = {sdk_loop, floor}
"""What runs on asyncio's own loop, as its documentation has it; the rest as `stresstest run` runs."""


def measure(loop: Loop, url: str, streams: int) -> tuple[float, int, float]:
    """(CPU seconds of this process, tokens, wall seconds) of one pass."""
    wall, cpu = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=None if loop in PLAIN else loop_factory()) as runner:
        tokens = runner.run(loop(url, streams))
    return time.process_time() - cpu, tokens, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=150, help="per stream")
    parser.add_argument("--pace", type=float, default=50.0, help="tokens per second and stream")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--verify", action="store_true", help="also run at 90 %% of the computed saturation")
    args = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=source, args=(theirs, args.tokens, args.pace), daemon=True
    )
    server.start()
    try:
        port, size = ours.recv()
        url = f"http://127.0.0.1:{port}/v1"
        print(f"{args.streams} streams x {args.tokens} tokens at {args.pace:g}/s, {size} bytes a chunk")
        for loop in LOOPS.values():
            measure(loop, url, 2)  # imports, language profiles, caches: paid once, not per token
        cost = dict.fromkeys(LOOPS, math.inf)
        for _ in range(args.rounds):
            for name, loop in LOOPS.items():
                cpu, tokens, _ = measure(loop, url, args.streams)
                cost[name] = min(cost[name], cpu / tokens * 1e6)
        base = cost["openai SDK, plain loop, no detectors"]
        print(f"{'client':<42}{'µs CPU/token':>14}{'of SDK loop':>13}{'streams a core':>16}")
        for name, each in cost.items():
            print(f"{name:<42}{each:>14.1f}{each / base:>12.1%}{1e6 / each / args.pace:>16.0f}")
        whole = cost["stresstest, all detectors"]
        print(f"required: all detectors <= 25 % of the SDK loop: {'met' if whole <= base / 4 else 'MISSED'}")
        if args.verify:
            many = int(1e6 / whole / args.pace * 0.9)
            cpu, tokens, wall = measure(ours_with_detectors, url, many)
            late = wall - args.tokens / args.pace
            print(
                f"{many} streams: {tokens / wall:.0f} tokens/s, {cpu / wall:.0%} of a core, {late:.2f} s late"
            )
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
