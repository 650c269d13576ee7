"""`stresstest cost`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.config.settings import parse_share
from stresstest.errors import ExitCode, UsageError
from stresstest.features.cost.outputs import (
    CostExtras,
    Derived,
    derived,
    extras_document,
    parse_extras,
    print_extras,
    write_extras,
)
from stresstest.options.common import (
    language_source,
    run_settings,
    scan_progress_for,
    stdout_console,
    with_run_options_but,
)
from stresstest.options.measurement import exit_if_cut_short, run_measurement
from stresstest.options.output_folder import OutputDir, in_folder
from stresstest.output_file import refuse_inputs, refuse_one_file

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.economics.account import Prices
    from stresstest.features.cost.batches import Workload
    from stresstest.features.cost.workflow import CostResult
    from stresstest.model.cost import Cost
    from stresstest.store.repository import Store

EXAMPLES = """\b
Examples:
  stresstest cost --lang it --prompts production.jsonl --requests 64 -c 32 --gpu-hour-price 2.5
  stresstest cost --lang it --task technical --horizon 4096 --rate 2 --plant 2%
  stresstest cost requests.jsonl --gpu-hour-price 2.5 --picture loops.png
"""


@with_run_options_but("rigor", "margin", "tighten", "no_abort", "no_logprobs")
def command(
    options: dict[str, Any],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Logs with start, end and tokens. The cost is then modelled, and nothing is sent.",
            metavar="FILES",
        ),
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Requests per batch. [default: 32]")] = None,
    pairs: Annotated[
        int | None,
        typer.Option(help="Pairs of batches: one with loops running, one with loops capped. [default: 8]"),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Requests per second, sent regardless of how many are in flight; replaces --concurrency."
        ),
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option(help="Let this share of the requests run to the cap, as stand-ins for loops (vLLM)."),
    ] = None,
    units: Annotated[
        int | None, typer.Option(help="Units that the task's prompts request. [default: 40 % of the cap]")
    ] = None,
    gpu_hour_price: Annotated[
        float | None, typer.Option(help="Price of one GPU-hour, in any currency.")
    ] = None,
    gpu_count: Annotated[
        int, typer.Option(help="Number of GPUs that serve the model.", min=1, max=1_000_000)
    ] = 1,
    field: Annotated[
        list[str] | None,
        typer.Option(help="Path of a field in your records, such as start=path.to.time. Repeatable."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, for logs without token counts.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat a damaged line as an error (exit 2).")
    ] = False,
    abort_loops: Annotated[
        bool,
        typer.Option(
            "--abort-loops", help="Compare with aborting loops at their alarm instead of capping them."
        ),
    ] = False,
    picture: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the timeline and box plots to this file (.png or .svg)."),
    ] = None,
    openmetrics: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the numbers for Prometheus' textfile collector.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the results to this file (.md or .json).")
    ] = None,
    output_dir: OutputDir = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Measure what loops cost the healthy requests on the same GPU, in pairs of batches.

    Each pair sends the same requests twice: once with loops running to the cap, and once with the looping
    requests capped at the length of a healthy one. With FILES, the cost is modelled from logs instead.
    """
    from stresstest.economics.account import Prices

    if gpu_hour_price is not None and not 0 <= gpu_hour_price < 1e9:
        raise UsageError("--gpu-hour-price must be a number of at least 0 and below 1e9.")
    prices = Prices(gpu_count, gpu_hour_price)
    chosen = output_dir is not None and not (picture or openmetrics or output)
    if chosen:
        output = "cost.md"
    picture, openmetrics, output = in_folder(output_dir, picture, openmetrics, output, chosen=chosen)
    extras = parse_extras(picture, openmetrics, aborted=abort_loops)
    if output is not None and Path(output).suffix.lower() not in (".md", ".json"):
        raise UsageError(f"{output!r}: end the file name in .md or .json; it selects the format.")
    refuse_one_file({"--output": output, "--openmetrics": openmetrics, "--picture": picture})
    refuse_inputs([picture, openmetrics, output], [*(files or ()), tokenizer, options["prompts"]])
    if files:
        driving = {"requests": requests, "pairs": pairs, "rate": rate, "plant": plant, "units": units}
        driving["abort-loops"] = abort_loops or None
        _refuse(driving, "needs a server and cannot be combined with files.")
        _show(_cost_from_files(options, files, field, tokenizer, strict, prices), extras, json_output, output)
        return
    reading = {"field": field, "tokenizer": tokenizer, "strict": strict or None}
    _refuse(reading, "applies to files only; name the files to read.")
    from stresstest.features.cost.document import empty_cost_document
    from stresstest.features.cost.workflow import measure_cost

    workload = _workload(options, requests, pairs, rate, plant, units, abort_loops)
    settings = run_settings(options)

    async def measure(store: Store, progress: Progress, stop: asyncio.Event) -> CostResult:
        return await measure_cost(
            settings, workload, prices, store, progress, api_key=options["api_key"], stop=stop
        )

    ending = run_measurement(options, measure, empty=empty_cost_document if json_output else None)
    _show(ending.cost, extras, json_output, output)
    _exit(ending)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise UsageError if one of these options is given (not None)."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} {why}")


def _workload(
    options: dict[str, Any],
    requests: int | None,
    pairs: int | None,
    rate: float | None,
    plant: str | None,
    units: int | None,
    abort: bool,
) -> Workload:
    from stresstest.features.cost.batches import Workload, check_workload

    if rate is not None and "concurrency" in options["given"]:
        raise UsageError(
            "--rate and --concurrency cannot be combined: a fixed rate does not limit the requests in flight."
        )
    try:
        share = 0.0 if plant is None else parse_share(plant)
    except UsageError:
        raise UsageError(f"--plant: {plant!r} is not a share. Write 0.02 or 2%.") from None
    workload = Workload(
        requests=32 if requests is None else requests,
        pairs=8 if pairs is None else pairs,
        rate=rate,
        plant=share,
        units=units,
        abort=abort,
    )
    check_workload(workload)
    return workload


def _cost_from_files(
    options: dict[str, Any],
    files: list[str],
    field: list[str] | None,
    tokenizer: str | None,
    strict: bool,
    prices: Prices,
) -> Cost:
    from stresstest.features.cost.log_files import LogCostSettings, cost_from_files
    from stresstest.records import check_files, expand_names, parse_fields, total_size
    from stresstest.scanning.job import ScanJob

    job = ScanJob(mapped=parse_fields(field or [], ()), language=options["lang"], tokenizer=tokenizer)
    files = expand_names(files)
    check_files(files)
    settings = LogCostSettings(tuple(files), job, prices, strict=strict)
    with closing(scan_progress_for(options["display"], total_size(files))) as progress:
        cost = cost_from_files(settings, progress)
    if job.language and "lang" not in options["given"]:
        cost = replace(cost, notes=(*cost.notes, language_source(job.language)))
    return cost


def _show(cost: Cost, extras: CostExtras, json_output: bool, output: str | None) -> None:
    from stresstest.features.cost.console import print_conclusion, print_cost
    from stresstest.features.cost.document import cost_pieces
    from stresstest.features.cost.markdown import cost_markdown
    from stresstest.options.streams import save, write_document

    # The requests have been paid for: their account is printed and written even if something else fails.
    more = Derived()
    if not json_output:
        print_cost(stdout_console(), cost)
    try:
        more = derived(cost, extras)
    finally:
        if json_output:
            write_document(cost_pieces(cost, extras_document(more)), None)
        try:
            if output is not None and output.lower().endswith(".md"):
                save(cost_markdown(cost, more.best_cap), output)
            elif output is not None:
                write_document(cost_pieces(cost, extras_document(more)), output)
        finally:
            write_extras(cost, extras)
    if not json_output:
        print_extras(more)
        print_conclusion(stdout_console(), cost, more.best_cap)


def _exit(ending: CostResult) -> None:
    cost = ending.cost
    kept = f"Interrupted. {cost.pairs} complete pairs are stored as {ending.document}.\n"
    exit_if_cut_short(ending.error, interrupted=ending.interrupted, kept=kept if ending.error is None else "")
    if ending.over_budget:
        sys.stderr.write(f"Stopped: the budget is spent after {cost.pairs} complete pairs.\n")
    if not cost.pairs or cost.counterfactual is None:
        sys.stderr.write(
            f"stresstest: none of the {cost.requests} requests looped, so there is no cost to "
            f"measure.\n  Request longer answers (--horizon, --units), send more (--requests), or "
            f"plant stand-ins (--plant 2%).\n"
        )
        raise typer.Exit(ExitCode.INCONCLUSIVE)
