"""`stresstest sweep`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import ExitCode, UsageError
from stresstest.options.common import run_settings, stdout_console, with_run_options
from stresstest.options.measurement import exit_if_cut_short, run_measurement

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.features.sweep.workflow import SweepResult
    from stresstest.store.repository import Store

EXAMPLES = """\b
Examples:
  stresstest sweep --lang it --rigor quick --param repetition_penalty=1.0,1.05,1.1,1.15,1.2
  stresstest sweep --lang it --param repetition_penalty=1.0,1.15 --param temperature=0.7,1.0 --grid
  stresstest sweep --lang it --param model=Qwen/Qwen2.5-7B-Instruct-AWQ,mistral-7b --json
"""


@with_run_options
def command(
    options: dict[str, Any],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            help="NAME=VALUE,VALUE,…, where NAME is a sampling option, model, base_url, lang or task. "
            "Repeatable. Required.",
        ),
    ] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Measure every combination instead of varying one parameter at a time."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure every cell again, including those already in the store.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Compare settings side by side: find the mildest change that works, and what it breaks.

    Each cell is a separate run in the store. A stored run with the same settings, prompts and server is
    reused, so repeating the command continues an interrupted sweep. Without --grid, one parameter at a time
    is varied from the first value of each. Where a value helps, some prompts of the first cell are asked
    again at the end, to show that its failures have not gone away by themselves.
    """
    from stresstest.config.credentials.bound_key import BoundKey
    from stresstest.features.sweep.console import chosen_limit, farthest_cell, print_sweep, stored_words
    from stresstest.features.sweep.document import sweep_document
    from stresstest.features.sweep.workflow import parameter_combinations, run_sweep
    from stresstest.model.sweep import Sweep
    from stresstest.render.json_text import dumps
    from stresstest.render.run_summary import print_next

    params = _parse_parameters(param or [])
    parameter_combinations(params, grid=grid)
    settings = run_settings(options)

    async def measure(store: Store, progress: Progress, stop: asyncio.Event) -> SweepResult:
        api_key = options["api_key"]
        if isinstance(api_key, BoundKey):
            api_key = api_key.with_chosen(params.get("base_url", []))
        return await run_sweep(
            settings, params, store, progress, grid=grid, fresh=fresh, api_key=api_key, stop=stop
        )

    def empty() -> dict[str, Any]:
        return sweep_document(Sweep((), complete=False))

    done = run_measurement(options, measure, empty=empty if json_output else None)
    if json_output:
        typer.echo(dumps(sweep_document(done.sweep)))
    else:
        console = stdout_console()
        print_sweep(console, done.sweep)
        if best := farthest_cell(done.sweep):
            page = (
                f"{options['program']} report {best.run_id} -o report.html",
                "this cell, as a page to share",
            )
            flags = f"{options['program']} recommend --format vllm --like {best.run_id}"
            limit = (flags, "the largest limit, as server flags")
            print_next(console, page if chosen_limit(best).needs_no_cap else limit)
    if done.stored:
        note = stored_words(done.stored, len(done.sweep.cells))
        typer.echo(f"note: {note}", err=True)
    exit_if_cut_short(done.error, interrupted=done.interrupted)
    control = done.sweep.control
    unsure = control is not None and not control.confirms
    if unsure or not any(cell.threshold.certified for cell in done.sweep.cells):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _parse_parameters(params: list[str]) -> dict[str, list[str]]:
    """``["a=1,2"]`` as ``{"a": ["1", "2"]}``. Raises UsageError."""
    if not params:
        raise UsageError("Nothing to sweep. Give at least one --param NAME=VALUE,VALUE.")
    found: dict[str, list[str]] = {}
    for text in params:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or name in found:
            why = "has no values; write NAME=VALUE,VALUE" if equals else "is given twice"
            raise UsageError(f"--param {text!r} {why}.")
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
    return found
