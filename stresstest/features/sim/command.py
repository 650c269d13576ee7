"""`stresstest sim`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import UsageError
from stresstest.options.common import stdout_console, with_global_options
from stresstest.options.listening import cannot_listen, checked_host
from stresstest.options.measurement import on_signals

if TYPE_CHECKING:
    from stresstest.simulation.engine.scenario.spec import Scenario
    from stresstest.simulation.server.start import RunningServer

EXAMPLES = """\b
Examples:
  stresstest sim --list
  stresstest sim --scenario loop-at-900
  stresstest sim --scenario ./mine.toml --port 8001 --speed max
  stresstest run --base-url http://127.0.0.1:8000/v1 --lang it --rigor quick
"""


@with_global_options
def command(
    options: dict[str, Any],
    scenario: Annotated[
        str | None, typer.Option(help="A shipped scenario (see --list) or a file (./mine.toml). Required.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.", callback=checked_host)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 selects a free one.")
    ] = 8000,
    speed: Annotated[
        str, typer.Option(help="Multiple of the scenario's own speed, such as 10; max has no limit.")
    ] = "1",
    served_model_name: Annotated[
        str | None,
        typer.Option(help="Accept this model name only. [default: accept any; list the scenario's name]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of answers to requests without a seed.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped scenarios.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="With --list: print one JSON document.")
    ] = False,
) -> None:
    """Start a simulated vLLM server whose model fails as a scenario describes. Needs no GPU."""
    if listed:
        _list(as_json=json_output)
        return
    if json_output:
        raise UsageError("--json requires --list.")
    if scenario is None:
        raise UsageError(
            "--scenario is missing.", hint="To list the shipped scenarios: stresstest sim --list"
        )
    from stresstest.campaign.execution.eventloop import run
    from stresstest.simulation.engine.scenario.file import load_scenario

    chosen = load_scenario(scenario)
    factor = _parse_speed(speed)
    quiet = options["display"] == "none"
    run(_serve(chosen, host, port, factor, served_model_name, seed, quiet=quiet))


def _parse_speed(given: str) -> float:
    """Factor on the scenario's speed, 0.0 for no limit. Raises UsageError."""
    if given.strip().lower() == "max":
        return 0.0
    try:
        speed = float(given)
    except ValueError:
        speed = -1.0
    if not 0.0 < speed < 1e9:
        raise UsageError(f"--speed: {given!r} is not a speed. Give a number such as 10, or max.")
    return speed


async def _serve(
    scenario: Scenario, host: str, port: int, speed: float, name: str | None, seed: int, *, quiet: bool
) -> None:
    from stresstest.simulation.server.start import serve_scenario

    stop = asyncio.Event()
    on_signals(stop.set)
    try:
        async with serve_scenario(
            scenario, host=host, port=port, speed=speed, served_model_name=name, seed=seed
        ) as running:
            sys.stderr.write(_started_line(scenario, running, quiet=quiet))
            sys.stderr.flush()
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({stopping, running.stepping}, return_when=asyncio.FIRST_COMPLETED)
            if running.stepping.done():
                running.stepping.result()  # raises what ended the engine
    except OSError as error:
        raise cannot_listen(error, "The simulator", host, port) from None


def _started_line(scenario: Scenario, running: RunningServer, *, quiet: bool) -> str:
    from stresstest.render.text import single_line

    line = f"simulating {single_line(scenario.name)} at {running.base_url}"
    if quiet:
        return f"{line}\n"
    language = scenario.model.languages[0] if scenario.model.languages else "it"
    trial = f"stresstest run --base-url {running.base_url} --lang {language} --rigor quick"
    return f"{line} (Ctrl-C stops it). To try it: {trial}\n"


def _list(*, as_json: bool) -> None:
    from stresstest.simulation.engine.scenario.file import shipped_scenarios

    scenarios = shipped_scenarios()
    if as_json:
        from stresstest.render.json_text import dumps

        typer.echo(dumps({"scenarios": [_row(scenario) for scenario in scenarios]}))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("scenario", no_wrap=True)
    table.add_column("fails by")
    table.add_column("summary")
    for scenario in scenarios:
        table.add_row(scenario.name, ", ".join(_row(scenario)["symptoms"]) or "–", scenario.summary)
    stdout_console().print(table)


def _row(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "symptoms": list(dict.fromkeys(hazard.symptom for hazard in scenario.hazards)),
        "planes": list(dict.fromkeys(str(hazard.plane.value) for hazard in scenario.hazards)),
        "languages": list(scenario.model.languages),
        "max_model_len": scenario.model.max_model_len,
    }
