"""Memory and CPU of `stresstest guard --policy abort` over an hour of streams.

``python -m benchmarks.guard_soak [--seconds 3600] [--streams 50] [--pace 20] [--write]``

The source of `benchmarks.guard_cost` answers a fixed number of clients, each of which asks again as soon as
its answer has ended. One text in forty repeats a sentence from its middle to its cap, which the guard ends.
The guard's resident memory is read every ten seconds. `--write` puts the table into docs/guard.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import urllib.request
from dataclasses import dataclass
from functools import partial

from benchmarks.guard_cost import Client, cpu_seconds, forked, guard, resident, source, started
from benchmarks.pages import table, write_section
from stresstest.campaign.execution.eventloop import loop_factory

PORT = 18090
TOKENS = 400
TEXTS = 40
READ_EVERY_S = 10.0


@dataclass(frozen=True)
class Reading:
    """second: since the first stream. memory: resident, in KiB. cpu: seconds so far. answers, chunks: read by
    the clients so far."""

    second: float
    memory: float
    cpu: float
    answers: int
    chunks: int


async def soak(processes: list[int], seconds: float, streams: int) -> list[Reading]:
    """Keep all streams busy for `seconds`, and read the guard's memory meanwhile."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    answers = chunks = 0

    async def ask_again() -> None:
        nonlocal answers, chunks
        while loop.time() < begun + seconds:
            over = loop.create_future()
            client = Client(over)
            await loop.create_connection(partial(lambda one: one, client), "127.0.0.1", PORT)
            await over
            answers += 1
            chunks += len(client.ways)

    asking = [asyncio.create_task(ask_again()) for _ in range(streams)]
    readings = [Reading(0.0, resident(processes), cpu_seconds(processes), 0, 0)]
    while loop.time() < begun + seconds:
        await asyncio.sleep(READ_EVERY_S)
        readings.append(
            Reading(loop.time() - begun, resident(processes), cpu_seconds(processes), answers, chunks)
        )
    await asyncio.gather(*asking)
    return readings


def ended_by_the_guard() -> int:
    """Answers that the guard ended, from its own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/guard/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    name = "stresstest_guard_actions_total{"
    return round(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)))


def summary(readings: list[Reading], ended: int) -> str:
    """Each sixth of the soak, a row: the most memory in it."""
    rows, last = [], 1
    for sixth in range(1, 7):
        upto = 1 + (len(readings) - 1) * sixth // 6
        part, last = readings[last:upto], upto
        if not part:
            continue
        end = part[-1]
        spent = (end.cpu - readings[0].cpu) / end.chunks * 1e6 if end.chunks else 0.0
        rows.append(
            (
                f"{end.second / 60:.0f}",
                f"{end.answers:,}",
                f"{end.chunks:,}",
                f"{max(each.memory for each in part) / 1024:.0f} MiB",
                f"{spent:.0f} µs",
            )
        )
    head = ("minutes", "answers", "tokens", "most memory since the last row", "CPU a token")
    return f"{table(head, rows)}\n\nThe guard ended {ended:,} of the {readings[-1].answers:,} answers."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--pace", type=float, default=20.0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with (
        forked(source, TOKENS, given.pace, TEXTS) as (upstream, _),
        started([*guard(PORT, upstream), "--policy", "abort", "--log", "/dev/null"], PORT) as (_, processes),
    ):
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            readings = runner.run(soak(processes, given.seconds, given.streams))
        found = summary(readings, ended_by_the_guard())
    sys.stdout.write(f"{found}\n")
    if given.write:
        write_section(
            "guard.md", "soak", f"{given.streams} streams at {given.pace:g} tokens/s each:\n\n{found}"
        )


if __name__ == "__main__":
    main()
