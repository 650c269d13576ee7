"""kill -9 of every measuring command at random moments: is the final JSON the uninterrupted one?

Each command measures a small scenario of the simulator. It is killed at a random line of its progress, given
again (`run` as `run --resume`), killed again, and at last left to end. What two undisturbed processes print
alike is then compared; what differs between those two (times, new ids) says nothing.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kill_and_resume import SCENARIO
from stresstest.features.demo.command import simulator
from stresstest.model import RunStatus
from stresstest.store import open_store
from tests.support.forking import ForkedProcess, start

KILLS = 3
"""Kills that one measurement suffers at most."""
_JITTER_S = 0.3
_SMALL = ("--lang", "it", "--rigor", "quick", "--horizon", "384", "--gpus", "none")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", *_SMALL),
    "check": ("check", "--baseline", "BASELINE", "--gpus", "none"),
    "diagnose": ("diagnose", "BASELINE"),
    "sweep": ("sweep", *_SMALL, "--param", "temperature=0.1,0.2"),
    "cost": ("cost", "--lang", "it", "--horizon", "256", "--requests", "8", "--gpus", "none", "--pairs", "2"),
}
_FLEETING = {"run_id", "id", "seconds", "candidate", "runs"}
"""Keys whose values are new in every process, though two may be alike by chance."""
_BY_ARRIVAL = re.compile(
    r"\.arms\[\d+\]\.(?!name$|changed$|clears$)|\.diagnosis_tokens\.|\.evidence\[\d+\]\.fact$|\.naive\b"
)
"""What hangs on the order in which answers arrive: an arm of a diagnosis ends once enough of its forks have
answered, whichever those are, evidence quotes what the server's /metrics said at that moment, and the naive
comparison of `cost` exists where some healthy answers ran beside a loop and some did not."""


@dataclass(frozen=True)
class Killed:
    """One measurement that was killed and given again. moments: seconds after a start; differs: in words."""

    moments: tuple[float, ...]
    differs: tuple[str, ...]


class Bench:
    """A simulated server, a store with a finished run, and what each command prints if undisturbed."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder, self.base_url, self._count = folder, base_url, 0
        prepared = folder / "prepared.sqlite3"
        done = self._start(prepared, "run", *_SMALL, "--base-url", base_url, "--json")
        self.baseline = json.loads(_finished(done))["run_id"]
        self._expected: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, int] = {}

    def expected(self, name: str) -> dict[str, Any]:
        """What two undisturbed processes print alike, by path."""
        if name not in self._expected:
            both = []
            for _ in range(2):
                process = self._begin(self._store(name), name)
                assert process.stderr is not None
                self._lines[name] = sum(1 for _ in process.stderr)
                both.append(dict(_leaves(json.loads(_finished(process)))))
            one, other = both
            self._expected[name] = {
                path: value
                for path, value in one.items()
                if path in other and other[path] == value and not _BY_ARRIVAL.search(path)
            }
        return self._expected[name]

    def kill(self, name: str, rng: random.Random, most: int = KILLS) -> Killed:
        """The command, killed up to `most` times and given again; a process that was too quick is not."""
        expected, store = self.expected(name), self._store(name)
        moments: list[float] = []
        while len(moments) < most:
            process, began = self._begin(store, name), time.monotonic()
            assert process.stderr is not None
            for _ in zip(range(rng.randint(1, self._lines[name])), process.stderr, strict=False):
                pass
            time.sleep(rng.uniform(0.0, _JITTER_S))
            alive = process.poll() is None
            process.kill()
            process.communicate()
            if not alive:
                break
            moments.append(time.monotonic() - began)
        found = dict(_leaves(json.loads(_finished(self._begin(store, name)))))
        differs = (
            f"{path}: {found.get(path)!r} instead of {value!r}"
            for path, value in expected.items()
            if found.get(path) != value
        )
        return Killed(tuple(moments), tuple(differs))

    def _store(self, name: str) -> Path:
        self._count += 1
        path = self.folder / f"{self._count}.sqlite3"
        if "BASELINE" in COMMANDS[name]:
            shutil.copy(self.folder / "prepared.sqlite3", path)
        return path

    def _begin(self, store: Path, name: str) -> ForkedProcess:
        words = [self.baseline if word == "BASELINE" else word for word in COMMANDS[name]]
        unfinished = _unfinished(store) if name == "run" else None
        if unfinished is not None:
            words = ["run", "--resume", unfinished]
        return self._start(store, *words, "--base-url", self.base_url, "--json")

    def _start(self, store: Path, *words: str) -> ForkedProcess:
        return start("--store", str(store), "--display", "plain", *words)


def _unfinished(store: Path) -> str | None:
    """The run to go on with: it may have been killed before it was stored."""
    if not store.exists():
        return None
    with open_store(str(store)) as opened:
        return next((run.id for run in opened.runs() if run.status is not RunStatus.DONE), None)


def _finished(process: ForkedProcess) -> str:
    out, err = process.communicate(900)
    if process.wait() not in (0, 4, 99):
        raise RuntimeError(f"exit {process.wait()}: {err[-500:]}")
    return out


def _leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of every value of a JSON document that is no container."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key not in _FLEETING:
                yield from _leaves(value, f"{path}.{key}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from _leaves(value, f"{path}[{place}]")
    else:
        yield path, document


def measure(
    folder: Path, moments: int, seed: int, names: list[str] | None = None, seconds: float = math.inf
) -> dict[str, list[Killed]]:
    """Measurements of each command in turn until `moments` kills have struck it, or the seconds are over.

    folder: an empty one.
    """
    scenario = folder / "soon-over.toml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    found: dict[str, list[Killed]] = {name: [] for name in names or COMMANDS}
    rngs = {name: random.Random(f"{seed}/{name}") for name in found}
    over = time.monotonic() + seconds
    with simulator(str(scenario)) as base_url:
        bench = Bench(folder, base_url)
        waiting = deque(found)
        while waiting and time.monotonic() < over:
            name = waiting.popleft()
            left = moments - sum(len(each.moments) for each in found[name])
            found[name].append(bench.kill(name, rngs[name], min(KILLS, left)))
            print(name, found[name][-1], flush=True)
            if left > len(found[name][-1].moments):
                waiting.append(name)
    return found
