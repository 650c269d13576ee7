"""Eight writers on one store, one of them killed every few seconds; then everything is looked at."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from stresstest.errors import StoreError
from stresstest.model import Generation, RunStatus
from stresstest.store import open_store
from tests.support import commands
from tests.support.fake_campaign import Behaviour, Script, campaign_server
from tests.support.forking import ForkedProcess, start

WRITERS = 8
CONCURRENCY = 8
"""Requests that one writer has in flight at most: the tool's default."""
HORIZON = 120
_RUN = (
    *("run", "--task", "narrative:open", "--lang", "it", "--rigor", "quick"),
    *("--horizon", str(HORIZON), "--gpus", "none"),
)
"""An open task: the scripted 60 tokens have no room for a numbered paragraph, and would be no baseline."""
_TAKEN = "is being measured by another process"


@dataclass
class Soaked:
    """What happened. codes: exit codes by the command's name, None for a kill. refused: resumes of a run that
    another writer was measuring. runs: complete at the end, each with `generations` of them. asked: requests
    that the server got. wrong: what may not be, in words.
    """

    seconds: float = 0.0
    kills: int = 0
    restarts: int = 0
    refused: int = 0
    runs: int = 0
    generations: int = 0
    asked: int = 0
    codes: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """Commands that nobody killed."""
        return sum(n for (_, code), n in self.codes.items() if code is not None)


class _Writer(threading.Thread):
    """Starts one command after the other until it is told to stop."""

    starting = threading.Lock()

    def __init__(self, soak: _Soak, number: int) -> None:
        super().__init__(daemon=True)
        self._soak, self._rng = soak, random.Random(f"{soak.seed}/{number}")
        self.process: ForkedProcess | None = None
        self.killed = False

    def run(self) -> None:
        while not self._soak.over.is_set():
            name, words = self._next()
            with self.starting:  # one socket to the process that forks
                self.killed, self.process = (
                    False,
                    start("--store", self._soak.url, "--display", "plain", *words),
                )
            _, said = self.process.communicate(600)
            code, self.process = self.process.wait(), None
            self._soak.ended(name, None if self.killed else code, said)

    def _next(self) -> tuple[str, tuple[str, ...]]:
        """A run, a resume of one that was killed, a scan or a check."""
        soak = self._soak
        address = ("--base-url", soak.base_url)
        choice = self._rng.random()
        if choice < 0.3 and (open_runs := soak.unfinished()):
            return "resume", ("run", "--resume", self._rng.choice(open_runs))
        if choice < 0.6:
            return "run", (*_RUN, *address)
        if choice < 0.8:
            return "check", ("check", "--baseline", soak.baseline, "--measure", "--gpus", "none", *address)
        return "scan", ("scan", str(soak.log), "--lang", "it")


class _Soak:
    """One store, its writers and the server that they measure."""

    def __init__(self, url: str, folder: Path, script: Script, base_url: str, seed: int) -> None:
        self.url, self.script, self.base_url, self.seed = url, script, base_url, seed
        self.over, self.found, self._lock = threading.Event(), Soaked(), threading.Lock()
        self.log = folder / "log.jsonl"
        rows = (
            {"id": str(i), "response": f"Il faro numero {i} si accese, e il mare tacque."} for i in range(50)
        )
        self.log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        self.baseline = ""

    def here(self, *words: str) -> str:
        """A command in this process, undisturbed; its standard output."""
        code, out, err = commands.command("--store", self.url, "--display", "plain", *words)
        if code != 0:
            self.found.wrong.append(f"{' '.join(words)} ended with {code}: {err[-300:]}")
        return out

    def unfinished(self) -> list[str]:
        """Runs to continue; none while the server is being restarted."""
        try:
            with open_store(self.url) as store:
                return [run.id for run in store.runs() if run.status is not RunStatus.DONE]
        except StoreError:
            return []

    def is_true(self, generation: Generation) -> bool:
        """Whether it is what the scripted model says, whole or up to where it was aborted."""
        job = generation.job
        words, _ = self.script.words(generation.prompt_text, job.seed, job.max_tokens)
        text = "".join(words)
        return generation.text == text or (generation.aborted and text.startswith(generation.text))

    def ended(self, name: str, code: int | None, said: str) -> None:
        with self._lock:
            refused = _TAKEN in said
            self.found.refused += refused
            self.found.codes[name, code] += 1
            cut = self.found.restarts and "The store" in said
            if code not in (None, 0, 4, *((99,) if name == "check" else ())) and not refused and not cut:
                self.found.wrong.append(f"{name} ended with {code}: {said[-300:]}")
            if "Traceback" in said:
                self.found.wrong.append(f"{name}: a traceback")


def soak(
    url: str,
    folder: Path,
    seconds: float,
    *,
    every: float = 3.0,
    seed: int = 1,
    restart: Callable[[], None] | None = None,
) -> Soaked:
    """Write for so many seconds, with a kill about every `every`; then finish what was begun and check it.

    There is one kill at least, however slow the machine. folder: for a log. restart: called once;
    in the middle, it restarts the store's server.
    """
    began = time.monotonic()
    with campaign_server(Behaviour(onset=60, pause=0.05)) as (fake, script):
        soaking = _Soak(url, folder, script, fake.url, seed)
        soaking.baseline = json.loads(soaking.here(*_RUN, "--base-url", fake.url, "--json"))["run_id"]
        writers = [_Writer(soaking, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        _disturb(soaking, writers, seconds, every, restart)
        soaking.over.set()
        for writer in writers:
            writer.join(900)
        for run_id in soaking.unfinished():
            soaking.here("run", "--resume", run_id)
        found = soaking.found
        found.asked = len(script.served)
        _inspect(soaking)
    found.seconds = time.monotonic() - began
    return found


def _disturb(
    soaking: _Soak, writers: list[_Writer], seconds: float, every: float, restart: Callable[[], None] | None
) -> None:
    rng, end = random.Random(soaking.seed), time.monotonic() + seconds
    middle = time.monotonic() + seconds / 2
    while time.monotonic() < end or not soaking.found.kills:
        time.sleep(rng.uniform(0.5, 1.5) * every)
        if restart is not None and soaking.found.restarts == 0 and time.monotonic() > middle:
            soaking.found.restarts = 1
            restart()
        alive = [(writer, process) for writer in writers if (process := writer.process) is not None]
        if alive:
            writer, process = rng.choice(alive)
            writer.killed = True
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(process.pid, signal.SIGKILL)  # its exit code is the writer's to read
                soaking.found.kills += 1


def _inspect(soaking: _Soak) -> None:
    """Every run is done; each generation is there once, and is what the model says to that request."""
    found = soaking.found
    with open_store(soaking.url) as store:
        settings = store.run(soaking.baseline).settings
        expected = {g.key: g.text for g in store.generations(soaking.baseline)}
        for run in store.runs():
            mine = list(store.generations(run.id))
            texts = {g.key: g.text for g in mine}
            found.runs += 1
            found.generations += len(mine)
            if len(texts) != len(mine):
                found.wrong.append(f"run {run.id} holds a generation twice")
            if run.status is not RunStatus.DONE:
                found.wrong.append(f"run {run.id} is {run.status} at the end")
            if store.run(run.id).settings == settings and texts != expected:
                found.wrong.append(f"run {run.id} is not the run that nobody disturbed")
            if not all(soaking.is_true(g) for g in mine):
                found.wrong.append(f"run {run.id} holds an answer that the model did not give")
    most = found.generations + CONCURRENCY * (found.kills + WRITERS * found.restarts)
    if found.asked > most:
        found.wrong.append(
            f"{found.asked} requests for {found.generations} generations after {found.kills} kills"
        )
