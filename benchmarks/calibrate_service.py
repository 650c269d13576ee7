"""A fifth of all requests fails at random, over HTTP: what becomes of the campaign, and what is said of them.

Whole `run` campaigns (endpoint, driver, suite, store, conclusion) against the scripted server of the tests.
Of its requests 20 % fail, in equal parts: HTTP 500, a stream cut at a random place of the answer it would
have given, a stream that stalls there. Beside each stands the campaign of the same seed without failures.

    python -m benchmarks.calibrate_service [--campaigns 10] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.pages import table, write_section
from stresstest.campaign import campaign_setup
from stresstest.campaign.progress import Progress
from stresstest.campaign.run import run_campaign
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.model import Plane, RunResult, RunSettings, Subject
from stresstest.store import open_store
from tests.support.fake_campaign import Behaviour, Script
from tests.support.fake_vllm import Answer, Asked, Events, fake_vllm, page

FAILING = 0.2
# A stall is told after this silence; the product waits a minute.
STALL_S = 2.0
ONSET = 300


class Failing(Script):
    """The scripted model behind a server that fails at random."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__(Behaviour(onset=ONSET))
        self.failed: Counter[str] = Counter()
        self._share = share
        self._rng = random.Random(seed)

    def __call__(self, asked: Asked) -> Answer:
        given = super().__call__(asked)
        generation = isinstance(given, Events) and int(asked.body["max_tokens"]) >= 16
        if not generation or self._rng.random() >= self._share:
            return given
        assert isinstance(given, Events)
        kind = self._rng.choice(("500", "cut", "stall"))
        self.failed[kind] += 1
        if kind == "500":
            return page({"error": {"message": "Internal server error", "code": 500}}, 500)
        # Somewhere in the part that the product would have read: failing answers are closed after an alarm.
        there = self._rng.randint(1, min(len(given.parts), 2 * ONSET // 16))
        return replace(given, parts=given.parts[:there], end=kind)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A campaign with failures and its twin without.

    lost: generations that a failure took; system: of those, reported as system; after: lost after a loop had
    been seen; invented: with an onset where the model was still healthy.
    """

    tokens: int
    quiet: int
    failed: Counter[str]
    lost: int
    system: int
    after: int
    invented: int


async def _run(share: float, seed: int, rigor: str, folder: Path) -> tuple[RunResult, Failing]:
    script = Failing(share, seed)
    async with fake_vllm(script) as fake:
        settings = RunSettings(
            Subject("lab", "narrative", "it"),
            fake.url,
            "narrative",
            rigor=rigor,
            horizon=1500,
            seed=seed,
        )
        with open_store(str(folder / f"{seed}-{share}.sqlite")) as store:
            ending = await run_campaign(settings, store, Progress())
    return ending.result, script


def outcome(seed: int, rigor: str, folder: Path) -> Outcome:
    """Both campaigns of a seed."""
    result, script = asyncio.run(_run(FAILING, seed, rigor, folder))
    quiet, _ = asyncio.run(_run(0.0, seed, rigor, folder))
    lost = [g for g in result.generations if g.failure is not None]
    return Outcome(
        tokens=result.threshold.tokens or 0,
        quiet=quiet.threshold.tokens or 0,
        failed=script.failed,
        lost=len(lost),
        system=sum(g.plane is Plane.SYSTEM for g in lost if g.verdict.onset is None),
        after=sum(g.verdict.onset is not None for g in lost),
        invented=sum(g.verdict.onset is not None and g.verdict.onset < 0.9 * ONSET for g in lost),
    )


def page_text(found: list[Outcome], rigor: str) -> str:
    """The section of docs/calibration.md."""
    failed = sum((o.failed for o in found), Counter[str]())
    rows = [
        [
            str(i),
            f"{o.quiet}",
            f"{o.tokens}",
            f"{o.failed['500']} / {o.failed['cut']} / {o.failed['stall']}",
            str(o.lost),
            str(o.system),
            str(o.after),
        ]
        for i, o in enumerate(found, 1)
    ]
    ratios = [o.tokens / o.quiet for o in found if o.quiet]
    return "\n".join(
        [
            "## A fifth of the requests fails",
            "",
            f"{len(found)} `run` campaigns over HTTP (`{rigor}`) against a scripted model that loops at "
            f"{ONSET} ± 10 % tokens; {sum(failed.values())} requests failed ({failed['500']} with HTTP 500, "
            f"{failed['cut']} cut, {failed['stall']} stalled), each campaign beside its twin without "
            "failures (`python -m benchmarks.calibrate_service --write`).",
            "",
            f"- Lost before any onset: {sum(o.lost - o.after for o in found)} generations; reported as "
            f"system: {sum(o.system for o in found)}. Lost after a loop had been seen: "
            f"{sum(o.after for o in found)}; with an onset where the model was still healthy: "
            f"{sum(o.invented for o in found)}.",
            f"- Certified T with failures over T without: median {median(ratios):.2f}, "
            f"{min(ratios):.2f} to {max(ratios):.2f}.",
            "",
            table(
                ["campaign", "T quiet", "T failing", "500 / cut / stall", "lost", "system", "after a loop"],
                rows,
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=10)
    parser.add_argument("--rigor", default="quick")
    parser.add_argument("--write", action="store_true", help="write docs/calibration.md")
    options = parser.parse_args()
    # No option sets the waits inside a stream, and a minute a stall would take hours.
    setattr(campaign_setup, "Endpoint", partial(Endpoint, timeouts=Timeouts(stall=STALL_S)))  # noqa: B010
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.campaigns + 1):
            found.append(outcome(seed, options.rigor, Path(folder)))
            print(found[-1], flush=True)
    if options.write:
        write_section("calibration.md", "service", page_text(found, options.rigor))
    wrong = [o for o in found if o.system + o.after != o.lost or o.invented]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
