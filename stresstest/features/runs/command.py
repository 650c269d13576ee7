"""`stresstest runs list | show | delete`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from stresstest.errors import StoreError, UsageError
from stresstest.options.common import stdout_console, with_global_options
from stresstest.options.sections import SectionedCommand

if TYPE_CHECKING:
    from stresstest.store.repository import Store

app = typer.Typer(
    help="List, show or delete stored runs. Without a command, they are listed.",
    invoke_without_command=True,
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

RunArgument = Annotated[str, typer.Argument(help="Run id, the beginning of it, or latest.")]


@app.callback()
def main(context: typer.Context) -> None:
    """List the runs where no command is named."""
    if context.invoked_subcommand is None:
        context.invoke(list_runs, context)


@app.command("list", cls=SectionedCommand, epilog=_LIST)
@with_global_options
def list_runs(
    options: dict[str, Any],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only runs of this model.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the stored runs, newest first."""
    from stresstest.campaign.refusals import rejected_run_ids
    from stresstest.features.runs.console import print_runs
    from stresstest.features.runs.document import runs_document
    from stresstest.render.json_text import dumps
    from stresstest.store import open_store

    with open_store(options["store"]) as store:
        found = [r for r in store.runs() if model in (None, r.subject.model)]
        refused = rejected_run_ids(store, inconclusive=False)
        overruling = _overruling(store)
    if json_output:
        typer.echo(dumps(runs_document(found, refused, overruling)))
    else:
        print_runs(stdout_console(), found, refused, overruling)


def _overruling(store: Store) -> dict[str, str]:
    """As of `overruling_runs`; runs are listed where results cannot be read, too."""
    from stresstest.campaign.conclusion.overruled import overruling_runs

    try:
        return overruling_runs(store)
    except StoreError as error:
        typer.echo(f"Which limits hold beside the others is not known: {error}", err=True)
        return {}


@app.command("show", cls=SectionedCommand, epilog=_SHOW)
@with_global_options
def show(
    options: dict[str, Any],
    run: RunArgument,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Show a stored run's verdict again."""
    from stresstest.campaign.conclusion.conclude import current_result
    from stresstest.render.json_text import dumps
    from stresstest.render.run_document import run_document
    from stresstest.render.run_summary import print_run
    from stresstest.store import open_store

    with open_store(options["store"]) as store:
        result = current_result(store, run)
        found = store.diagnosis(result.run.id)
    if json_output:
        typer.echo(dumps(run_document(result)))
    else:
        better = None if found is None else found.safe_run
        print_run(stdout_console(), result, program=options["program"], better_run=better)


@app.command("delete", cls=SectionedCommand, epilog=_DELETE)
@with_global_options
def delete(
    options: dict[str, Any],
    run: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking for confirmation.")] = False,
) -> None:
    """Delete a stored run with its generations, samples and threshold."""
    from stresstest.store import open_store

    with open_store(options["store"]) as store:
        run_id, what = _doomed(store, run)
        if not yes:
            _confirm(f"Delete run {run_id} ({what})?")
        refused = _refused_limits(store)
        with store.claim(run_id):
            store.delete_run(run_id)
        freed = sorted(limit for limit in refused - _refused_limits(store) if limit != run_id)
    typer.echo(f"deleted {run_id}", err=True)
    if freed:
        again = "the limit of run" if len(freed) == 1 else "the limits of runs"
        typer.echo(
            f"warning: it spoke against {again} {', '.join(freed)}, in force again from now on.", err=True
        )


def _refused_limits(store: Store) -> set[str]:
    """The runs whose limits are not in force, as another speaks against them; none where they cannot be
    read."""
    from stresstest.campaign.conclusion.overruled import overruling_runs

    with suppress(StoreError), catch_warnings():
        simplefilter("ignore")  # what cannot be read is told where it is listed
        return set(overruling_runs(store))
    return set()


def _confirm(question: str) -> None:
    """Go on only if the answer is yes."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:  # the input is at its end, or Ctrl-C
        if sys.stdin.isatty():
            raise KeyboardInterrupt from None
        typer.echo(err=True)
        raise UsageError(
            "Nobody answered, so nothing was deleted.", hint="To delete without being asked: --yes"
        ) from None
    if not agreed:
        typer.echo("Nothing was deleted.", err=True)
        raise typer.Exit(0)


def _doomed(store: Store, reference: str) -> tuple[str, str]:
    """(id, what is measured) of a run to delete, which need not be readable."""
    from stresstest.campaign.conclusion.conclude import find_run
    from stresstest.render.text import subject_name

    try:
        found = find_run(store, reference)
    except StoreError:
        return store.run_id(reference), "it cannot be read"
    return found.id, subject_name(found.settings.subject)
