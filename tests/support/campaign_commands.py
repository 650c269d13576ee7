"""`stresstest run` on a scripted server: in this process, in one of its own, or killed in the middle."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stresstest.store import open_store
from tests.support import commands
from tests.support.forking import start


def words(store: Path, *args: str) -> list[str]:
    """A command line on the store, without the program."""
    return ["--store", str(store), "--display", "plain", *args]


def command(store: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "stresstest", *words(store, *args)]


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def run(store: Path, url: str | None, *args: str) -> Finished:
    """`stresstest run` in this process: imports are paid once.

    url: None for a resume, which takes everything from the store.
    """
    options = ["run", "--json"]
    if url is not None:
        options += ["--lang", "it", "--rigor", "quick", "--base-url", url, "--horizon", "1500"]
    return here(store, *options, *args)


def here(store: Path, *args: str) -> Finished:
    """Any command on the store, in this process."""
    return Finished(*commands.command(*words(store, *args)))


def document(done: Finished, code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def contents(store: Path, run_id: str) -> dict[str, tuple[str, int | None, str | None]]:
    with open_store(str(store)) as opened:
        return {g.key: (g.text, g.verdict.onset, g.finish_reason) for g in opened.generations(run_id)}


def stopped_in_the_middle(store: Path, url: str, *args: str, finished: int = 6) -> str:
    """A real run, killed after some generations have finished; its id."""
    options = ("run", "--lang", "it", "--rigor", "quick", "--base-url", url)
    process = start(*words(store, *options, *args))
    assert process.stderr is not None
    seen = 0
    for line in process.stderr:
        seen += " tokens, " in line
        if seen >= finished:
            break
    process.kill()
    process.communicate()
    with open_store(str(store)) as opened:
        return opened.runs()[0].id
