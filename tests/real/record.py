"""Records the real model's answers on a running server: `python -m tests.real.record OUT.jsonl --url URL`.

One JSON object a line, written when a generation ends; what is in the file, or in `recorded/`, is not
recorded again, so an interrupted recording continues where it stopped. Answers are not aborted at their
onset. Only an answer that has repeated one exact loop for 400 tokens past its alarm is closed, and marked as
aborted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import StreamOutcome, Timeouts
from stresstest.model import GenerationRequest, Token
from tests.real.cells import (
    MAX_TOKENS,
    REPLICATES,
    Planned,
    constrained_plan,
    mild_plan,
    plan,
    structured_plan,
)
from tests.real.loopwatch import PAST_ALARM, tail_loop
from tests.real.recordings import read

CHECKED_EVERY = 32
CONCURRENCY = 24
PATIENCE = Timeouts(first=3600.0, stall=1800.0, probe=600.0)
"""On a busy machine a token can take minutes; the answer is kept."""
MOST_FAILURES = 8


class RecordingError(RuntimeError):
    """The server lost too many requests in a row."""


@dataclass
class Watch:
    """Collects the tokens of one stream and decides when to close it."""

    tokens: list[Token] = field(default_factory=list)
    loop: tuple[int, int] | None = None
    _looked: int = 0

    def __call__(self, arrived: list[Token]) -> bool:
        self.tokens += arrived
        if len(self.tokens) - self._looked < CHECKED_EVERY:
            return False
        self._looked = len(self.tokens)
        self.loop = tail_loop([-1 if token.id is None else token.id for token in self.tokens], PAST_ALARM)
        return self.loop is not None


def recorded_keys(path: Path) -> set[str]:
    """Keys of the generations that the file holds. A last line that was cut off is removed from the file."""
    if not path.exists():
        return set()
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        path.write_bytes(whole)
    return {json.loads(line)["key"] for line in whole.splitlines()}


def document(planned: Planned, model: str, watch: Watch, outcome: StreamOutcome) -> dict[str, Any]:
    """One line: what was asked, how it ended, and the tokens as parallel lists.

    Times are seconds since the request was sent.
    """
    prompt = planned.prompt
    tokens = watch.tokens
    return {
        "key": planned.key,
        "model": model,
        "task": planned.cell.task,
        "language": planned.cell.language,
        "decoding": dict(planned.cell.decoding.sent()),
        "max_tokens": MAX_TOKENS,
        "replicate": planned.replicate,
        "half": planned.half,
        "units": planned.units,
        "seed": planned.seed,
        "prompt_id": prompt.id,
        "prompt": prompt.messages[-1].content,
        "prompt_tokens": outcome.prompt_tokens,
        "finish_reason": None if outcome.aborted else outcome.finish_reason,
        "aborted": outcome.aborted,
        "loop_at_abort": watch.loop,
        "first_token_s": _since(outcome.first_token, outcome.started),
        "seconds": _since(outcome.ended, outcome.started),
        "recorded_at": round(time.time()),
        "texts": [token.text for token in tokens],
        "ids": [token.id for token in tokens],
        "logprobs": [_rounded(token.logprob) for token in tokens],
        "entropies": [_rounded(token.entropy) for token in tokens],
    }


async def record(url: str, out: Path, todo: Iterable[Planned], *, concurrency: int, until: float) -> int:
    """Record what is planned, one line a generation; returns how many. Starts none after `until` (Unix time).

    Raises RecordingError when too many requests in a row fail, EndpointError when the server is unreachable.
    """
    queue = iter(todo)
    async with Endpoint(url, timeouts=PATIENCE) as endpoint:
        found = await profile_endpoint(endpoint, None)
        if not (found.token_ids and found.top_logprobs):
            raise RecordingError("the server sends no token ids or no top logprobs")
        with out.open("a", encoding="utf-8") as file:
            worker = _Worker(endpoint, found.model, queue, file, until)
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(worker.work())
    return worker.written


class _Worker:
    """State shared by the concurrent streams: the plan, the output file, and the failures in a row."""

    def __init__(
        self, endpoint: Endpoint, model: str, queue: Iterator[Planned], file: Any, until: float
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._queue = queue
        self._file = file
        self._until = until
        self._failures = 0
        self.written = 0

    async def work(self) -> None:
        for planned in self._queue:
            if time.time() >= self._until:
                return
            await self._one(planned)

    async def _one(self, planned: Planned) -> None:
        watch = Watch()
        request = GenerationRequest(
            model=self._model,
            max_tokens=MAX_TOKENS,
            decoding=planned.cell.decoding,
            messages=planned.messages,
            seed=planned.seed,
            body=planned.body,
        )
        outcome = await self._endpoint.generate(request, watch)
        if outcome.failure is not None:
            self._failures += 1
            print(f"{planned.key}: {outcome.failure.message}", file=sys.stderr, flush=True)
            if self._failures >= MOST_FAILURES:
                raise RecordingError(f"{MOST_FAILURES} requests in a row were lost")
            return
        self._failures = 0
        line = document(planned, self._model, watch, outcome)
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._file.flush()
        self.written += 1
        ending = "aborted" if outcome.aborted else outcome.finish_reason
        print(
            f"{self.written} {planned.key} {len(watch.tokens)} tokens, {ending}", file=sys.stderr, flush=True
        )


def _since(at: float | None, start: float) -> float | None:
    return None if at is None else round(at - start, 3)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def main() -> None:
    """Record all that is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--replicates", type=int, default=REPLICATES, help="prompts a cell")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after so long")
    parser.add_argument("--plan", choices=["grid", "constrained", "mild", "structured"], default="grid")
    args = parser.parse_args()
    done = recorded_keys(args.out) | {each.key for each in read()}
    plans = {
        "grid": plan(args.replicates),
        "constrained": constrained_plan(),
        "mild": mild_plan(),
        "structured": structured_plan(),
    }
    todo = [planned for planned in plans[args.plan] if planned.key not in done]
    until = time.time() + 60 * args.minutes
    print(f"{len(done)} are recorded, {len(todo)} to do", file=sys.stderr, flush=True)
    try:
        asyncio.run(record(args.url, args.out, todo, concurrency=args.concurrency, until=until))
    except* RecordingError as group:
        sys.exit(str(group.exceptions[0]))


if __name__ == "__main__":
    main()
