"""`stresstest run`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from stresstest.cli.options import (
    on_signals,
    progress_for,
    run_settings,
    show_error,
    stdout_console,
    with_run_options,
)
from stresstest.cli.streams import nobody_listens
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError
from stresstest.model import RunStatus

if TYPE_CHECKING:
    from stresstest.workflows.run import Ending

T = TypeVar("T")

_LISTENING_S = 0.5
"""Seconds between two looks at whether anybody still reads."""

EXAMPLES = """\b
Examples:
  stresstest run --model Qwen/Qwen2.5-7B-Instruct-AWQ --lang it
  stresstest run --lang it --rigor quick --repetition-penalty 1.2 --temperature 0.7
  stresstest run --lang en --prompts production.jsonl --horizon 4096 --json > run.json
  stresstest run --resume 20261121-173000-4f2a
"""


@with_run_options
def command(
    options: dict[str, Any],
    resume: Annotated[
        str | None, typer.Option(help="Go on with a stored run (id or its unique beginning).")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Measure where coherence ends and certify a safe max_tokens for one model, task and language."""
    from stresstest.report.console import print_run
    from stresstest.report.document import dumps, empty_document, run_document

    try:
        ending = _play(options, resume)
    except InterruptedEarlyError:
        if json_output:
            typer.echo(dumps(empty_document()))
        raise
    if json_output:
        typer.echo(dumps(run_document(ending.result)))
    else:
        print_run(stdout_console(), ending.result, program=options["program"])
    _exit(ending, options["program"])


def _play(options: dict[str, Any], resume: str | None) -> Ending:
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.store import open_store
    from stresstest.workflows.run import resume_campaign, run_campaign

    if resume is not None:
        _refuse_other_options(resume, options["given"])
    settings = run_settings(options) if resume is None else None
    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> Ending:
        if settings is None:
            return await resume_campaign(
                str(resume),
                store,
                progress,
                base_url=options["base_url"] if "base_url" in options["given"] else None,
                budget_tokens=options["budget_tokens"],
                budget_seconds=options["budget_time"],
                gpus=options["gpus"] if "gpus" in options["given"] else None,
                gpu_exporter=options["gpu_exporter"] if "gpu_exporter" in options["given"] else None,
                api_key=options["api_key"],
                stop=stop,
            )
        return await run_campaign(settings, store, progress, api_key=options["api_key"], stop=stop)

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


async def until_interrupted(play: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """First Ctrl-C (or SIGTERM): stop in good order and keep what was measured. Second: wait for nothing.

    So too when the readers of both streams are gone (`2>&1 | head -1`): nobody waits for an answer then.
    """
    stop = asyncio.Event()
    playing = asyncio.ensure_future(play(stop))

    def ask() -> None:
        if stop.is_set():
            playing.cancel()
            return
        stop.set()
        sys.stderr.write("\nstopping: what was measured is kept; Ctrl-C again to stop at once\n")

    on_signals(ask)
    listened = asyncio.ensure_future(_until_nobody_listens(stop))
    try:
        return await playing
    except asyncio.CancelledError:
        raise InterruptedEarlyError("Interrupted before anything was measured.") from None
    finally:
        listened.cancel()


async def _until_nobody_listens(stop: asyncio.Event) -> None:
    while not nobody_listens():
        await asyncio.sleep(_LISTENING_S)
    stop.set()


def _refuse_other_options(resume: str, given: set[str]) -> None:
    """A resumed run is the run that was begun: only where it is asked, and how long, may be new."""
    if not resume.strip():
        raise UsageError("--resume needs a run: its id, the beginning of it, or latest.")
    where = {"base_url", "gpus", "gpu_exporter"}
    other = sorted(given - where - {"budget_tokens", "budget_time", "store", "api_key", "display"})
    if other:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in other)
        raise UsageError(
            f"{names} cannot be changed when a run is resumed: it goes on as it began.",
            hint="Leave it out, or start a new run.",
        )


def _exit(ending: Ending, program: str) -> None:
    run = ending.result.run
    if ending.error is not None:
        show_error(ending.error)
        _say_resume(program, run.id, kept=len(ending.result.generations))
        raise typer.Exit(ExitCode.ENDPOINT)
    if ending.interrupted:
        _say_resume(program, run.id, kept=len(ending.result.generations))
        raise typer.Exit(ExitCode.INTERRUPTED)
    if run.status is RunStatus.INTERRUPTED:
        sys.stderr.write(
            f"Stopped: the budget is spent. Go on with: {program} run --resume {run.id} and a larger "
            "--budget-tokens or --budget-time\n"
        )
    if not ending.result.threshold.certified:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _say_resume(program: str, run_id: str, kept: int) -> None:
    sys.stderr.write(f"{kept} generations are kept. Go on with: {program} run --resume {run_id}\n")
