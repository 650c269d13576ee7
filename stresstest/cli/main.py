"""The `stresstest` command: global options, error sentences, exit codes."""

from __future__ import annotations

import sys

try:
    from typing import Annotated

    import typer

    from stresstest import __version__
    from stresstest.cli import (
        check,
        cost,
        demo,
        diagnose,
        doctor,
        plan,
        recommend,
        report,
        run,
        runs,
        scan,
        sim,
        sweep,
    )
    from stresstest.cli.options import GlobalOptions, show_error
    from stresstest.cli.streams import guard_streams, unwritten
    from stresstest.errors import ExitCode, StresstestError, UsageError
except KeyboardInterrupt:  # Ctrl-C while all this is loaded
    sys.stderr.write("\nInterrupted.\n")
    sys.exit(130)

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


# In the order of `--help`, with what it says of each: uncut on 80 columns.
for _module, _summary in (
    (run, "Measure where coherence ends and certify a safe max_tokens."),
    (plan, "Show the rungs, requests, tokens and time of a run."),
    (diagnose, "Find the plane of a failure by changing one thing at a time."),
    (sweep, "Measure several settings side by side: the smallest that works."),
    (check, "Does a candidate degenerate more than the baseline?"),
    (recommend, "Print the stored limits, ready for a server or a client."),
    (cost, "What loops cost the healthy requests that share their GPU."),
    (report, "Write stored runs as HTML, Markdown or JSON."),
    (scan, "Degeneration rates and limits of outputs that you already have."),
    (sim, "Serve a simulated model that fails as a scenario says."),
    (doctor, "Check what a measurement stands on: server, model, metrics."),
    (demo, "Measure a simulated server whose true limit is known."),
):
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, epilog=_module.EXAMPLES, short_help=_summary)(_module.command)
app.add_typer(runs.app, name="runs")


def main() -> None:
    """Entry point: every foreseen error becomes one sentence and its exit code.

    What a full disk left of stdout is told, with exit code 2 where the command has none of its own.
    """
    guard_streams()
    code = _run()
    lost = unwritten()
    if lost is not None:
        show_error(UsageError(f"stdout cannot be written: {lost.strerror or lost}."))
        code = code or ExitCode.USAGE
    sys.exit(code)


def _run() -> int | str | None:
    """The command's exit code."""
    try:
        app(prog_name="stresstest")
    except SystemExit as ended:
        return ended.code
    except StresstestError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


if __name__ == "__main__":
    main()
