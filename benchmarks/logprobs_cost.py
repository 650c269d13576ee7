"""What requesting logprobs costs vLLM's API process for each streamed token, beside requesting none.

``python -m benchmarks.logprobs_cost [--streams 16] [--tokens 400] [--rounds 2]``

Real vLLM on the CPU with the lab model (`make e2e` installs it). CPU time is that of the API process alone:
the engine is another process, so that the numbers hold whatever computes the tokens. Of several rounds the
cheapest counts. Tokens a second that one such process can deliver are the inverse.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp

from tests.lab.serve import serving

PROMPT = "Scrivi una storia in 20 paragrafi numerati."
REQUESTED: dict[str, dict[str, Any]] = {
    "none": {},
    "the token's own": {"logprobs": True, "top_logprobs": 0},
    "top 1": {"logprobs": True, "top_logprobs": 1},
    "top 5": {"logprobs": True, "top_logprobs": 5},
    "top 20": {"logprobs": True, "top_logprobs": 20},
}
MODEL = Path(__file__).parents[1] / "tests/lab/models/lab"


def cpu_seconds(process: int) -> float:
    """User and system time of one process, its children left out."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def stream_all(url: str, extra: dict[str, Any], streams: int, tokens: int) -> None:
    """Read `streams` answers of `tokens` tokens each, at once."""
    fixed = {"model": "lab", "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 0.7}
    fixed |= {"messages": [{"role": "user", "content": PROMPT}], "return_token_ids": True}

    async def one(session: aiohttp.ClientSession, seed: int) -> None:
        async with session.post(f"{url}/chat/completions", json={**fixed, **extra, "seed": seed}) as reply:
            reply.raise_for_status()
            async for _ in reply.content:
                pass

    async with aiohttp.ClientSession(read_bufsize=1 << 22, timeout=aiohttp.ClientTimeout(900)) as session:
        await asyncio.gather(*(one(session, seed) for seed in range(streams)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    cheapest: dict[str, float] = {}
    with serving(MODEL, "lab", extra_args=("--max-num-batched-tokens", "16384")) as (url, group):
        for _ in range(args.rounds):
            for name, extra in REQUESTED.items():
                before = cpu_seconds(group)
                asyncio.run(stream_all(url, extra, args.streams, args.tokens))
                spent = (cpu_seconds(group) - before) / (args.streams * args.tokens)
                cheapest[name] = min(spent, cheapest.get(name, spent))
    print("logprobs requested   µs a token   times none   tokens/s of one process")
    for name, spent in cheapest.items():
        print(f"{name:20} {1e6 * spent:10.0f} {spent / cheapest['none']:12.1f} {1 / spent:18,.0f}")


if __name__ == "__main__":
    main()
