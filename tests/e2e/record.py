"""Records generations of a lab model on a running server: python -m tests.e2e.record --help."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from stresstest.campaign.campaign_setup import prepare_campaign
from stresstest.campaign.execution.driver import drive
from stresstest.campaign.ladder import LadderSetup, Rung
from stresstest.campaign.ladder.plan import ladder_job
from stresstest.model import RIGORS, Decoding, Phase, RunSettings, Subject
from tests.e2e.records import Record, from_generation, write


async def record(
    url: str,
    *,
    model: str,
    task: str,
    language: str,
    decoding: Decoding,
    n: int,
    units: int,
    max_tokens: int,
    seed: int,
    concurrency: int = 8,
    first: int = 0,
) -> list[Record]:
    """`n` generations over distinct prompts, from number `first` on, observed to their cap (nothing is
    aborted)."""
    settings = RunSettings(Subject(model, task, language), url, task, decoding=decoding)
    rung = Rung(1, units, max_tokens, max_tokens)
    async with prepare_campaign(settings) as prepared:
        setup = LadderSetup(
            rigor=RIGORS["quick"],
            horizon=max_tokens,
            tokens_per_unit=prepared.prompts.tokens_per_unit,
            distinct_prompts=prepared.prompts.distinct,
            seed=seed,
        )
        tasks = await prepared.task_factory().create_tasks(
            [ladder_job(setup, Phase.CERTIFY, rung, i) for i in range(first, first + n)]
        )
        records = []
        async for generation in drive(prepared.endpoint, tasks, concurrency=concurrency, abort=False):
            records.append(from_generation(generation, model, task, language, dict(decoding.sent())))
            sys.stderr.write(f"\r{len(records)}/{n} ")
    return sorted(records, key=lambda r: int(r.key.rsplit("/", 1)[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="lab")
    parser.add_argument("--task", default="narrative")
    parser.add_argument("--lang", default="it")
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first, to record in parts")
    parser.add_argument("--units", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=960)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--repetition-penalty", type=float)
    args = parser.parse_args()
    decoding = Decoding(temperature=args.temperature, repetition_penalty=args.repetition_penalty)
    records = asyncio.run(
        record(
            args.url,
            model=args.model,
            task=args.task,
            language=args.lang,
            decoding=decoding,
            n=args.n,
            units=args.units,
            max_tokens=args.max_tokens,
            seed=args.seed,
            concurrency=args.concurrency,
            first=args.first,
        )
    )
    write(args.out, records)


if __name__ == "__main__":
    main()
