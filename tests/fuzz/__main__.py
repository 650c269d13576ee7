"""`make fuzz`: mutated streams by the million. `python -m tests.fuzz --count 1000000 --seed 1`."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import random
import sys
import time
from collections import Counter

from tests.fuzz.mutation import KINDS, SCALE, Change, corpus, mutated
from tests.fuzz.reading import Read, check, endpoint, read

_HANG = 30
"""Seconds that a thousand streams may take at the very most before they count as hanging."""
_LONGEST_SHOWN = 2000


def draw(rng: random.Random, streams: tuple[bytes, ...]) -> bytes:
    """One to five changes of one stream."""
    changes = [
        Change(rng.randrange(KINDS), rng.randrange(SCALE), rng.randrange(SCALE))
        for _ in range(min(5, int(rng.expovariate(0.7)) + 1))
    ]
    return mutated(rng.choice(streams), changes, streams)


def cuts(rng: random.Random, stream: bytes) -> list[bytes]:
    """The stream in up to eight reads."""
    marks = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(8)))
    return [stream[a:b] for a, b in zip([0, *marks], [*marks, len(stream)], strict=True)]


async def fuzz(count: int, seed: int) -> Counter[str]:
    """Read `count` streams; what became of them, counted. Raises what the first bad one raises."""
    rng, streams, asked = random.Random(seed), corpus(), endpoint()
    ends: Counter[str] = Counter()
    for number in range(count):
        if number % 1000 == 0:
            faulthandler.dump_traceback_later(_HANG, exit=True)
        stream = draw(rng, streams)
        try:
            found = await read(cuts(rng, stream), asked)
            check(found, stream)
            if number % 8 == 0:
                whole = await read([stream], asked)
                assert whole.facts == found.facts, "the result depends on how the bytes were cut"
            elif number % 8 == 1:
                stopped = await read([stream], asked, stop_at=rng.randrange(1, 4))
                check(stopped, stream)
        except BaseException:
            sys.stderr.write(f"stream {number} of seed {seed}: {stream[:_LONGEST_SHOWN]!r}\n")
            raise
        ends[ending(found)] += 1
        ends["tokens"] += len(found.tokens)
    faulthandler.cancel_dump_traceback_later()
    return ends


def ending(found: Read) -> str:
    """What a stream came to, in a word."""
    if found.failure is not None:
        return str(found.failure.kind)
    reason = found.stream.assembler.finish_reason
    return f"finish {reason}" if reason in {"stop", "length", "repetition"} else "another finish"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.monotonic()
    ends = asyncio.run(fuzz(args.count, args.seed))
    seconds = time.monotonic() - began
    tokens = ends.pop("tokens")
    told = ", ".join(f"{kind} {n:,}" for kind, n in ends.most_common())
    print(
        f"{args.count:,} mutated streams in {seconds:.0f} s, seed {args.seed}: "
        "no crash, no hang, all accounted for"
    )
    print(f"{tokens:,} tokens; ended by: {told}")


if __name__ == "__main__":
    main()
