"""`stresstest check` of a project file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from stresstest.config import settings as config
from stresstest.errors import ExitCode, UsageError
from stresstest.model import SAMPLING
from stresstest.options.common import run_settings, stdout_console
from stresstest.options.measurement import exit_if_cut_short, run_measurement
from stresstest.output_file import refuse_inputs

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.features.check.output.outputs import CheckOutputs
    from stresstest.features.check.project.workflow import ProjectCheckResult
    from stresstest.model.comparison import CellPlan, Project
    from stresstest.store.repository import Store


def refuse_without_baseline(**values: object) -> None:
    """Options of a comparison mean nothing for a project: its budgets are in its file. Raises UsageError."""
    for name, value in values.items():
        if value:
            raise UsageError(
                f"--baseline is missing: --{name.replace('_', '-')} applies to a comparison of two runs.",
                hint="For example: --baseline latest. A project sets its budgets in its file.",
            )


def check_project_file(
    options: dict[str, Any], outputs: CheckOutputs, *, anew: bool, json_output: bool
) -> None:
    """Check every cell of the settings file in use; leaves with the worst one's code.

    anew: measure everything now. Raises UsageError when there is no file, or it has no [check] table.
    """
    from stresstest.features.check.output.test_cases import gate_suites
    from stresstest.features.check.project.console import print_gate
    from stresstest.features.check.project.document import gate_document
    from stresstest.features.check.project.markdown import gate_markdown
    from stresstest.features.check.project.workflow import check_project, unmeasured_gate
    from stresstest.render.json_text import dumps

    project = _project(options)
    refuse_inputs([outputs.markdown, outputs.junit], [cell.task for cell in project.cells])
    first = project.cells[0]
    settings = run_settings({**options, "lang": first.language, "task": first.task})

    async def check_cells(store: Store, progress: Progress, stop: asyncio.Event) -> ProjectCheckResult:
        key = options["api_key"]
        return await check_project(project, settings, store, progress, remeasure=anew, api_key=key, stop=stop)

    def empty() -> dict[str, Any]:
        return gate_document(unmeasured_gate(project))

    done = run_measurement(options, check_cells, empty=empty if json_output else None)
    if json_output:
        typer.echo(dumps(gate_document(done.gate)))
    else:
        print_gate(stdout_console(), done.gate)
    outputs.write(gate_suites(done.gate), gate_markdown(done.gate))
    _exit(done, options["program"])


def _project(options: dict[str, Any]) -> Project:
    from stresstest.config.project import SECTION, project

    found = config.section(SECTION, options["config_file"])
    if found is None:
        raise UsageError(
            "Name --baseline (and --candidate, if it is not what is served now), or a project file with "
            "a [check] table.",
            hint="For example: stresstest check --config stresstest.toml",
        )
    given: set[str] = options["given"]
    for name in SAMPLING:
        if name in given:
            raise UsageError(
                f"--{name.replace('_', '-')} does not apply to a project: its decodings are in "
                f"[check.decodings]."
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


def _exit(done: ProjectCheckResult, program: str) -> None:
    """Interrupted goes first; then a breach is the strongest word, then trouble, then what is undecided."""
    from stresstest.model.comparison import GateOutcome

    codes = {
        GateOutcome.BREACH: ExitCode.REGRESSION,
        GateOutcome.TROUBLE: ExitCode.ENDPOINT,
        GateOutcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }
    kept = f"The results so far are kept. To continue, repeat the command: {program} check …\n"
    exit_if_cut_short(None, interrupted=done.interrupted, kept=kept)
    if done.gate.outcome in codes:
        raise typer.Exit(codes[done.gate.outcome])
