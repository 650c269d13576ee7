"""`stresstest diagnose`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import progress_for, run_settings, show_error, stdout_console, with_run_options
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError

if TYPE_CHECKING:
    from stresstest.model import Diagnosis, Plane
    from stresstest.workflows.diagnose import Diagnosed, Options

EXAMPLES = """\b
Examples:
  stresstest diagnose latest
  stresstest diagnose 20261121-173000-4f2a --json
  stresstest diagnose --lang it --rigor quick
  stresstest diagnose latest --arms decoding,context --no-unmask
  stresstest diagnose latest --more-failing 24 --budget-tokens 200000
"""
_ELSEWHERE = {"base_url", "store", "api_key", "display", "budget_tokens"}


@with_run_options
def command(
    options: dict[str, Any],
    run: Annotated[
        str | None,
        typer.Argument(
            help="Stored run: id, its unique beginning, or latest. Without it one is measured first."
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(help="Planes to test: system, decoding, context, by commas. [default: all three]"),
    ] = None,
    no_unmask: Annotated[
        bool, typer.Option("--no-unmask", help="Do not climb on with what cleared the first failure.")
    ] = False,
    no_why: Annotated[
        bool, typer.Option("--no-why", help="Leave out ablations and the trial of the remedy.")
    ] = False,
    more_failing: Annotated[
        int,
        typer.Option(
            min=0,
            help="Ask for up to so many more answers where fewer prompts fail than the tests need.",
        ),
    ] = 0,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Find the plane of a failure (system, decoding, context) by changing one thing at a time.

    The failing answers are cut before their failure and continued: unchanged, alone on the server, under
    other decodings, and with a short context. What keeps them healthy, by an exact test, names the plane;
    then the ladder climbs on with it to the next failure. Goes on where it was interrupted.
    """
    from stresstest.report.diagnosis import diagnosis_document, empty_diagnosis_document, print_diagnosis
    from stresstest.report.document import dumps

    try:
        chosen = _chosen(arms, unmask=not no_unmask, why=not no_why, more_failing=more_failing)
        if run is not None:
            chosen = replace(chosen, budget_tokens=options["budget_tokens"])
        done = _play(options, run, chosen)
    except InterruptedEarlyError:
        if json_output:
            typer.echo(dumps(empty_diagnosis_document()))
        raise
    if json_output:
        typer.echo(dumps(diagnosis_document(done.diagnosis, done.result)))
    else:
        print_diagnosis(stdout_console(), done.diagnosis, done.result)
    _exit(done, options["program"])


def _chosen(arms: str | None, *, unmask: bool, why: bool, more_failing: int) -> Options:
    from stresstest.workflows.diagnose import Options

    return Options(planes=_planes(arms), unmask=unmask, why=why, more_failing=more_failing)


def _play(options: dict[str, Any], run: str | None, chosen: Options) -> Diagnosed:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.model import Diagnosis
    from stresstest.store import open_store
    from stresstest.workflows.diagnose import Diagnosed, diagnose
    from stresstest.workflows.run import run_campaign

    if run is not None:
        _refuse_run_options(options["given"])
    settings = run_settings(options) if run is None else None
    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> Diagnosed:
        reference = run
        if settings is not None:
            ending = await run_campaign(settings, store, progress, api_key=options["api_key"], stop=stop)
            reference = ending.result.run.id
            if ending.interrupted or ending.error is not None:
                found = Diagnosis(reference, ())
                return Diagnosed(found, ending.result, interrupted=ending.interrupted, error=ending.error)
        return await diagnose(
            reference or "latest",
            store,
            progress,
            options=chosen,
            base_url=options["base_url"] if "base_url" in options["given"] else None,
            api_key=options["api_key"],
            stop=stop,
        )

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


def _refuse_run_options(given: set[str]) -> None:
    """A stored run is diagnosed as it was measured: only the server's address and the budget may be new."""
    other = sorted(given - _ELSEWHERE)
    if other:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in other)
        raise UsageError(
            f"{names} cannot be given with a stored run: it is diagnosed as it was measured.",
            hint="Leave it out, or leave the run out to measure a new one.",
        )


def _planes(arms: str | None) -> tuple[Plane, ...]:
    from stresstest.model import Plane

    if arms is None:
        return tuple(Plane)
    wanted = [part.strip() for part in arms.split(",") if part.strip()]
    known = [str(plane) for plane in Plane]
    for name in wanted:
        if name not in known:
            raise UsageError(f"--arms {name!r} is no plane: choose from {', '.join(known)}.")
    if not wanted:
        raise UsageError(f"--arms names no plane: choose from {', '.join(known)}.")
    return tuple(plane for plane in Plane if str(plane) in wanted)


def _exit(done: Diagnosed, program: str) -> None:
    run_id = done.result.run.id
    if done.error is not None:
        show_error(done.error)
        _say_resume(program, done.diagnosis, run_id)
        raise typer.Exit(ExitCode.ENDPOINT)
    if done.interrupted:
        _say_resume(program, done.diagnosis, run_id)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if done.over_budget:
        sys.stderr.write("Stopped: the budget is spent. A larger --budget-tokens goes on from here.\n")
        _say_resume(program, done.diagnosis, run_id)
    if done.over_budget or not done.diagnosis.conclusive:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _say_resume(program: str, found: Diagnosis, run_id: str) -> None:
    links = len(found.chain)
    sys.stderr.write(
        f"What was measured is kept ({links} links known). Go on with: {program} diagnose {run_id}\n"
    )
