"""`stresstest plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from stresstest.options.common import run_settings, stdout_console, with_run_options

EXAMPLES = """\b
Examples:
  stresstest plan --model Qwen/Qwen2.5-7B-Instruct-AWQ --lang it
  stresstest plan --lang it --rigor strict --horizon 8192 --tokens-per-second 900
"""


@with_run_options
def command(
    options: dict[str, Any],
    tokens_per_second: Annotated[
        float | None,
        typer.Option(min=0.1, help="Throughput of your server at this concurrency, to estimate the time."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Show the rungs, requests, worst-case tokens and time of a run. Sends nothing."""
    from stresstest.campaign.campaign_setup import ladder_without_server
    from stresstest.campaign.ladder import worst_case_plan
    from stresstest.features.plan.console import plan_document, print_plan
    from stresstest.render.json_text import dumps
    from stresstest.tasks import load_prompts

    settings = run_settings(options)
    planned = worst_case_plan(ladder_without_server(settings))
    if settings.prompts_file:
        planned = replace(planned, distinct_prompts=load_prompts(settings.prompts_file).distinct)
    if json_output:
        typer.echo(dumps(plan_document(settings, planned, tokens_per_second)))
    else:
        print_plan(stdout_console(), settings, planned, tokens_per_second)
