"""`stresstest report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import with_global_options
from stresstest.errors import UsageError

if TYPE_CHECKING:
    from stresstest.report.dossier import Dossier

EXAMPLES = """\b
Examples:
  stresstest report latest -o report.html
  stresstest report 20261121-173000-4f2a -o report.md
  stresstest report 20261121-1730 20261122-0910 -o compared.html
  stresstest report -o index.html
"""
Writer = Callable[["Sequence[Dossier]"], str]


@with_global_options
def command(
    options: dict[str, Any],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Run ids, their unique beginnings, or latest."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="report.html, .md, .json or .xml (JUnit). Default: Markdown on stdout."
        ),
    ] = None,
) -> None:
    """Write a stored run as HTML, Markdown or JSON; several side by side; without RUN all subjects (HTML).

    The HTML report is one file that opens without a network.
    """
    if not runs:
        save(_index(options["store"], output), output)
        return
    write = writer(output)
    save(write(_gathered(options["store"], runs)), output)


def writer(output: str | None) -> Writer:
    """What writes the format that the file's ending names. UsageError for another ending."""
    suffix = Path(output).suffix.lower() if output else ".md"
    if suffix not in WRITERS:
        raise UsageError(f"{output!r}: the ending says the format; write {', '.join(WRITERS)}.")
    return WRITERS[suffix]


def save(text: str, output: str | None, *, quiet: bool = False) -> None:
    """To the file, or to stdout where none is named. UsageError when it cannot be written."""
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.") from None
    if not quiet:
        typer.echo(f"wrote {output}", err=True)


def _gathered(location: str | None, references: Sequence[str]) -> list[Dossier]:
    from stresstest.store import open_store
    from stresstest.workflows.report import gather

    with open_store(location) as store:
        return [gather(store, reference) for reference in references]


def _index(location: str | None, output: str | None) -> str:
    from stresstest.report.html import index_html
    from stresstest.store import open_store

    if output is None or Path(output).suffix.lower() != ".html":
        raise UsageError(
            "RUN is missing: the run to report.",
            hint="One is named latest. Without any, -o index.html lists every subject of the store.",
        )
    with open_store(location) as store:
        return index_html(store.thresholds(), store.location)


def _html(dossiers: Sequence[Dossier]) -> str:
    from stresstest.report.html import compared_html, run_html

    return run_html(dossiers[0]) if len(dossiers) == 1 else compared_html(dossiers)


def _markdown(dossiers: Sequence[Dossier]) -> str:
    from stresstest.report.diagnosis import diagnosis_markdown
    from stresstest.report.markdown import run_markdown

    pages = []
    for each in dossiers:
        section = "" if each.diagnosis is None else diagnosis_markdown(each.diagnosis)
        pages.append(run_markdown(each.result, diagnosis=section))
    return "\n---\n\n".join(pages)


def _json(dossiers: Sequence[Dossier]) -> str:
    from stresstest.report.diagnosis import chain_keys
    from stresstest.report.document import dumps, full_document

    documents = []
    for each in dossiers:
        more = {} if each.diagnosis is None else {"diagnosis": chain_keys(each.diagnosis)}
        documents.append(full_document(each.result) | more)
    return dumps(documents[0] if len(documents) == 1 else {"runs": documents}) + "\n"


def _junit(dossiers: Sequence[Dossier]) -> str:
    from stresstest.report.cases import run_suite
    from stresstest.report.junit import junit_xml

    return junit_xml([run_suite(each.result) for each in dossiers])


WRITERS: Mapping[str, Writer] = {".html": _html, ".md": _markdown, ".json": _json, ".xml": _junit}
"""By the ending of the file; a further format is one entry more."""
