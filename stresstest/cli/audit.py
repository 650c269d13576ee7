"""`stresstest recommend --repetition-detection`: stored outputs replayed through vLLM's own early stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import typer

from stresstest.cli.options import stdout_console
from stresstest.errors import ExitCode, UsageError


def audit(
    options: dict[str, Any], references: Sequence[str], output: str, *, tokenizer: str | None, fallback: float
) -> None:
    """Replay runs and files, print the best setting. Exit 4 when there is none to send to a server.

    Raises UsageError for what cannot be read, and for another format than table or json.
    """
    from stresstest.report.audit import audit_document, print_audit
    from stresstest.report.document import dumps
    from stresstest.report.scan_progress import SilentScan
    from stresstest.store import open_store
    from stresstest.workflows.audit import audit_stored
    from stresstest.workflows.scan_judge import Job

    if output not in {"table", "json"}:
        raise UsageError(f"--repetition-detection prints a table or json, not {output}.")
    if not math.isfinite(fallback) or fallback < 0:
        raise UsageError("--fallback-price must be a number, not below zero.")
    with open_store(options["store"]) as store:
        found = audit_stored(references, store, SilentScan(), Job(tokenizer=tokenizer), fallback=fallback)
    if output == "json":
        typer.echo(dumps(audit_document(found)))
    else:
        print_audit(stdout_console(), found)
    if found.usable is None:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
