"""kill -9 of `run` at random moments: is the resumed campaign the uninterrupted one?

Each campaign measures a small scenario of the simulator through the command line. It is killed at a random
line of its progress and up to a tenth of a second later, resumed, killed again, and at last left to end. Then
everything that it has stored is compared with a campaign that nobody disturbed.

    nice python -m benchmarks.kill_and_resume [--moments 100] [--seed 1] [--write]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pages import write_section
from stresstest.features.demo.command import simulator
from stresstest.model import Generation
from stresstest.store import open_store

SCENARIO = """\
name = "soon-over"
summary = "Loops at about token 120, so that a whole campaign takes seconds"

[model]
max_model_len = 2_048

[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 120, sigma = 0.25 }
"""
KILLS = 3
"""Kills that one campaign suffers."""
_JITTER_S = 0.1
_OPTIONS = ("run", "--lang", "it", "--rigor", "quick", "--horizon", "384", "--json")
_SAME = (
    "generations", "onsets", "short", "distinct_prompts", "threshold", "safe_max_tokens", "symptoms",
    "planes", "tokens_spent",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """A campaign that is over: its document, what it has stored by key, the lines of its progress."""

    document: dict[str, Any]
    stored: dict[str, tuple[object, ...]]
    lines: int


@dataclass(frozen=True, slots=True)
class Suffered:
    """A campaign that was killed and resumed. kept: generations stored at each kill. differs: in words."""

    kept: tuple[int, ...]
    differs: tuple[str, ...]


def uninterrupted(base_url: str, store: Path) -> Measured:
    """The campaign as it is when nobody disturbs it."""
    done = subprocess.run(_command(store, *_OPTIONS, "--base-url", base_url), capture_output=True, check=True)
    return Measured(json.loads(done.stdout), _stored(store), done.stderr.count(b"\n"))


def killed_and_resumed(base_url: str, store: Path, expected: Measured, rng: random.Random) -> Suffered:
    """The same campaign, killed KILLS times. A process that was too quick to be killed does not count."""
    kept: list[int] = []
    for _ in range(KILLS):
        left = 1.0 - (kept[-1] if kept else 0) / len(expected.stored)
        if not _killed(_next(base_url, store), round(expected.lines * left), rng):
            break
        kept.append(len(_stored(store)))
    done = subprocess.run(_next(base_url, store), capture_output=True, check=True)
    return Suffered(tuple(kept), tuple(_differences(expected, json.loads(done.stdout), _stored(store))))


def _command(store: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "stresstest", "--store", str(store), "--display", "plain", *words]


def _next(base_url: str, store: Path) -> list[str]:
    """Resume the run that there is, else begin one: it may have been killed before it was stored."""
    run_id = _run_id(store)
    if run_id is None:
        return _command(store, *_OPTIONS, "--base-url", base_url)
    return _command(store, "run", "--resume", run_id, "--json")


def _killed(command: list[str], lines: int, rng: random.Random) -> bool:
    """Kill a process at a random one of its next `lines` lines; False when it was over before."""
    moment, jitter = rng.randint(1, max(2, lines)), rng.uniform(0.0, _JITTER_S)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for _ in zip(range(moment), process.stderr, strict=False):
        pass
    time.sleep(jitter)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def _run_id(store: Path) -> str | None:
    if not store.exists():
        return None
    with open_store(str(store)) as opened:
        runs = opened.runs()
    return runs[0].id if runs else None


def _stored(store: Path) -> dict[str, tuple[object, ...]]:
    run_id = _run_id(store)
    if run_id is None:
        return {}
    with open_store(str(store)) as opened:
        return {g.key: _facts(g) for g in opened.generations(run_id)}


def _facts(generation: Generation) -> tuple[object, ...]:
    """What may not depend on when it was measured. Clock times and the server's load may."""
    verdict = generation.verdict
    found = [(s.kind, s.onset, s.alarm, s.confirmed) for s in verdict.symptoms]
    asked = (generation.job, generation.prompt_id, generation.prompt_text)
    ids = tuple((t.id, t.text, t.logprob) for t in generation.tokens)
    ended = (generation.finish_reason, generation.aborted, generation.output_tokens)
    return (*asked, ids, ended, verdict.onset, verdict.alarm, verdict.observed, tuple(found))


def _differences(
    expected: Measured, document: dict[str, Any], stored: dict[str, tuple[object, ...]]
) -> list[str]:
    found = [
        f"{key}: {document[key]} instead of {expected.document[key]}"
        for key in _SAME
        if document[key] != expected.document[key]
    ]
    if document["verdict"]["plane"] != expected.document["verdict"]["plane"]:
        found.append(f"verdict: {document['verdict']['sentence']}")
    for key in sorted(expected.stored.keys() | stored.keys()):
        if stored.get(key) != expected.stored.get(key):
            found.append(f"generation {key} differs")  # noqa: PERF401
    return found


def measure(
    moments: int, seed: int, told: Callable[[Measured, list[Suffered]], None] = lambda *_: None
) -> tuple[Measured, list[Suffered]]:
    """Campaigns until `moments` kills have struck, and the undisturbed one. told: after each campaign."""
    rng = random.Random(seed)
    suffered: list[Suffered] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = folder / "soon-over.toml"
        scenario.write_text(SCENARIO, encoding="utf-8")
        with simulator(str(scenario)) as base_url:
            expected = uninterrupted(base_url, folder / "whole.sqlite3")
            while sum(len(s.kept) for s in suffered) < moments:
                store = folder / f"{len(suffered)}.sqlite3"
                suffered.append(killed_and_resumed(base_url, store, expected, rng))
                told(expected, suffered)
    return expected, suffered


def page(expected: Measured, suffered: list[Suffered], seconds: float) -> str:
    """The section of docs/simulated.md."""
    kept = [n for each in suffered for n in each.kept]
    total = len(expected.stored)
    thirds = Counter(min(2, 3 * n // max(1, total)) for n in kept)
    same = sum(not each.differs for each in suffered)
    threshold = expected.document["threshold"]
    return "\n".join(
        [
            "## Killed and resumed",
            "",
            f"`kill -9` of `run` at {len(kept)} random moments in {len(suffered)} campaigns of {total} "
            f"generations (`python -m benchmarks.kill_and_resume --write`, {seconds:.0f} s). **{same} of "
            f"{len(suffered)}** resumed campaigns equal the uninterrupted one in every token, logprob, onset "
            f"and alarm, in tokens spent, and in the threshold (T = {threshold['tokens']}).",
            "",
            f"At the kills, {min(kept, default=0)} to {max(kept, default=0)} generations were stored (median "
            f"{statistics.median(kept) if kept else 0:.0f}): {thirds[0]} kills in the first third of the "
            f"campaign, {thirds[1]} in the second, {thirds[2]} in the last.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/simulated.md")
    options = parser.parse_args()
    began = time.monotonic()

    def told(expected: Measured, suffered: list[Suffered]) -> None:
        """Each time anew: a long measurement that is stopped leaves the page of what it has done."""
        print(suffered[-1], flush=True)
        if options.write:
            write_section("simulated.md", "kills", page(expected, suffered, time.monotonic() - began))

    expected, suffered = measure(options.moments, options.seed, told)
    print(page(expected, suffered, time.monotonic() - began))
    sys.exit(1 if any(each.differs for each in suffered) else 0)


if __name__ == "__main__":
    main()
