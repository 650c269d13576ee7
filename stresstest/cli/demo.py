"""`stresstest demo`: the main job on the embedded simulator, from an empty machine to a report."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import progress_for, stdout_console, with_global_options
from stresstest.errors import ExitCode, StresstestError, UsageError

if TYPE_CHECKING:
    from stresstest.workflows.run import Ending

EXAMPLES = """\b
Examples:
  stresstest demo
  stresstest demo --scenario language-drift --output drift.md
"""
_SCENARIO = "qwen2.5-7b-awq-it"
_ANNOUNCED = re.compile(rb"(http://\S+/v1)\b")
_PATIENCE = 30.0


@with_global_options
def command(
    options: dict[str, Any],
    scenario: Annotated[
        str, typer.Option(help="What is simulated: a name from `stresstest sim --list`.")
    ] = _SCENARIO,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the report goes (Markdown).")
    ] = "stresstest-demo.md",
) -> None:
    """Measure a simulated server whose true limit is known: no GPU, no model, under a minute.

    Starts the simulator on a free port, runs the main job on it, explains what was seen and writes a
    report. Nothing goes into your store.
    """
    from stresstest.report.console import print_run
    from stresstest.report.demo import after, before
    from stresstest.report.markdown import run_markdown

    report = Path(output)
    if report.suffix.lower() != ".md":
        raise UsageError(f"{output!r}: the demo's report is Markdown; let it end in .md.")
    if not report.parent.is_dir():
        raise UsageError(f"{report.parent} is no folder that the report could go into.")
    console = stdout_console()
    console.print(before(scenario), highlight=False)
    with tempfile.TemporaryDirectory(prefix="stresstest-demo-") as folder:
        with simulator(scenario) as base_url:
            ending = _measure(base_url, Path(folder) / "demo.sqlite3", options["display"])
        result = ending.result
        print_run(console, result)
        report.write_text(run_markdown(result), encoding="utf-8")
    console.print(after(result, report), highlight=False)
    if ending.error is not None:
        raise ending.error
    if ending.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not result.threshold.certified:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _measure(base_url: str, store_file: Path, display: str | None) -> Ending:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.model import RunSettings, Subject
    from stresstest.store import open_store
    from stresstest.workflows.run import run_campaign

    settings = RunSettings(
        subject=Subject("simulated", "narrative", "it"),
        base_url=base_url,
        task_source="narrative",
        rigor="quick",
    )
    progress = progress_for(display)
    with open_store(str(store_file)) as store:
        try:
            return run_loop(
                until_interrupted(lambda stop: run_campaign(settings, store, progress, stop=stop))
            )
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
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield _announced(process, said)
        finally:
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
