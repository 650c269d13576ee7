"""The `stresstest` command: global options, error messages, exit codes."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from stresstest import __version__
from stresstest.cli.command_line import hide_secrets
from stresstest.cli.crash import report_crash, without_secrets
from stresstest.cli.environment import drop_settings_of_others, unloadable_library
from stresstest.errors import ExitCode, StresstestError, UsageError
from stresstest.features.check import command as check
from stresstest.features.cost import command as cost
from stresstest.features.demo import command as demo
from stresstest.features.diagnose import command as diagnose
from stresstest.features.doctor import command as doctor
from stresstest.features.export import command as export
from stresstest.features.guard import command as guard
from stresstest.features.init import command as init
from stresstest.features.plan import command as plan
from stresstest.features.recommend import command as recommend
from stresstest.features.report import command as report
from stresstest.features.run import command as run
from stresstest.features.runs import command as runs
from stresstest.features.scan import command as scan
from stresstest.features.sim import command as sim
from stresstest.features.sweep import command as sweep
from stresstest.options.common import GlobalOptions, show_error, show_warnings_of_the_store
from stresstest.options.interruptions import ended_by_a_second_interrupt
from stresstest.options.measurement import exit_process
from stresstest.options.sections import SectionedCommand
from stresstest.options.streams import guard_streams, stdout_failure
from stresstest.own_process import claim_process

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


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"stresstest {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    context: typer.Context,
    store: Annotated[
        str | None, typer.Option(help="Database URL or SQLite file. Default: a file in your data folder.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="API key of the server, or set OPENAI_API_KEY. Never stored.")
    ] = None,
    display: Annotated[
        str | None,
        typer.Option(metavar="rich|plain|none", help="Progress on stderr. Default: rich on a terminal."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="TOML file with options. Default: ./stresstest.toml, if it exists.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = GlobalOptions(store=store, api_key=api_key, display=display, config=config)


# In the order of `--help`. Each summary fits on 80 columns.
for _module, _summary in (
    (run, "Measure where coherence ends and certify a safe max_tokens."),
    (plan, "Show the rungs, requests, tokens and time of a run."),
    (diagnose, "Find the cause of a failure by changing one thing at a time."),
    (sweep, "Compare settings side by side; find the mildest change that works."),
    (check, "Test whether a candidate degenerates more than the baseline."),
    (recommend, "Print the stored limits, ready for a server or a client."),
    (cost, "Measure what loops cost the healthy requests on the same GPU."),
    (report, "Write stored runs as HTML, Markdown or JSON."),
    (scan, "Compute degeneration rates and limits from recorded outputs."),
    (guard, "Watch a server's answers in production, and stop what loops."),
    (sim, "Start a simulated server that fails as a scenario describes."),
    (init, "Write a stresstest.toml for your server, model and language."),
    (doctor, "Check the prerequisites of a measurement: server, model, metrics."),
    (demo, "Measure a simulated server whose true limit is known."),
):
    _name = _module.__name__.split(".")[-2]  # the feature's package
    app.command(_name, cls=SectionedCommand, epilog=_module.EXAMPLES, short_help=_summary)(_module.command)
app.add_typer(runs.app, name="runs")
app.add_typer(export.app, name="export")


def main() -> None:
    """Run the command line: an expected error becomes one message and its exit code.

    Incomplete output on stdout (a full disk) is reported, with exit code 2 if the command itself succeeded.
    """
    sys.excepthook = report_crash
    drop_settings_of_others()
    claim_process()
    hide_secrets()
    guard_streams()
    show_warnings_of_the_store()
    with ended_by_a_second_interrupt():
        code = _run()
    lost = stdout_failure()
    if lost is not None:
        show_error(UsageError(f"stdout cannot be written: {lost.strerror or lost}."))
        code = code or ExitCode.USAGE
    exit_process(code)


def _run() -> int | str | None:
    """Run the command and return its exit code."""
    try:
        # Not `app()`, which puts an excepthook of its own in the place of `report_crash`.
        typer.main.get_command(app)(prog_name="stresstest")
    except SystemExit as ended:
        return ended.code
    except StresstestError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        return ExitCode.INTERRUPTED
    except Exception as error:
        fault = _fault_of_the_environment(error)
        if fault is None:
            raise
        show_error(fault)
        return ExitCode.USAGE
    return ExitCode.DONE


def _fault_of_the_environment(error: Exception) -> UsageError | None:
    """The sentence for what is no bug and could be raised anywhere; None for other errors."""
    if isinstance(error, OSError) and (sentence := _fault_of_a_file(error)) is not None:
        return UsageError(sentence)
    library = unloadable_library(error.__traceback__)
    if library is None:
        return None
    why = without_secrets(f"{type(error).__name__}: {error}", sys.argv).rstrip(".")
    return UsageError(
        f"The library {library} cannot be loaded: {why}.",
        hint="Its installation is incomplete, or a setting that it reads is wrong. To see more: "
        f"python -c 'import {library}'",
    )


def _fault_of_a_file(error: OSError) -> str | None:
    if error.errno == errno.ENAMETOOLONG:
        return f"A file's name is too long: {str(error.filename)[:80]}…"
    if error.filename and error.filename == os.environ.get("SSLKEYLOGFILE"):  # Python's ssl opens it
        return f"The file that SSLKEYLOGFILE names cannot be opened: {error.filename}: {error.strerror}."
    if isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except FileNotFoundError:
            return "The current folder no longer exists."
    return None
