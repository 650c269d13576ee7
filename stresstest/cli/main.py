"""The `stresstest` command: global options, error sentences, exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stresstest import __version__
from stresstest.cli import demo, diagnose, doctor, plan, recommend, report, run, runs, scan, sim, sweep
from stresstest.cli.options import GlobalOptions, show_error
from stresstest.errors import ExitCode, StresstestError

app = typer.Typer(
    name="stresstest",
    help="Find where a model served by vLLM stops making sense, and certify a safe max_tokens.",
    epilog=(
        "Exit codes: 0 done · 1 internal error · 2 usage · 3 endpoint unreachable or unusable · "
        "4 inconclusive · 99 regression · 130 interrupted"
    ),
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stresstest {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    context: typer.Context,
    store: Annotated[
        str | None, typer.Option(help="Database URL or SQLite file. Default: a file in your data folder.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The endpoint's API key, or set OPENAI_API_KEY. Never stored.")
    ] = None,
    display: Annotated[
        str | None, typer.Option(help="Progress on stderr: rich, plain or none. Default: rich on a terminal.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="TOML file with options. Default: ./stresstest.toml if it is there.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = GlobalOptions(store=store, api_key=api_key, display=display, config=config)


app.command("run", epilog=run.EXAMPLES)(run.command)
app.command("plan", epilog=plan.EXAMPLES)(plan.command)
app.command("diagnose", epilog=diagnose.EXAMPLES)(diagnose.command)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.command)
app.command("recommend", epilog=recommend.EXAMPLES)(recommend.command)
app.command("report", epilog=report.EXAMPLES)(report.command)
app.command("scan", epilog=scan.EXAMPLES)(scan.command)
app.add_typer(runs.app, name="runs")
app.command("sim", epilog=sim.EXAMPLES)(sim.command)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.command)
app.command("demo", epilog=demo.EXAMPLES)(demo.command)


def main() -> None:
    """Entry point: every foreseen error becomes one sentence and its exit code."""
    try:
        app(prog_name="stresstest")
    except StresstestError as error:
        show_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
