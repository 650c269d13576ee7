"""Project files for tests, and `stresstest check` run on them as a pipeline does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from junitparser import JUnitXml

from stresstest.simulation.engine.scenario.file import load_scenario
from tests.support.commands import called, clean_environment
from tests.support.simulated_servers import served

SCENARIO = """
name = "breaks-at-250"
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 250, sigma = 0.1 }
requires = { repetition_penalty = "<1.15" }
"""
PROJECT = """
base_url = "{url}"
rigor = "quick"
horizon = 450
store = "gate.sqlite3"
display = "plain"

[check]
models = ["m"]
languages = ["it"]

[check.decodings.{decoding}]
{sampling}

[check.budgets]
min_safe_tokens = 300
max_increase = "10%"
"""


@contextmanager
def breaking(folder: Path, *, always: bool = False) -> Iterator[str]:
    """The base URL of a simulated server that loops early: always, or unless the penalty is high."""
    file = folder / "breaks.toml"
    file.write_text(SCENARIO.partition("requires")[0] if always else SCENARIO)
    with served(load_scenario(str(file))) as running:
        yield running.base_url


def project(folder: Path, url: str, *, penalty: float | None = None) -> None:
    """Write stresstest.toml into an empty folder."""
    sampling = "" if penalty is None else f"repetition_penalty = {penalty}"
    text = PROJECT.format(url=url, decoding="production", sampling=sampling)
    (folder / "stresstest.toml").write_text(text)


def start(folder: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stresstest", "check", *args],
        cwd=folder,
        env=clean_environment(folder) | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(folder: Path, *args: str, **env: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `stresstest check` run in `folder`, in this process."""
    done = called("check", *args, tmp_path=folder, **env)
    return done.returncode, done.stdout, done.stderr


def cases(file: Path) -> dict[str, Any]:
    """Name → result (None: passed) of the only suite, as a JUnit parser sees it."""
    (suite,) = JUnitXml.fromfile(str(file))
    return {case.name: case.result[0] if case.result else None for case in suite}
