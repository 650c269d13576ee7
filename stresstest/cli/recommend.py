"""`stresstest recommend`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stresstest.cli.options import stdout_console, with_global_options
from stresstest.errors import ExitCode, UsageError

EXAMPLES = """\b
Examples:
  stresstest recommend
  stresstest recommend --model Qwen/Qwen2.5-7B-Instruct-AWQ --lang it --format json
"""


@with_global_options
def command(
    options: dict[str, Any],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only this model.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    lang: Annotated[str | None, typer.Option("--lang", "-l", help="Only this language.")] = None,
    output: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> None:
    """Print the stored safe max_tokens, with what each number stands on. Exit 4 when nothing is certified."""
    from stresstest.report.console import print_recommendations
    from stresstest.report.document import dumps
    from stresstest.report.recommended import recommendations_document
    from stresstest.store import open_store

    if output not in {"table", "json"}:
        raise UsageError(f"--format {output!r} is not known: choose table or json.")
    with open_store(options["store"]) as store:
        rows = [r for r in store.thresholds(model=model, task=task, language=lang) if r.latest]
    if output == "json":
        typer.echo(dumps(recommendations_document(rows)))
    elif rows:
        print_recommendations(stdout_console(), rows)
    else:
        asked = " ".join(str(x) for x in (model, task, lang) if x) or "anything"
        typer.echo(
            f"Nothing is stored for {asked} yet. Measure it: stresstest run --model M --lang it", err=True
        )
    if not any(row.threshold.certified for row in rows):
        raise typer.Exit(ExitCode.INCONCLUSIVE)
