"""`stresstest diagnose`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import ExitCode, UsageError
from stresstest.options.common import refuse_options, run_settings, stdout_console, with_run_options
from stresstest.options.measurement import exit_if_cut_short, run_measurement

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.features.diagnose.workflow import DiagnosisResult
    from stresstest.model import Plane
    from stresstest.store.repository import Store

EXAMPLES = """\b
Examples:
  stresstest diagnose latest
  stresstest diagnose 20261121-173000-4f2a --json
  stresstest diagnose --lang it --rigor quick
  stresstest diagnose latest --arms decoding,context --no-unmask
  stresstest diagnose latest --more-answers 5 --budget-tokens 200000
"""


@with_run_options
def command(
    options: dict[str, Any],
    run: Annotated[
        str | None,
        typer.Argument(
            help="Stored run: id, the beginning of it, or latest. Without it, a new run is measured first."
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(help="Comma-separated planes to test: system, decoding, context. [default: all three]"),
    ] = None,
    no_unmask: Annotated[
        bool,
        typer.Option(
            "--no-unmask", help="Do not look for the next failure with the change that cleared the first."
        ),
    ] = False,
    no_why: Annotated[
        bool, typer.Option("--no-why", help="Skip ablations and the trial of the remedy.")
    ] = False,
    more_answers: Annotated[
        float,
        typer.Option(
            min=0,
            max=1000,
            metavar="TIMES",
            help="If too few prompts fail for the tests, request more answers, up to this multiple of "
            "the run's output tokens; 0 requests none.",
        ),
    ] = 3,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Find the cause of a failure (system, decoding or context) by changing one thing at a time.

    Cuts the failing answers before their failure and continues them: unchanged, one request at a time, with
    other decodings, and with a short context. The change that keeps them healthy, by an exact test, names the
    cause. The run then climbs on with that change to the next failure. An interrupted diagnosis is continued.
    """
    from stresstest.campaign.run import run_campaign
    from stresstest.features.diagnose.console import print_diagnosis
    from stresstest.features.diagnose.document import diagnosis_document, empty_diagnosis_document
    from stresstest.features.diagnose.workflow import DiagnoseOptions, DiagnosisResult, diagnose
    from stresstest.model import Diagnosis
    from stresstest.render.json_text import dumps

    chosen = DiagnoseOptions(
        planes=_parse_planes(arms),
        unmask=not no_unmask,
        why=not no_why,
        more_answers=more_answers,
        budget_tokens=None if run is None else options["budget_tokens"],
        stall_timeout=options["stall_timeout"],
        send_seed=not options["no_seed"],
    )
    if run is not None:
        refuse_options(
            options["given"],
            allowed={"base_url", "budget_tokens", "stall_timeout", "no_seed"},
            why="given with a stored run, which is diagnosed as it was measured.",
            hint="Remove the option, or remove the run to measure a new one.",
        )
    elif not options["lang"] and not options["prompts"]:
        raise UsageError(
            "RUN is missing: a run's id, or latest.",
            hint=f"For example: {options['program']} diagnose latest. To measure a new run first, name the "
            f"language of its answers: {options['program']} diagnose --lang it",
        )
    settings = run_settings(options) if run is None else None

    async def measure(store: Store, progress: Progress, stop: asyncio.Event) -> DiagnosisResult:
        reference = run
        if settings is not None:
            ending = await run_campaign(settings, store, progress, api_key=options["api_key"], stop=stop)
            reference = ending.result.run.id
            if ending.interrupted or ending.error is not None:
                none = Diagnosis(reference, ())
                return DiagnosisResult(none, ending.result, ending.interrupted, error=ending.error)
        return await diagnose(
            reference or "latest",
            store,
            progress,
            options=chosen,
            base_url=options["base_url"] if "base_url" in options["given"] else None,
            api_key=options["api_key"],
            stop=stop,
        )

    done = run_measurement(options, measure, empty=empty_diagnosis_document if json_output else None)
    if json_output:
        typer.echo(dumps(diagnosis_document(done.diagnosis, done.result)))
    else:
        print_diagnosis(stdout_console(), done.diagnosis, done.result, program=options["program"])
    _exit(done, options["program"])


def _parse_planes(arms: str | None) -> tuple[Plane, ...]:
    from stresstest.model import Plane

    if arms is None:
        return tuple(Plane)
    names = [part.strip() for part in arms.split(",") if part.strip()]
    known = [str(plane) for plane in Plane]
    for name in names:
        if name not in known:
            raise UsageError(f"--arms: {name!r} is not a plane. Choose from {', '.join(known)}.")
    if not names:
        raise UsageError(f"--arms names no plane. Choose from {', '.join(known)}.")
    return tuple(plane for plane in Plane if str(plane) in names)


def _exit(done: DiagnosisResult, program: str) -> None:
    run_id = done.result.run.id
    links = len(done.diagnosis.chain)
    found = f"{links} {'failure' if links == 1 else 'failures'} examined"
    kept = f"The results so far are kept ({found}). To continue: {program} diagnose {run_id}\n"
    exit_if_cut_short(done.error, interrupted=done.interrupted, kept=kept)
    if done.over_budget:
        sys.stderr.write(
            "Stopped: the budget is spent. Repeat with a larger --budget-tokens to continue.\n" + kept
        )
    if done.over_budget or not done.diagnosis.conclusive:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
