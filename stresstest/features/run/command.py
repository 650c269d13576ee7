"""`stresstest run`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import ExitCode
from stresstest.model import RunStatus
from stresstest.options.common import refuse_options, run_settings, stdout_console, with_run_options
from stresstest.options.measurement import exit_if_cut_short, run_measurement

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.campaign.session import CampaignResult
    from stresstest.store.repository import Store

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
        str | None,
        typer.Option(metavar="RUN", help="Continue a stored run: its id, the beginning of it, or latest."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Measure where coherence ends and certify a safe max_tokens for one model, task and language."""
    from stresstest.campaign.conclusion.overruled import beside_others
    from stresstest.campaign.resume import resume_campaign
    from stresstest.campaign.run import run_campaign
    from stresstest.render.json_text import dumps
    from stresstest.render.run_document import empty_document, run_document
    from stresstest.render.run_summary import print_run
    from stresstest.store.location import locate

    given: set[str] = options["given"]
    if resume is not None:
        refuse_options(
            given,
            allowed={"base_url", "gpus", "gpu_exporter", "stall_timeout", "budget_tokens", "budget_time"},
            why="changed when a run is resumed.",
            hint="Remove it, or start a new run.",
        )
    settings = run_settings(options) if resume is None else None

    async def run_or_resume(store: Store, progress: Progress, stop: asyncio.Event) -> CampaignResult:
        if settings is None:
            ending = await resume_campaign(
                str(resume),
                store,
                progress,
                base_url=options["base_url"] if "base_url" in given else None,
                budget_tokens=options["budget_tokens"],
                budget_seconds=options["budget_time"],
                gpus=options["gpus"] if "gpus" in given else None,
                gpu_exporter=options["gpu_exporter"] if "gpu_exporter" in given else None,
                stall_timeout=options["stall_timeout"],
                api_key=options["api_key"],
                stop=stop,
            )
        else:
            ending = await run_campaign(settings, store, progress, api_key=options["api_key"], stop=stop)
        return replace(ending, result=beside_others(store, ending.result))

    ending = run_measurement(options, run_or_resume, empty=empty_document if json_output else None)
    if json_output:
        typer.echo(dumps(run_document(ending.result)))
    else:
        stored_in = locate(options["store"]).shown
        print_run(stdout_console(), ending.result, program=options["program"], stored_in=stored_in)
    _exit(ending, options["program"])


def _exit(ending: CampaignResult, program: str) -> None:
    from stresstest.campaign.served_model import ReplacedServerError
    from stresstest.render.run_summary import larger_budget

    run = ending.result.run
    resume = f"To continue: {program} run --resume {run.id}"
    mixed = isinstance(ending.error, ReplacedServerError)  # no resume goes on with that
    following = f"To look at them: {program} report {run.id}" if mixed else resume
    kept = f"{len(ending.result.generations)} generations are kept. {following}\n"
    exit_if_cut_short(ending.error, interrupted=ending.interrupted, kept=kept)
    if run.status is RunStatus.INTERRUPTED:
        sys.stderr.write(f"Stopped: the budget is spent. {resume}{larger_budget(ending.result)}\n")
    if not ending.result.threshold.certified:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
