"""Peak memory of a strict campaign with four looks, for growing lengths of the campaign.

Each length runs in a process of its own: the product's campaign, ladder, store and conclusion, with answers
from a pool that the simulated engine has written. The first generations are streamed through the driver and
the detectors, eight at once. The others replay judged answers with tokens of their own: what is in flight
does not depend on how long the campaign already is, and the detectors would take most of the time.

    python -m benchmarks.campaign_memory [--write]        # some minutes of one core
"""

from __future__ import annotations

import argparse
import asyncio
import codecs
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.pages import write_section
from stresstest import clock
from stresstest.campaign.execution.driver import GenerationTask, drive
from stresstest.campaign.execution.events import GenerationFinished
from stresstest.campaign.progress import Progress
from stresstest.campaign.run import run_campaign
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import StreamOutcome, TokenSink
from stresstest.model import (
    EndpointProfile,
    Generation,
    GenerationRequest,
    GenerationVerdict,
    RunSettings,
    Subject,
    Token,
)
from stresstest.simulation.engine import Engine, SimRequest, vocabulary
from stresstest.simulation.engine.scenario.file import load_scenario
from stresstest.simulation.engine.virtual import run_virtual
from stresstest.store import open_store
from stresstest.store.codec import pack_tokens, unpack_tokens
from stresstest.tasks import load_task

LIMIT_MB = 400
LENGTHS = {"1/8": 4_000_000, "1/4": 8_000_000, "1/2": 16_000_000, "1": None}
"""Share of a campaign with four looks -> token budget that leaves room for this many looks and no more."""
_POOL = 61
_UNITS = (20, 82)
"""Least and most paragraphs of an answer: lengths differ so much that every further look raises T."""
_CHUNK = 16
_STREAMED = 80
_SETTINGS = RunSettings(
    Subject("simulated", "narrative", "it"),
    "http://127.0.0.1:9/v1",
    "narrative",
    rigor="strict",
    tighten=True,
    horizon=8192,
    gpus="none",
)


def write_pool() -> list[bytes]:
    """Healthy answers of different lengths, packed."""
    scenario, task, rng = load_scenario("healthy"), load_task("narrative"), random.Random(3)
    packed = []
    for index in range(_POOL):
        prompt = task.prompt("it", index, rng.randint(*_UNITS))
        messages = tuple((m.role, m.content) for m in prompt.messages)
        request = SimRequest(
            tuple(vocabulary.encode_chat(messages)),
            8000,
            chat=True,
            messages=messages,
            seed=index,
            temperature=0.7,
        )
        [sequence] = run_virtual(Engine(scenario), [request], concurrency=1).sequences
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        packed.append(
            pack_tokens(
                [
                    Token(
                        "" if t.id == vocabulary.EOS else decoder.decode(vocabulary.token_bytes(t.id)),
                        t.id,
                        t.logprob,
                        t.entropy,
                        1e9 + 0.02 * place,
                    )
                    for place, t in enumerate(sequence.output)
                ]
            )
        )
    return packed


class PooledEndpoint(Endpoint):
    """Streams the answers of a pool in turn, without a network."""

    pool: Sequence[bytes] = ()

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(_SETTINGS.base_url)
        self.served = 0

    async def __aenter__(self) -> PooledEndpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def generate(self, request: GenerationRequest, sink: TokenSink) -> StreamOutcome:
        started, first, aborted, arrived = clock.now(), None, False, 0
        tokens = tuple(unpack_tokens(self.pool[self.served % len(self.pool)]))[: request.max_tokens]
        self.served += 1
        while arrived < len(tokens) and not aborted:
            chunk = list(tokens[arrived : arrived + _CHUNK])
            arrived += len(chunk)
            first = first or clock.now()
            aborted = sink(chunk)
            await asyncio.sleep(0)
        finish = "stop" if arrived < request.max_tokens else "length"
        return StreamOutcome(
            finish, None, aborted, 50, arrived, "server", started, first, clock.now(), stop_reason=None
        )


class Replay:
    """In place of `drive`: streams the first generations through it and replays judged answers after that."""

    def __init__(self, pool: Sequence[bytes]) -> None:
        self._pool = pool
        self._verdicts = [_judge(unpack_tokens(blob)) for blob in pool]
        self._streamed = 0

    async def __call__(
        self, endpoint: Endpoint, tasks: Sequence[GenerationTask], **options: Any
    ) -> AsyncGenerator[Generation, None]:
        streamed = tasks[: max(0, _STREAMED - self._streamed)]
        self._streamed += len(streamed)
        async for generation in drive(endpoint, streamed, **options):
            yield generation
        for task in tasks[len(streamed) :]:
            generation = self._replayed(task)
            options["on_event"](GenerationFinished(generation))
            yield generation

    def _replayed(self, task: GenerationTask) -> Generation:
        place = task.job.index % len(self._pool)
        tokens = tuple(unpack_tokens(self._pool[place]))
        now = clock.now()
        return Generation(
            task.job,
            task.prompt_id,
            task.prompt_text,
            self._verdicts[place],
            "stop",
            prompt_tokens=50,
            output_tokens=len(tokens),
            started=now,
            first_token=now,
            ended=now,
            tokens=tokens,
        )


def _judge(tokens: Sequence[Token]) -> GenerationVerdict:
    suite = DetectorSuite(DetectorSpec("it", load_task("narrative").language("it").unit_pattern))
    for token in tokens:
        suite.update(token)
    return suite.finish("stop")


async def _profile(*_: object) -> EndpointProfile:
    return EndpointProfile(_SETTINGS.base_url, "simulated", simulated=True)


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(budget: int | None, pool_file: Path) -> dict[str, Any]:
    """One campaign in this process. budget: output tokens; None for all four looks."""
    sizes = [int(size) for size in pool_file.with_suffix(".sizes").read_text().split()]
    packed, pool = pool_file.read_bytes(), []
    for size in sizes:
        pool.append(packed[:size])
        packed = packed[size:]
    PooledEndpoint.pool = pool
    settings = replace(_SETTINGS, budget_tokens=budget)
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(open_store(str(Path(folder) / "s.sqlite3")))
        stack.enter_context(patch("stresstest.campaign.campaign_setup.Endpoint", PooledEndpoint))
        stack.enter_context(patch("stresstest.campaign.campaign_setup.profile_endpoint", _profile))
        stack.enter_context(patch("stresstest.campaign.session.drive", Replay(pool)))
        before = peak_mb()
        ending = asyncio.run(run_campaign(settings, store, Progress()))
    result = ending.result
    return {
        "generations": len(result.generations),
        "tokens": result.tokens_spent,
        "threshold": result.threshold.tokens,
        "before_mb": before,
        "peak_mb": peak_mb(),
        "seconds": time.monotonic() - began,
    }


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| length | generations | output tokens | T | peak memory | of it before the campaign |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {row['generations']:,} | {row['tokens']:,} | {row['threshold']:,} "
        f"| {row['peak_mb']:.0f} MB | {row['before_mb']:.0f} MB |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/memory.md")
    parser.add_argument("--lengths", nargs="*", choices=list(LENGTHS), default=list(LENGTHS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--pool", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        sys.stdout.write(json.dumps(measure(LENGTHS[options.one], options.pool)))
        return 0
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        pool_file = Path(folder) / "pool"
        packed = write_pool()
        pool_file.write_bytes(b"".join(packed))
        pool_file.with_suffix(".sizes").write_text(" ".join(str(len(blob)) for blob in packed))
        for name in options.lengths:
            command = [
                sys.executable,
                "-m",
                "benchmarks.campaign_memory",
                "--one",
                name,
                "--pool",
                str(pool_file),
            ]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            rows[name] = json.loads(done.stdout)
            sys.stderr.write(f"{name}: {rows[name]}\n")
    print(table(rows))
    if options.write:
        write_section("memory.md", "campaign", table(rows))
    return int(max(row["peak_mb"] for row in rows.values()) > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
