"""`stresstest demo`: the main job on the embedded simulator, from an empty machine to a report."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import progress_for, stdout_console, with_global_options
from stresstest.errors import ExitCode, StresstestError, UsageError

if TYPE_CHECKING:
    from stresstest.model import GpuSample
    from stresstest.workflows.diagnose import Diagnosed
    from stresstest.workflows.run import Ending

EXAMPLES = """\b
Examples:
  stresstest demo
  stresstest demo --scenario language-drift --output drift.html
"""
_SCENARIO = "masked-chain"
_ANNOUNCED = re.compile(rb"(http://\S+/v1)\b")
_PATIENCE = 30.0
_HORIZON = 8_192
"""Tokens; a scenario that stays healthy so long must not make the demo longer than a minute."""


@with_global_options
def command(
    options: dict[str, Any],
    scenario: Annotated[
        str, typer.Option(help="What is simulated: a name from `stresstest sim --list`.")
    ] = _SCENARIO,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the report goes; .html and .md are both written.")
    ] = "stresstest-demo.html",
) -> None:
    """Measure a simulated server whose true limit is known: no GPU, no model, under a minute.

    Starts the simulator on a free port, runs the main job on it, finds the plane of what fails by
    intervention, explains what was seen and writes a report. Nothing goes into your store.
    """
    from stresstest.cli.report import save, writer
    from stresstest.report.console import print_run
    from stresstest.report.demo import after, before
    from stresstest.report.diagnosis import print_diagnosis
    from stresstest.report.dossier import Dossier
    from stresstest.simulation.engine.scenariofile import load_scenario

    reports = _report_paths(output)
    known = load_scenario(scenario)
    console = stdout_console()
    with tempfile.TemporaryDirectory(prefix="stresstest-demo-") as folder:
        console.print(before(known.name, known.summary), highlight=False, markup=False)
        with simulator(scenario) as base_url:
            ending, diagnosed, gpus = _measure(base_url, Path(folder) / "demo.sqlite3", options["display"])
        result = ending.result
        print_run(console, result, program=None)
        diagnosis = diagnosed.diagnosis if diagnosed is not None and diagnosed.diagnosis.chain else None
        if diagnosis is not None:
            print_diagnosis(console, diagnosis, result)
        for report in reports:
            save(writer(str(report))([Dossier(result, diagnosis, gpus)]), str(report), quiet=True)
    console.print(after(result, reports), highlight=False, markup=False)
    error = ending.error or (diagnosed.error if diagnosed is not None else None)
    if error is not None:
        raise error
    if ending.interrupted or (diagnosed is not None and diagnosed.interrupted):
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not result.threshold.certified:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _report_paths(output: str) -> tuple[Path, Path]:
    """Where the reports go; UsageError before anything is measured when they cannot go there."""
    named = Path(output)
    if named.suffix.lower() not in (".html", ".md"):
        raise UsageError(f"{output!r}: the demo's report is HTML and Markdown; let it end in .html or .md.")
    if not named.parent.is_dir():
        raise UsageError(f"{str(named.parent)!r} is no folder that the report could go into.")
    reports = (named.with_suffix(".html"), named.with_suffix(".md"))
    for report in reports:
        if report.is_dir():
            raise UsageError(f"{str(report)!r} is a folder; name a file for the report.")
    return reports


def _measure(
    base_url: str, store_file: Path, display: str | None
) -> tuple[Ending, Diagnosed | None, list[GpuSample]]:
    """The main job, the diagnosis of what it found, where it came to its end, and the GPUs meanwhile."""
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.model import RunSettings, Subject
    from stresstest.store import open_store
    from stresstest.workflows.diagnose import Options, diagnose
    from stresstest.workflows.run import run_campaign

    settings = RunSettings(
        subject=Subject("simulated", "narrative", "it"),
        base_url=base_url,
        task_source="narrative",
        rigor="quick",
        horizon=_HORIZON,
    )
    progress = progress_for(display)
    with open_store(str(store_file)) as store:

        async def play(stop: asyncio.Event) -> tuple[Ending, Diagnosed | None]:
            ending = await run_campaign(settings, store, progress, stop=stop)
            if ending.interrupted or ending.error is not None:
                return ending, None
            options = Options(why=False)
            found = await diagnose(ending.result.run.id, store, progress, options=options, stop=stop)
            return ending, found

        try:
            ending, found = run_loop(until_interrupted(play))
            return ending, found, store.gpu_samples(ending.result.run.id)
        finally:
            progress.close()


@contextmanager
def simulator(scenario: str) -> Iterator[str]:
    """The simulator as a process of its own on a free port; its base URL. It ends with the block."""
    command = [
        sys.executable,
        "-m",
        "stresstest",
        "sim",
        "--scenario",
        scenario,
        "--port",
        "0",
        "--speed",
        "max",
    ]
    with tempfile.TemporaryFile() as said:
        # Own process group: Ctrl-C is for the measurement, which then ends the server in good order.
        process: subprocess.Popen[bytes] | None = None
        try:
            with _interrupts_later():
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
                )
            yield _announced(process, said)
        finally:
            if process is not None:
                _end(process)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: between a process's birth and its name it would be orphaned."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _announced(process: subprocess.Popen[bytes], said: Any) -> str:
    """Wait for the line with the address. Raises what the simulator said when it ended instead."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        said.seek(0)
        text = said.read()
        found = _ANNOUNCED.search(text)
        if found:
            return found.group(1).decode()
        if process.poll() is not None:
            sentence = text.decode("utf-8", "replace").strip().removeprefix("stresstest: ")
            raise UsageError(sentence or "The simulator ended before it was ready.")
        time.sleep(0.05)
    raise StresstestError(f"The simulator was not ready after {_PATIENCE:.0f} s.")
