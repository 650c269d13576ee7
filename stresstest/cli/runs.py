"""`stresstest runs list | show | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stresstest.cli.options import stdout_console, with_global_options

app = typer.Typer(
    help="List, show or delete stored runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="""\b
Examples:
  stresstest runs list
  stresstest runs show latest
  stresstest runs delete 20261121-173000-4f2a
""",
)

_LIST = """\b
Examples:
  stresstest runs list
  stresstest runs list --model lab --json
"""
_SHOW = """\b
Examples:
  stresstest runs show latest
  stresstest runs show 20261121-1730 --json
"""
_DELETE = """\b
Examples:
  stresstest runs delete 20261121-173000-4f2a
  stresstest runs delete 20261121-1730 --yes
"""

RunArgument = Annotated[str, typer.Argument(help="Run id, its unique beginning, or latest.")]


@app.command("list", epilog=_LIST)
@with_global_options
def list_runs(
    options: dict[str, Any],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only this model.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the stored runs, newest first."""
    from stresstest.report.document import dumps
    from stresstest.report.recommended import runs_document
    from stresstest.report.runs_console import print_runs
    from stresstest.store import open_store

    with open_store(options["store"]) as store:
        found = [r for r in store.runs() if model in (None, r.subject.model)]
    if json_output:
        typer.echo(dumps(runs_document(found)))
    else:
        print_runs(stdout_console(), found)


@app.command("show", epilog=_SHOW)
@with_global_options
def show(
    options: dict[str, Any],
    run: RunArgument,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Show a stored run's verdict again."""
    from stresstest.report.console import print_run
    from stresstest.report.document import dumps, run_document
    from stresstest.store import open_store
    from stresstest.workflows.conclude import conclude

    with open_store(options["store"]) as store:
        result = conclude(store, run)
    if json_output:
        typer.echo(dumps(run_document(result)))
    else:
        print_run(stdout_console(), result, program=options["program"])


@app.command("delete", epilog=_DELETE)
@with_global_options
def delete(
    options: dict[str, Any],
    run: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a stored run with its generations, samples and threshold."""
    from stresstest.store import open_store
    from stresstest.workflows.conclude import find_run

    with open_store(options["store"]) as store:
        found = find_run(store, run)
        if not yes:
            typer.confirm(f"Delete run {found.id} ({found.settings.subject})?", abort=True)
        store.delete_run(found.id)
    typer.echo(f"deleted {found.id}", err=True)
