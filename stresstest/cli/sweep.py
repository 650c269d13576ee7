"""`stresstest sweep`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import progress_for, run_settings, show_error, stdout_console, with_run_options
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError

if TYPE_CHECKING:
    from stresstest.workflows.sweep import Swept

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
            help="NAME=VALUE,VALUE,…: a sampling option, model, base_url, lang or task. Repeatable.",
        ),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Every combination, instead of one parameter at a time.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure every cell anew, also those that the store has.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Measure several settings side by side: the smallest change that works, and what it breaks.

    Each cell is a run of its own in the store; one that is there already with the same settings, prompts and
    server is taken as it is, so that an interrupted sweep goes on when it is asked for again. Without --grid
    one parameter at a time is moved away from the first value of each.
    """
    from stresstest.model.sweep import Sweep
    from stresstest.report.document import dumps
    from stresstest.report.sweep import print_sweep, sweep_document

    params = _parsed(param or [])
    try:
        done = _play(options, params, grid=grid, fresh=fresh)
    except InterruptedEarlyError:
        if json_output:
            typer.echo(dumps(sweep_document(Sweep((), complete=False))))
        raise
    if json_output:
        typer.echo(dumps(sweep_document(done.sweep)))
    else:
        print_sweep(stdout_console(), done.sweep)
    _exit(done)


def _parsed(params: list[str]) -> dict[str, list[str]]:
    """``["a=1,2"]`` as ``{"a": ["1", "2"]}``. Raises UsageError."""
    if not params:
        raise UsageError("Nothing to sweep: name at least one --param NAME=VALUE,VALUE.")
    found: dict[str, list[str]] = {}
    for text in params:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or name in found:
            why = "is named twice" if equals else "has no values: write NAME=VALUE,VALUE"
            raise UsageError(f"--param {text!r} {why}.")
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
    return found


def _play(options: dict[str, Any], params: dict[str, list[str]], *, grid: bool, fresh: bool) -> Swept:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.store import open_store
    from stresstest.workflows.sweep import combinations, sweep

    combinations(params, grid=grid)
    settings = run_settings(options)
    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> Swept:
        api_key = options["api_key"]
        return await sweep(
            settings, params, store, progress, grid=grid, fresh=fresh, api_key=api_key, stop=stop
        )

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


def _exit(done: Swept) -> None:
    if done.error is not None:
        show_error(done.error)
        raise typer.Exit(ExitCode.ENDPOINT)
    if done.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not any(cell.threshold.certified for cell in done.sweep.cells):
        raise typer.Exit(ExitCode.INCONCLUSIVE)
