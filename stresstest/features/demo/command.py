"""`stresstest demo`: a run, its diagnosis and its report, on the built-in simulator."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

import stresstest
from stresstest.errors import ExitCode, InterruptedEarlyError, StresstestError, UsageError
from stresstest.options.common import program_on, stdout_console, with_global_options
from stresstest.options.output_folder import OutputDir, in_folder
from stresstest.output_file import refuse_link

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.campaign.session import CampaignResult
    from stresstest.features.diagnose.workflow import DiagnosisResult
    from stresstest.store.repository import Store

EXAMPLES = """\b
Examples:
  stresstest demo
  stresstest demo --scenario language-drift --output drift.html
"""
_ANNOUNCED = re.compile(rb"(http://\S+/v1)\b")
_START_TIMEOUT_S = 30.0
SIMULATED_MODEL = "simulated"
_STORE_ENDING = ".sqlite3"
_OUTPUT = "stresstest-demo.html"
_HORIZON = 8_192
"""Output tokens, so that the demo ends within a minute even if nothing fails."""


@with_global_options
def command(
    options: dict[str, Any],
    scenario: Annotated[
        str, typer.Option(help="The scenario to simulate: a name from `stresstest sim --list`.")
    ] = "masked-chain",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Report file; an .html, an .md and an .sqlite3 file (the runs) are written.",
        ),
    ] = _OUTPUT,
    output_dir: OutputDir = None,
) -> None:
    """Measure a simulated server whose true limit is known: no GPU, no model, under a minute.

    Starts the simulator on a free port, measures it, finds the cause of its failures by intervention,
    explains the result and writes a report. The runs are kept in a store beside it, not in yours.
    """
    from stresstest.features.demo.console import intro_text, summary_text
    from stresstest.features.diagnose.console import print_diagnosis
    from stresstest.features.report.formats import writer_for
    from stresstest.options.streams import save
    from stresstest.render.report_data import ReportData
    from stresstest.render.run_summary import print_run
    from stresstest.simulation.engine.scenario.file import load_scenario
    from stresstest.store import open_store

    [placed] = in_folder(output_dir, output)
    reports = _report_paths(placed or output)
    known = load_scenario(scenario)
    console = stdout_console()
    store_file = reports[0].with_suffix(_STORE_ENDING)
    console.print(intro_text(known.name, known.summary, store_file), highlight=False, markup=False)
    with simulator(scenario, SIMULATED_MODEL) as base_url:
        ending, diagnosed = _measure(base_url, store_file, options["display"])
    # The diagnosed result: its verdict and advice are those of the diagnosis.
    result = ending.result if diagnosed is None else diagnosed.result
    diagnosis = diagnosed.diagnosis if diagnosed is not None and diagnosed.diagnosis.chain else None
    if diagnosis is not None:
        print_diagnosis(console, diagnosis, result)
    print_run(console, result, program=None)
    with open_store(str(store_file)) as store:
        run_id = result.run.id
        data = ReportData(result, store.loader(run_id), diagnosis, store.gpu_samples(run_id))
        for report in reports:
            save(writer_for(str(report))([data]), str(report), quiet=True)
    program = program_on(str(store_file))
    summary = summary_text(result, diagnosis, reports, program, _activation())
    for line in summary.splitlines():
        # A command, which is indented, is not wrapped, so that it can be copied.
        console.print(line, highlight=False, markup=False, soft_wrap=line.startswith("  "))
    error = ending.error or (diagnosed.error if diagnosed is not None else None)
    if error is not None:
        raise error
    if ending.interrupted or (diagnosed is not None and diagnosed.interrupted):
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not result.threshold.certified:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _activation() -> Path | None:
    """The script that makes a shell find the program, where `make` installed it and the shell does not."""
    script = Path(sys.prefix, "bin", "activate")
    return None if shutil.which("stresstest") or not script.exists() else script


def _report_paths(output: str) -> tuple[Path, Path]:
    """Paths of the HTML and the Markdown report. Raises UsageError when they cannot be written there."""
    path = Path(output)
    if path.suffix.lower() not in (".html", ".md"):
        raise UsageError(
            f"{output!r}: the demo writes an HTML and a Markdown report; end the name in .html or .md."
        )
    if not path.parent.is_dir():
        raise UsageError(f"{str(path.parent)!r} is not a folder. The report needs an existing one.")
    reports = (path.with_suffix(".html"), path.with_suffix(".md"))
    for report in reports:
        if report.is_dir():
            raise UsageError(f"{str(report)!r} is a folder; name a file for the report.")
    store = path.with_suffix(_STORE_ENDING)
    for written in (*reports, store):
        refuse_link(written)
    for report in reports:
        unasked = report.name not in (path.name, Path(_OUTPUT).with_suffix(report.suffix).name)
        if unasked and report.exists() and not store.exists():
            raise UsageError(
                f"{str(report)!r} exists, and the demo would replace it: it writes an HTML and a Markdown "
                f"report.",
                hint="Choose another name with --output.",
            )
    own = store.name == Path(_OUTPUT).with_suffix(_STORE_ENDING).name
    if store.exists() and not own and not any(report.exists() for report in reports):
        raise UsageError(
            f"{str(store)!r} exists, without the report of a demo: a demo would add its runs to yours.",
            hint="Choose another name with --output.",
        )
    return reports


def _measure(
    base_url: str, store_file: Path, display: str | None
) -> tuple[CampaignResult, DiagnosisResult | None]:
    """The campaign, and its diagnosis; None if the campaign ended early."""
    from stresstest.campaign.run import run_campaign
    from stresstest.features.diagnose.workflow import DiagnoseOptions, diagnose
    from stresstest.model import RunSettings, Subject
    from stresstest.options.measurement import run_measurement

    settings = RunSettings(
        subject=Subject(SIMULATED_MODEL, "narrative", "it"),
        base_url=base_url,
        task_source="narrative",
        rigor="quick",
        horizon=_HORIZON,
    )

    async def run_and_diagnose(
        store: Store, progress: Progress, stop: asyncio.Event
    ) -> tuple[CampaignResult, DiagnosisResult | None]:
        ending = await run_campaign(settings, store, progress, stop=stop)
        _end_if_cancelled()
        if ending.interrupted or ending.error is not None:
            return ending, None
        options = DiagnoseOptions(why=False)
        diagnosed = await diagnose(ending.result.run.id, store, progress, options=options, stop=stop)
        _end_if_cancelled()
        return ending, diagnosed

    return run_measurement({"store": str(store_file), "display": display}, run_and_diagnose)


def _end_if_cancelled() -> None:
    """Raises InterruptedEarlyError after a second Ctrl-C: campaign and diagnosis still return what they have,
    but a demo is not worth the seconds that its report takes."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise InterruptedEarlyError("Interrupted.")


_RUN = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('stresstest', run_name='__main__')"
)
"""A folder, last on the path, and the arguments follow."""


@contextmanager
def simulator(scenario: str, model: str | None = None, *, speed: str = "max") -> Iterator[str]:
    """Run the simulator in a process of its own on a free port; yields its base URL.

    model: the name that it serves; by default the scenario's. speed: as the option of `stresstest sim`.
    """
    arguments = ["sim", "--scenario", scenario, "--port", "0", "--speed", speed]
    if model is not None:
        arguments += ["--served-model-name", model]
    # "-m" alone would take a file of the current folder for the package, which is found where this one was.
    command = [sys.executable, "-P", "-c", _RUN, str(Path(stresstest.__file__).parents[1]), *arguments]
    # In its own process group, Ctrl-C reaches only the measurement, which then stops the server.
    with ExitStack() as stack:
        with _delayed_interrupts():
            # Before its first temporary file a process tries the folder out; interrupted, that leaves a file.
            output = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            stack.callback(_stop, process)
        yield _wait_for_address(process, output)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the simulator: it has nothing to save, and would wait for the answers under way."""
    process.kill()
    process.wait()


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block: a process interrupted while it starts would be orphaned."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


def _wait_for_address(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """The base URL that the simulator prints. Raises UsageError with its message when it exits instead."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        output.seek(0)
        text = output.read()
        found = _ANNOUNCED.search(text)
        if found:
            return found.group(1).decode()
        if process.poll() is not None:
            message = text.decode("utf-8", "replace").strip().removeprefix("stresstest: ")
            raise UsageError(message or "The simulator ended before it was ready.")
        time.sleep(0.05)
    raise StresstestError(f"The simulator was not ready after {_START_TIMEOUT_S:.0f} s.")
