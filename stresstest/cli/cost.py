"""`stresstest cost`."""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.cost_extras import (
    Extras,
    checked_extras,
    extras_document,
    print_extras,
    simulated,
    write_extras,
)
from stresstest.cli.options import (
    progress_for,
    run_settings,
    show_error,
    stdout_console,
    with_run_options_but,
)
from stresstest.config import parse_share
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError

if TYPE_CHECKING:
    from stresstest.economics.account import Prices
    from stresstest.model.cost import Cost
    from stresstest.workflows.cost import CostEnding
    from stresstest.workflows.cost_bench import Workload

EXAMPLES = """\b
Examples:
  stresstest cost --lang it --prompts production.jsonl --requests 64 -c 32 --gpu-hour-price 2.5
  stresstest cost --lang it --task technical --horizon 4096 --rate 2 --plant 2%
  stresstest cost requests.jsonl --gpu-hour-price 2.5 --picture loops.png
  stresstest cost requests.jsonl --simulate rate=5%,max_tokens=2000 --simulate max_num_seqs=32
"""


@with_run_options_but("rigor", "margin", "tighten", "no_abort")
def command(
    options: dict[str, Any],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Logs with start, end and tokens: the cost is modelled, nothing is sent.", metavar="FILES"
        ),
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Requests of one batch. [default: 32]")] = None,
    pairs: Annotated[
        int | None, typer.Option(help="Pairs of batches: loops run, loops capped. [default: 8]")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests a second, whether answered or not, instead of --concurrency."),
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option(help="Have this share of the requests run to the cap, as stand-ins for loops (vLLM)."),
    ] = None,
    units: Annotated[
        int | None, typer.Option(help="Units that a task's prompts ask for. [default: 40 % of the cap]")
    ] = None,
    gpu_hour_price: Annotated[
        float | None, typer.Option(help="Price of one GPU-hour, in any currency.")
    ] = None,
    gpu_count: Annotated[int, typer.Option(help="GPUs that serve the model.", min=1)] = 1,
    field: Annotated[
        list[str] | None,
        typer.Option(help="Where something lies in your records: start=path.to.time, end=… (again)."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, for logs without token counts.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged line is an error (exit 2).")] = False,
    abort_loops: Annotated[
        bool,
        typer.Option(
            "--abort-loops", help="Compare with aborting loops at their alarm, instead of capping them."
        ),
    ] = False,
    simulate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=VALUE,…",
            help="What if (modelled): rate=5%,max_tokens=2000; also max_num_seqs, kv_cache_tokens, requests, "
            "concurrency, arrivals. Repeatable: one column each.",
        ),
    ] = None,
    picture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw timeline and box plots: .png or .svg.")
    ] = None,
    openmetrics: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the numbers for Prometheus' textfile collector.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the account to a file: .md or .json.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """What loops cost the healthy requests that share their GPU: measured in pairs of batches.

    Each pair sends the same requests twice: with loops let run to the cap, and with the looping requests
    capped at the length of a healthy one. FILES: modelled from logs instead.
    """
    from stresstest.economics.account import Prices
    from stresstest.report.cost import empty_cost_document
    from stresstest.report.document import dumps

    if gpu_hour_price is not None and not (math.isfinite(gpu_hour_price) and gpu_hour_price >= 0):
        raise UsageError("--gpu-hour-price must not be below zero, and a number.")
    prices = Prices(gpu_count, gpu_hour_price)
    extras = checked_extras(picture, simulate, openmetrics, aborted=abort_loops)
    _check_output(output)
    if files:
        _refuse(requests=requests, pairs=pairs, rate=rate, plant=plant, units=units)
        _refuse(**{"abort-loops": abort_loops or None})
        _show(
            _of_files(options, files, field, tokenizer, strict, prices), extras, prices, json_output, output
        )
        return
    _refuse_without_files(field=field, tokenizer=tokenizer, strict=strict or None)
    workload = _workload(options, requests, pairs, rate, plant, units, abort_loops)
    try:
        ending = _play(options, workload, prices)
    except InterruptedEarlyError:
        if json_output:
            typer.echo(dumps(empty_cost_document()))
        raise
    _show(ending.cost, extras, prices, json_output, output)
    _exit(ending)


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} drives a server; it cannot be given with files.")


def _refuse_without_files(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} is for files; name the files to read.")


def _workload(
    options: dict[str, Any],
    requests: int | None,
    pairs: int | None,
    rate: float | None,
    plant: str | None,
    units: int | None,
    abort: bool,
) -> Workload:
    from stresstest.workflows.cost_bench import Workload, check_workload

    if rate is not None and "concurrency" in options["given"]:
        raise UsageError("--rate and --concurrency exclude each other: an open loop waits for nobody.")
    share = 0.0 if plant is None else _share(plant)
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


def _share(text: str) -> float:
    try:
        return parse_share(text)
    except UsageError:
        raise UsageError(f"--plant {text!r} is no share: write 0.02 or 2%.") from None


def _of_files(
    options: dict[str, Any],
    files: list[str],
    field: list[str] | None,
    tokenizer: str | None,
    strict: bool,
    prices: Prices,
) -> Cost:
    from stresstest.cli.scan import listener_for
    from stresstest.records import parse_fields, size
    from stresstest.workflows.cost_files import FilesSettings, cost_of_files
    from stresstest.workflows.scan_judge import Job

    job = Job(mapped=parse_fields(field or [], ()), language=options["lang"], tokenizer=tokenizer)
    settings = FilesSettings(tuple(files), job, prices, strict=strict)
    listener = listener_for(options["display"], size(files))
    try:
        return cost_of_files(settings, listener)
    finally:
        listener.close()


def _play(options: dict[str, Any], workload: Workload, prices: Prices) -> CostEnding:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.store import open_store
    from stresstest.workflows.cost import measure_cost

    settings = run_settings(options)
    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> CostEnding:
        return await measure_cost(
            settings, workload, prices, store, progress, api_key=options["api_key"], stop=stop
        )

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


def _check_output(output: str | None) -> None:
    if output is not None and Path(output).suffix.lower() not in (".md", ".json"):
        raise UsageError(f"{output!r}: the ending says the format; write .md or .json.")


def _show(cost: Cost, extras: Extras, prices: Prices, json_output: bool, output: str | None) -> None:
    from stresstest.cli.report import save
    from stresstest.report.cost import cost_document, cost_markdown, print_cost
    from stresstest.report.document import dumps
    from stresstest.workflows.what_if import Simulated

    # The requests were paid for: their account comes out whatever becomes of the rest.
    more = Simulated()
    if not json_output:
        print_cost(stdout_console(), cost)
    try:
        write_extras(cost, extras)
        more = simulated(cost, extras, prices)
    finally:
        if json_output:
            typer.echo(dumps(cost_document(cost) | extras_document(more)))
    if output is not None:
        markdown = output.lower().endswith(".md")
        save(
            cost_markdown(cost) if markdown else dumps(cost_document(cost) | extras_document(more)) + "\n",
            output,
        )
    if not json_output:
        print_extras(more)


def _exit(ending: CostEnding) -> None:
    cost = ending.cost
    if ending.error is not None:
        show_error(ending.error)
        raise typer.Exit(ExitCode.ENDPOINT)
    if ending.interrupted:
        sys.stderr.write(f"Interrupted: {cost.pairs} complete pairs are kept as {ending.document}.\n")
        raise typer.Exit(ExitCode.INTERRUPTED)
    if ending.over_budget:
        sys.stderr.write(f"Stopped: the budget is spent after {cost.pairs} complete pairs.\n")
    if not cost.pairs or cost.counterfactual is None:
        sys.stderr.write(
            f"stresstest: none of {cost.requests} requests looped, so there is nothing to price.\n"
            "  Ask for longer answers (--horizon, --units), send more (--requests), or plant stand-ins "
            "(--plant 2%).\n"
        )
        raise typer.Exit(ExitCode.INCONCLUSIVE)
