"""`stresstest report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stresstest.cli.options import with_global_options
from stresstest.errors import UsageError

EXAMPLES = """\b
Examples:
  stresstest report 20261121-173000-4f2a -o report.md
  stresstest report 20261121-1730 -o report.json
  stresstest report latest
"""


@with_global_options
def command(
    options: dict[str, Any],
    run: Annotated[str, typer.Argument(help="Run id, its unique beginning, or latest.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="report.md or report.json. Default: Markdown on stdout."),
    ] = None,
) -> None:
    """Write a stored run as Markdown or JSON."""
    from stresstest.report.diagnosis import chain_keys, diagnosis_markdown
    from stresstest.report.document import dumps, full_document
    from stresstest.report.markdown import run_markdown
    from stresstest.store import open_store
    from stresstest.workflows.conclude import conclude

    suffix = Path(output).suffix.lower() if output else ".md"
    if suffix not in {".md", ".json"}:
        raise UsageError(f"{output!r}: the ending says the format; write .md or .json.")
    with open_store(options["store"]) as store:
        result = conclude(store, run)
        found = store.diagnosis(result.run.id)
    if suffix == ".json":
        more = {} if found is None else {"diagnosis": chain_keys(found)}
        text = dumps(full_document(result) | more) + "\n"
    else:
        section = "" if found is None else diagnosis_markdown(found)
        text = run_markdown(result, diagnosis=section)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.") from None
    typer.echo(f"wrote {output}", err=True)
