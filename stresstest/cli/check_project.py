"""`stresstest check` of a project file, and where any check's outcome is written besides the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stresstest import config
from stresstest.cli.options import progress_for, run_settings, stdout_console
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError
from stresstest.model import SAMPLING

if TYPE_CHECKING:
    from stresstest.model.gate import CellPlan, Project
    from stresstest.report.cases import Suite
    from stresstest.workflows.check_matrix import Checked


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write, and whether to speak to GitHub Actions (by itself where it runs there)."""

    junit: str | None = None
    markdown: str | None = None
    github: bool = False

    def __post_init__(self) -> None:
        """UsageError for a folder that is not there: not only after hours of measuring."""
        for what, path in (("--junit", self.junit), ("--markdown", self.markdown)):
            if path is not None and not Path(path).parent.is_dir():
                raise UsageError(f"{what} {path} cannot be written: there is no folder {Path(path).parent}.")

    def write(self, suites: Sequence[Suite], markdown: str) -> None:
        """Write what was asked for. Raises UsageError for a file that cannot be written."""
        from stresstest.report.github import workflow_commands
        from stresstest.report.junit import junit_xml

        if self.junit is not None:
            write_file("--junit", self.junit, junit_xml(suites, name="stresstest check"))
        if self.markdown is not None:
            write_file("--markdown", self.markdown, markdown)
        if not (self.github or os.environ.get("GITHUB_ACTIONS") == "true"):
            return
        # On stderr, which the runner reads as well: stdout is the result alone.
        for line in workflow_commands(suites):
            sys.stderr.write(line + "\n")
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            write_file("GITHUB_STEP_SUMMARY", summary, markdown + "\n", append=True)


def write_file(what: str, path: str, text: str, *, append: bool = False) -> None:
    """Write or append; UsageError when that fails."""
    try:
        with Path(path).open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be written: {error.strerror or error}.") from None


def refuse_without_baseline(**values: object) -> None:
    """Options of a comparison mean nothing for a project: its budgets are in its file. Raises UsageError."""
    for name, value in values.items():
        if value:
            raise UsageError(
                f"--baseline is missing: --{name.replace('_', '-')} belongs to a comparison of two.",
                hint="For example: --baseline latest. A project's budgets are in its file.",
            )


def check_project_file(options: dict[str, Any], outputs: Outputs, *, anew: bool, json_output: bool) -> None:
    """Check every cell of the settings file in force; leaves with the worst one's code.

    anew: measure everything now. Raises UsageError when there is no file, or it has no [check] table.
    """
    from stresstest.report.cases import gate_suites
    from stresstest.report.check_matrix import gate_document, gate_markdown, print_gate
    from stresstest.report.document import dumps
    from stresstest.workflows.check_matrix import unmeasured

    project = _project(options)
    try:
        done = _play(options, project, anew=anew)
    except InterruptedEarlyError:
        if json_output:
            typer.echo(dumps(gate_document(unmeasured(project))))
        raise
    if json_output:
        typer.echo(dumps(gate_document(done.gate)))
    else:
        print_gate(stdout_console(), done.gate)
    outputs.write(gate_suites(done.gate), gate_markdown(done.gate))
    _exit(done, options["program"])


def _project(options: dict[str, Any]) -> Project:
    from stresstest.config_project import SECTION, project

    found = config.section(SECTION, options["config_file"])
    if found is None:
        raise UsageError(
            "Name --baseline and --candidate, or a project file with a [check] table.",
            hint="For example: stresstest check --config stresstest.toml",
        )
    given: set[str] = options["given"]
    for name in SAMPLING:
        if name in given:
            raise UsageError(
                f"--{name.replace('_', '-')} is not for a project: its decodings are in [check.decodings]."
            )
    path, section = found
    planned = project(section, options, str(path))
    cells = tuple(cell for cell in planned.cells if _selected(cell, options, given))
    if not cells:
        named = ", ".join(f"--{name} {options[name]}" for name in ("model", "task", "lang") if name in given)
        raise UsageError(
            f"{path} has no cell with {named}.", hint=f"Its first cell is {planned.cells[0].name}."
        )
    return replace(planned, cells=cells)


def _selected(cell: CellPlan, options: dict[str, Any], given: set[str]) -> bool:
    """--model, --task and --lang choose among the cells."""
    own = {"model": cell.model, "task": cell.task, "lang": cell.language}
    return all(options[name] == value for name, value in own.items() if name in given)


def _play(options: dict[str, Any], project: Project, *, anew: bool) -> Checked:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.store import open_store
    from stresstest.workflows.check_matrix import check_project

    first = project.cells[0]
    settings = run_settings({**options, "lang": first.language, "task": first.task})
    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> Checked:
        key = options["api_key"]
        return await check_project(project, settings, store, progress, anew=anew, api_key=key, stop=stop)

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


def _exit(done: Checked, program: str) -> None:
    """Interrupted goes first; then a breach is the strongest word, then trouble, then what is undecided."""
    from stresstest.model.gate import Outcome

    codes = {
        Outcome.BREACH: ExitCode.REGRESSION,
        Outcome.TROUBLE: ExitCode.ENDPOINT,
        Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }
    if done.interrupted:
        sys.stderr.write(f"What was measured is kept. Go on with the same: {program} check …\n")
        raise typer.Exit(ExitCode.INTERRUPTED)
    if done.gate.outcome in codes:
        raise typer.Exit(codes[done.gate.outcome])
