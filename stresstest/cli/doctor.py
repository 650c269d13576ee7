"""`stresstest doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from stresstest.cli.options import stdout_console, with_global_options
from stresstest.errors import ExitCode, UsageError

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
        typer.Option(
            help="OpenAI-compatible endpoint. [default: http://localhost:8000/v1, or as configured]"
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model name as served.")] = None,
    log: Annotated[
        str | None,
        typer.Option(help="Explain this vLLM startup log (- for stdin) instead of asking a server."),
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(min=1, help="With --log: length of a usual prompt. [default: 256]")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Check what a measurement stands on: server, model, metrics, GPU, clock, store. Or explain a log.

    Each check is ok, or says what its absence costs and the one line that mends it. Exit 3 when the
    server cannot be used, or when the log's server did not start.
    """
    if log is None:
        _examine(options, base_url or options["base_url"], model or options["model"], json_output)
    else:
        _explain(options, log, prompt_tokens, json_output)


def _examine(options: dict[str, Any], base_url: str, model: str | None, json_output: bool) -> None:
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.model.health import State
    from stresstest.report.doctor import checks_document, print_checks
    from stresstest.report.document import dumps
    from stresstest.workflows.doctor import examine

    checks = run_loop(
        examine(base_url, model=model, api_key=options["api_key"], store=options["store"], telling=_tell)
    )
    if json_output:
        typer.echo(dumps(checks_document(checks)))
    else:
        print_checks(stdout_console(), checks)
    if any(check.state is State.FAILED for check in checks):
        raise typer.Exit(ExitCode.ENDPOINT)


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{what} …\n")


def _explain(options: dict[str, Any], log: str, prompt_tokens: int | None, json_output: bool) -> None:
    from stresstest.report.doctor import print_startup, startup_document
    from stresstest.report.document import dumps
    from stresstest.store import open_store
    from stresstest.workflows.startup import PROMPT_TOKENS, explain

    with open_store(options["store"]) as store:
        limits = [row for row in store.thresholds() if row.latest]
    with _opened(log) as lines:
        found = explain(lines, limits, prompt_tokens=prompt_tokens or PROMPT_TOKENS)
    if not found.facts.known:
        name = "stdin" if log == "-" else log
        raise UsageError(
            f"{name}: none of its {found.facts.lines} lines is known from a vLLM start.",
            hint="The log begins with 'vLLM API server version'; capture stdout and stderr together.",
        )
    if json_output:
        typer.echo(dumps(startup_document(found.facts, found.chain, found.held)))
    else:
        print_startup(stdout_console(), found.facts, found.chain, found.held)
    if found.chain is not None or (found.facts.error and not found.facts.ready):
        raise typer.Exit(ExitCode.ENDPOINT)


@contextmanager
def _opened(log: str) -> Iterator[TextIO]:
    if log == "-":
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        yield sys.stdin
        return
    try:
        with Path(log).open(encoding="utf-8", errors="replace") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{log} cannot be read: {error.strerror}.") from None
