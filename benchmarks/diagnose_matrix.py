"""`diagnose` against hidden truths: which planes it names, on generated scenarios of the simulator.

    python -m benchmarks.diagnose_matrix --count 65 --out matrix.jsonl            # resumes where it stopped
    python -m benchmarks.diagnose_matrix --out matrix.jsonl --write               # docs/diagnosis.md from it

Every world is measured with `run`'s main job at rigor quick and then diagnosed, as a user would. Scored are
the first plane of the chain and the whole chain.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.diagnose_worlds import World, worlds
from benchmarks.pages import write_section
from stresstest.campaign.execution.eventloop import run as run_loop
from stresstest.campaign.progress import Progress
from stresstest.campaign.run import run_campaign
from stresstest.diagnosis.intervention.forks import select_failing
from stresstest.features.demo.command import simulator
from stresstest.features.diagnose.workflow import DiagnoseOptions, DiagnosisResult, diagnose
from stresstest.model import RunSettings, Subject
from stresstest.store import open_store

SEED = 8_112_604
"""Of the test. The worlds of seed 20261121 are for development: one of them changed a rule."""
_ENOUGH = 16
_MOST_TOKENS = 3
_PLANES = ("system", "decoding", "context")
UNREACHABLE = "no declared change clears"
"""Of these worlds "inconclusive" is the right answer."""


_TRUTHS = {"inconclusive": "decoding, but no declared change clears it"}


def main() -> None:
    """Measure what is not in the file yet; with --write, put the page's tables down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=65)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="worlds at once")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further world after so many")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--why", action="store_true", help="with ablations and remedy, which costs more")
    args = parser.parse_args()
    done = _read(args.out)
    until = time.monotonic() + 60 * args.minutes
    if not args.write:
        left = [w for w in worlds(args.count, args.seed)[args.first :] if w.name not in done]
        with ThreadPoolExecutor(args.jobs) as jobs:
            begun = [jobs.submit(_measured, world, until=until, why=args.why) for world in left]
            for row in filter(None, (each.result() for each in as_completed(begun))):
                done[row["name"]] = row
                with args.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
                print(_line(row), flush=True)
    tables = page(list(done.values()))
    print(tables)
    if args.write:
        write_section("diagnosis.md", "matrix", tables)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["name"]: row for row in rows}


def _measured(world: World, *, until: float, why: bool) -> dict[str, Any] | None:
    """The world's row, from a process of its own; None where the time is over."""
    if time.monotonic() >= until:
        return None
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(measure, world, why=why).result()


def measure(world: World, *, why: bool = False) -> dict[str, Any]:
    """Run and diagnose one world; what was true and what was said."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(world.toml(), encoding="utf-8")
        with simulator(str(file)) as base_url:
            done, prompts = _diagnosed(world, base_url, Path(folder) / "store.sqlite3", why=why)
    found = done.diagnosis
    return {
        "name": world.name,
        "kind": world.kind,
        "truth": list(world.truth),
        "either": list(world.either),
        "chain": [
            {"plane": link.plane, "basis": link.basis, "lacking": link.lacking} for link in found.chain
        ],
        "sentence": found.sentence,
        "prompts": prompts,
        "run_tokens": found.run_tokens,
        "arm_tokens": found.arm_tokens,
        "child_tokens": found.child_tokens,
        "added_answers": found.added_answers,
        "added_tokens": found.added_tokens,
        "seconds": round(time.monotonic() - started, 1),
        "error": str(done.error) if done.error else None,
    }


def _diagnosed(world: World, base_url: str, store_file: Path, *, why: bool) -> tuple[DiagnosisResult, int]:
    settings = RunSettings(
        subject=Subject(world.name, world.task, world.language),
        base_url=base_url,
        task_source=world.task,
        rigor="quick",
        decoding=world.decoding,
        horizon=world.horizon,
        gpus="none",
    )
    with open_store(str(store_file)) as store:

        async def play() -> tuple[DiagnosisResult, int]:
            ending = await run_campaign(settings, store, Progress())
            prompts = len(select_failing(ending.result.generations))
            done = await diagnose(ending.result.run.id, store, Progress(), options=DiagnoseOptions(why=why))
            return done, prompts

        return run_loop(play())


def said(row: dict[str, Any]) -> str:
    """The first plane that was named; "inconclusive", or "nothing" where the chain is empty."""
    if not row["chain"]:
        return "nothing"
    return row["chain"][0]["plane"] or "inconclusive"


def true(row: dict[str, Any]) -> str:
    """The first plane of the truth; where two are as right, the one that was said if it is among them."""
    if not row["truth"]:
        return "nothing"
    if row["kind"] == UNREACHABLE and said(row) == "inconclusive":
        return "inconclusive"
    return said(row) if said(row) in row["either"] else str(row["truth"][0])


def chain_right(row: dict[str, Any]) -> bool:
    """Every link names the truth's plane, in order, and none is missing."""
    planes = [link["plane"] for link in row["chain"]]
    if row["kind"] == UNREACHABLE and planes == [None]:
        return True
    if row["either"]:
        return bool(planes) and planes[0] in row["either"]
    return bool(planes == row["truth"])


def _line(row: dict[str, Any]) -> str:
    mark = "ok " if said(row) == true(row) else "?? " if said(row) == "inconclusive" else "WRONG"
    truth = "/".join(row["truth"]) or "nothing"
    return f"{mark} {row['name']} [{row['kind']}] {truth}: {row['sentence']} ({row['seconds']} s)"


def page(rows: list[dict[str, Any]]) -> str:
    """The tables of docs/diagnosis.md."""
    counts = Counter((true(row), said(row)) for row in rows)
    truths = [t for t in (*_PLANES, "nothing", "inconclusive") if any(key[0] == t for key in counts)]
    answers = (*_PLANES, "nothing", "inconclusive")
    lines = [f"| truth \\ said | {' | '.join(answers)} |", "| --- |" + " ---: |" * len(answers)]
    lines += [f"| {_TRUTHS.get(t, t)} | {' | '.join(str(counts[t, a]) for a in answers)} |" for t in truths]
    conclusive = [r for r in rows if said(r) != "inconclusive"]
    right = sum(said(r) == true(r) for r in conclusive)
    wrong = [
        r for r in conclusive if said(r) != true(r) and r["chain"] and r["chain"][0]["basis"] == "confirmed"
    ]
    solvable = [r for r in rows if r["prompts"] >= _ENOUGH and r["kind"] != UNREACHABLE]
    undecided = [r for r in solvable if said(r) == "inconclusive"]
    chains = [r for r in rows if len(r["truth"]) != 1]
    asked = [r for r in rows if r["arm_tokens"] and r["run_tokens"]]
    lines += [
        "",
        f"- {len(rows)} worlds; {right} of {len(conclusive)} conclusive verdicts name the right plane",
        f"- confirmed and wrong: {len(wrong)}" + "".join(f"; {r['name']}: {r['sentence']}" for r in wrong),
        f"- inconclusive where {_ENOUGH} failing prompts exist and some declared change clears: "
        f"{len(undecided)} of {len(solvable)}"
        + "".join(f"; {r['name']}: {r['sentence']}" for r in undecided),
        f"- whole chains right, of those of other than one link: {sum(map(chain_right, chains))} of "
        f"{len(chains)}",
    ]
    if asked:
        arms = sorted(r["arm_tokens"] / r["run_tokens"] for r in asked)
        every = sorted((r["arm_tokens"] + r["child_tokens"]) / r["run_tokens"] for r in asked)
        under = sum(share <= _MOST_TOKENS for share in every)
        lines += [
            f"- output tokens, as a multiple of the stored run's: interventions {median(arms):.2f} (median), "
            f"at most {arms[-1]:.2f}",
            f"- the same with the campaigns that climbed on: {median(every):.2f}, at most {every[-1]:.2f}; "
            f"{under} of {len(every)} diagnoses stay within {_MOST_TOKENS}",
        ]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    lines += ["", "| kind of world | worlds | first plane right | inconclusive | whole chain right |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for kind, of in sorted(kinds.items()):
        good = sum(said(r) == true(r) for r in of)
        open_ = sum(said(r) == "inconclusive" for r in of)
        lines.append(f"| {kind} | {len(of)} | {good} | {open_} | {sum(map(chain_right, of))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
