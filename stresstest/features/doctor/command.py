"""`stresstest doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from stresstest.errors import ExitCode, UsageError
from stresstest.options.common import stdout_console, with_global_options
from stresstest.records.startup_log import LONGEST_LINE

EXAMPLES = """\b
Examples:
  stresstest doctor
  stresstest doctor --base-url http://gpu-7:8000/v1 --json
  stresstest doctor --log vllm.log
  docker logs vllm 2>&1 | stresstest doctor --log -
"""


@with_global_options
def command(
    options: dict[str, Any],
    base_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible server. [default: http://localhost:8000/v1, or as configured]"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model name on the server.")] = None,
    log: Annotated[
        str | None,
        typer.Option(help="Explain this vLLM startup log (- for stdin) instead of checking a server."),
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(min=1, help="With --log: tokens of a typical prompt. [default: 256]")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Check the prerequisites of a measurement: server, model, metrics, GPU, clock, store. Or explain a log.

    Each check that fails states what the measurement loses, and one line that fixes it. Exit 3 if the server
    cannot be used, or if the server in the log did not start; 4 if the log does not show whether it did.
    """
    if log is None:
        _run_checks(options, base_url or options["base_url"], model or options["model"], json_output)
    else:
        _explain(options, log, prompt_tokens, json_output)


def _run_checks(options: dict[str, Any], base_url: str, model: str | None, json_output: bool) -> None:
    from stresstest.campaign.execution.eventloop import run as run_loop
    from stresstest.features.doctor.console import checks_document, print_checks
    from stresstest.features.doctor.workflow import run_checks
    from stresstest.model.server import CheckState
    from stresstest.render.json_text import dumps

    checks = run_loop(
        run_checks(
            base_url, model=model, api_key=options["api_key"], store=options["store"], on_step=_print_progress
        )
    )
    if json_output:
        typer.echo(dumps(checks_document(checks)))
    else:
        print_checks(stdout_console(), checks)
    if any(check.state is CheckState.FAILED for check in checks):
        raise typer.Exit(ExitCode.ENDPOINT)


def _print_progress(step: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{step} …\n")


def _explain(options: dict[str, Any], log: str, prompt_tokens: int | None, json_output: bool) -> None:
    from stresstest.features.doctor.console import print_startup, startup_document
    from stresstest.features.doctor.startup_log import DEFAULT_PROMPT_TOKENS, explain_startup_log
    from stresstest.render.json_text import dumps
    from stresstest.store import open_store

    with open_store(options["store"]) as store:
        limits = [row for row in store.thresholds() if row.latest]
    with _open_log(log) as lines:
        found = explain_startup_log(lines, limits, prompt_tokens=prompt_tokens or DEFAULT_PROMPT_TOKENS)
    if not found.facts.known:
        name = "stdin" if log == "-" else log
        raise UsageError(
            f"{name}: none of its {found.facts.lines:,} lines looks like a vLLM startup log.",
            hint="A startup log begins with 'vLLM API server version'; capture both stdout and stderr.",
        )
    if json_output:
        typer.echo(dumps(startup_document(found.facts, found.chain, found.held)))
    else:
        print_startup(stdout_console(), found.facts, found.chain, found.held)
    if found.chain is not None or (found.facts.error and not found.facts.ready):
        raise typer.Exit(ExitCode.ENDPOINT)
    if not found.facts.ready:
        typer.echo("The log does not show that the server started: it ends before that.", err=True)
        raise typer.Exit(ExitCode.INCONCLUSIVE)


@contextmanager
def _open_log(log: str) -> Iterator[Iterator[str]]:
    from stresstest.config.foreign_files import is_named_pipe

    if log == "-":
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        yield _lines(sys.stdin)
        return
    try:
        if Path(log).is_char_device() or Path(log).is_block_device():
            raise UsageError(f"{log} is a device, not a log.")
        if is_named_pipe(Path(log)):
            raise UsageError(
                f"{log} is a named pipe: reading would wait until something writes to it.",
                hint=f"Write to stdin instead: … | stresstest doctor --log -, or: doctor --log - < {log}",
            )
        with Path(log).open(encoding="utf-8", errors="replace") as file:
            yield _lines(file)
    except OSError as error:
        raise UsageError(f"{log} cannot be read: {error.strerror}.") from None


def _lines(file: TextIO) -> Iterator[str]:
    """The lines, each with as much of it as is read."""
    while line := file.readline(LONGEST_LINE):
        yield line
        while not line.endswith("\n") and (line := file.readline(LONGEST_LINE)):
            pass
