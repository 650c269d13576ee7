"""`stresstest report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stresstest.errors import UsageError
from stresstest.features.report.formats import FORMATS, offered, writer_for
from stresstest.options.common import with_global_options
from stresstest.options.output_folder import OutputDir, in_folder
from stresstest.options.streams import save

EXAMPLES = """\b
Examples:
  stresstest report latest -o report.html
  stresstest report 20261121-173000-4f2a -o report.md
  stresstest report 20261121-1730 20261122-0910 -o compared.html
  stresstest report -o index.html
  stresstest report latest --output-dir reports
"""


@with_global_options
def command(
    options: dict[str, Any],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Run ids, unique beginnings of them, or latest."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help=f"Output file: {offered()}. [default: Markdown on stdout]"),
    ] = None,
    output_dir: OutputDir = None,
) -> None:
    """Write a stored run as HTML, Markdown or JSON; several runs side by side; or, without RUN, all subjects.

    The HTML report is one file that opens without a network. With --output-dir and no --output, every format
    is written: report.html, .md, .json and .xml (JUnit).
    """
    outputs = [output]
    chosen = output_dir is not None and output is None
    if chosen:
        outputs = [f"report{ending}" for ending in FORMATS] if runs else ["index.html"]
    outputs = in_folder(output_dir, *outputs, chosen=chosen)
    if not runs:
        save(_index(options["store"], outputs[0]), outputs[0])
        return
    from stresstest.features.report.workflow import load_report_data
    from stresstest.render.text import subject_name
    from stresstest.store import open_store

    writers = [(writer_for(each), each) for each in outputs]
    with open_store(options["store"]) as store:
        # Generations are loaded from the open store one at a time, as they are written.
        data = [load_report_data(store, reference) for reference in runs]
        for write, each in writers:
            save(write(data), each)
    if outputs != [None]:
        for reference, shown in zip(runs, data, strict=True):
            if reference == "latest":
                run = shown.result.run
                typer.echo(f"latest: run {run.id}, {subject_name(run.settings.subject)}", err=True)


def _index(location: str | None, output: str | None) -> str:
    from stresstest.render.html import index_html
    from stresstest.store import open_store

    if output is None or Path(output).suffix.lower() != ".html":
        raise UsageError(
            "RUN is missing: the run to report.",
            hint="The newest run is called latest. Without a run, -o index.html lists every subject in "
            "the store.",
        )
    with open_store(location) as store:
        return index_html(store.thresholds(), store.location)
