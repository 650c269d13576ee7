"""`stresstest sim`."""

from __future__ import annotations

import asyncio
import errno
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import on_signals, stdout_console, with_global_options
from stresstest.errors import UsageError

if TYPE_CHECKING:
    from stresstest.simulation.engine.scenario import Scenario
    from stresstest.simulation.server.start import Running

EXAMPLES = """\b
Examples:
  stresstest sim --list
  stresstest sim --scenario loop-at-900
  stresstest sim --scenario ./mine.toml --port 8001 --speed max
  stresstest run --base-url http://127.0.0.1:8000/v1 --lang it --rigor quick
"""

_PORT = 8000


@with_global_options
def command(
    options: dict[str, Any],
    scenario: Annotated[
        str | None, typer.Option(help="A shipped scenario (see --list) or a file (./mine.toml).")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = _PORT,
    speed: Annotated[
        str, typer.Option(help="Times the scenario's own speed: 10 is ten times as fast, max has no limit.")
    ] = "1",
    served_model_name: Annotated[
        str | None,
        typer.Option(help="Answer to this model name only. Default: to any, and list the scenario's."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the answers to requests that bring none.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped scenarios.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="With --list: one JSON document.")] = False,
) -> None:
    """Serve a simulated model that fails as a scenario says: a vLLM to try things on, without a GPU."""
    if listed:
        _list(as_json=json_output)
        return
    if json_output:
        raise UsageError("--json goes with --list.")
    if scenario is None:
        raise UsageError("--scenario is missing.", hint="stresstest sim --list names the shipped ones.")
    from stresstest.execution.eventloop import run
    from stresstest.simulation.engine.scenariofile import load_scenario

    chosen = load_scenario(scenario)
    times = _speed(speed)
    quiet = options["display"] == "none"
    run(_serve(chosen, host, port, times, served_model_name, seed, quiet=quiet))


def _speed(given: str) -> float:
    """Factor on the scenario's speed; 0.0 for no limit."""
    if given.strip().lower() == "max":
        return 0.0
    try:
        speed = float(given)
    except ValueError:
        speed = -1.0
    if not 0.0 <= speed < 1e9:
        raise UsageError(f"--speed {given!r} is no speed: a number, as 10, or max.")
    return speed


async def _serve(
    scenario: Scenario, host: str, port: int, speed: float, name: str | None, seed: int, *, quiet: bool
) -> None:
    from stresstest.simulation.server.start import start

    stop = asyncio.Event()
    on_signals(stop.set)
    try:
        async with start(
            scenario, host=host, port=port, speed=speed, served_model_name=name, seed=seed
        ) as running:
            sys.stderr.write(_greeting(scenario, running, quiet=quiet))
            sys.stderr.flush()
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({stopping, running.stepping}, return_when=asyncio.FIRST_COMPLETED)
            if running.stepping.done():
                running.stepping.result()  # a bug in the engine ends the program
    except OSError as error:
        raise _cannot_listen(error, host, port) from None


def _greeting(scenario: Scenario, running: Running, *, quiet: bool) -> str:
    said = f"simulating {scenario.name} at {running.base_url}"
    if quiet:
        return f"{said}\n"
    language = scenario.model.languages[0] if scenario.model.languages else "it"
    trial = f"stresstest run --base-url {running.base_url} --lang {language} --rigor quick"
    return f"{said} (Ctrl-C ends it); try: {trial}\n"


def _cannot_listen(error: OSError, host: str, port: int) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {port} on {host} is taken.", hint="Choose another with --port; 0 takes a free one."
        )
    why = error.strerror or str(error)
    return UsageError(f"The simulator cannot listen on {host}:{port}: {why}.")


def _list(*, as_json: bool) -> None:
    from stresstest.simulation.engine.scenariofile import shipped_scenarios

    scenarios = shipped_scenarios()
    if as_json:
        from stresstest.report.document import dumps

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
