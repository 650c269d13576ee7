"""`stresstest export dpo | kto`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.config.settings import parse_share
from stresstest.errors import ExitCode, UsageError
from stresstest.features.export import tables
from stresstest.options.common import scan_progress_for, stdout_console, with_global_options
from stresstest.options.sections import SectionedCommand
from stresstest.options.streams import write_lines
from stresstest.output_file import refuse_inputs, refuse_link

if TYPE_CHECKING:
    from stresstest.features.export.workflow import ExportedSet, ExportOptions
    from stresstest.scanning.scan_state import RecordProgress
    from stresstest.store.repository import Store

app = typer.Typer(
    help="Write training data for TRL, and tables of what is stored.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="""\b
Examples:
  stresstest export dpo latest --chosen-from 20261121-1730 -o pairs.jsonl
  stresstest export kto latest -o labels.jsonl
  stresstest export generations latest -o generations.csv
""",
)

_DPO = """\b
Examples:
  stresstest export dpo 20261121-1730 20261122-0910 -o pairs.jsonl
  stresstest export dpo 20261121-1730 --chosen-from 20261122-0910 -o pairs.jsonl
  stresstest export dpo latest --at-onset -o forks.jsonl
  stresstest export dpo log.jsonl --lang en -o pairs.jsonl --json
"""
_KTO = """\b
Examples:
  stresstest export kto latest -o labels.jsonl
  stresstest export kto log.jsonl.gz --lang en --per-prompt 2 -o labels.jsonl
"""

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCES",
        help="Run ids, unique beginnings of them, latest, or logs in any format that scan reads.",
    ),
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Write the examples to this file, as JSON Lines.")
]
Copies = Annotated[
    int,
    typer.Option(
        min=1,
        max=100,
        help="Copies of a loop to keep after its onset; the text up to the alarm is always kept.",
    ),
]
HeldOut = Annotated[
    str,
    typer.Option(
        metavar="SHARE",
        help="Share of the prompts (selected by hash) written to OUTPUT's .held-out.jsonl for a later check.",
    ),
]
Strings = Annotated[
    bool,
    typer.Option(
        "--strings", help="Write prompts of records as completion prompts instead of user messages."
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--lang", "-l", help="Language of the answers, for records that do not state it."),
]
Field = Annotated[
    list[str] | None,
    typer.Option(
        help="Path of a field in your records, such as response=path.to.text or prompt=…. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command(
    "dpo", cls=SectionedCommand, epilog=_DPO, short_help="Preference pairs of healthy and degenerate answers."
)
@with_global_options
def dpo(
    options: dict[str, Any],
    sources: Sources,
    output: Output,
    chosen_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN|FILE",
            help="Take healthy answers to the same prompts from this run, whatever its decoding, where "
            "the run has none. Repeatable.",
        ),
    ] = None,
    at_onset: Annotated[
        bool,
        typer.Option(
            "--at-onset",
            help="Pairs that share their beginning up to a fork of diagnose: the failure, and the "
            "healthy continuation.",
        ),
    ] = False,
    copies: Copies = 3,
    held_out: HeldOut = "20%",
    per_prompt: Annotated[int, typer.Option(min=1, help="Maximum pairs per prompt.")] = 4,
    strings: Strings = False,
    lang: Language = None,
    field: Field = None,
    json_output: Json = False,
) -> None:
    """Preference pairs: healthy answers against degenerate ones to the same prompts. Exit 4 without any."""
    from stresstest.features.export.workflow import ExportOptions, export_dpo
    from stresstest.records import names_records, parse_fields

    if at_onset and (chosen_from or any(map(names_records, sources))):
        raise UsageError(
            "--at-onset needs runs that were diagnosed; it cannot be combined with files or --chosen-from."
        )
    asked = ExportOptions(
        tuple(sources),
        tuple(chosen_from or ()),
        copies=copies,
        held_out=parse_share(held_out),
        per_prompt=per_prompt,
        strings=strings,
        at_onset=at_onset,
        language=lang or options["lang"],
        mapped=parse_fields(field or []),
    )
    _export("dpo", export_dpo, asked, options, output, json_output=json_output)


@app.command("kto", cls=SectionedCommand, epilog=_KTO, short_help="Single labelled answers.")
@with_global_options
def kto(
    options: dict[str, Any],
    sources: Sources,
    output: Output,
    copies: Copies = 3,
    held_out: HeldOut = "20%",
    per_prompt: Annotated[int, typer.Option(min=1, help="Maximum answers per prompt and label.")] = 4,
    strings: Strings = False,
    lang: Language = None,
    field: Field = None,
    json_output: Json = False,
) -> None:
    """Single answers with a label: desirable if healthy, not if degenerate. Exit 4 without both."""
    from stresstest.features.export.workflow import ExportOptions, export_kto
    from stresstest.records import parse_fields

    asked = ExportOptions(
        tuple(sources),
        copies=copies,
        held_out=parse_share(held_out),
        per_prompt=per_prompt,
        strings=strings,
        language=lang or options["lang"],
        mapped=parse_fields(field or []),
    )
    _export("kto", export_kto, asked, options, output, json_output=json_output)


def _export(
    kind: str,
    find: Callable[[ExportOptions, Store, RecordProgress], ExportedSet],
    asked: ExportOptions,
    options: dict[str, Any],
    output: str,
    *,
    json_output: bool,
) -> None:
    """Find the examples, write the files, and tell what they hold. Exit 4 without an example."""
    from stresstest.features.export.console import print_export
    from stresstest.features.export.document import WrittenFiles, export_document
    from stresstest.features.export.rows import json_lines, labelled_row, preference_row, prompt_rows
    from stresstest.features.export.wording import next_commands, nothing_sentence
    from stresstest.render.json_text import dumps
    from stresstest.store import open_store

    if not Path(output).name:
        raise UsageError(f"{output!r} is no file.", hint="Name one, such as: --output pairs.jsonl")
    derived = [_beside(output, what) for what in ("held-out", "unpaired")]
    refuse_inputs([output, *derived], [*asked.sources, *asked.chosen_from])
    there = [each for each in derived if Path(each).exists()]
    if there and not Path(output).exists():
        raise UsageError(
            f"{there[0]!r} exists, and this export would replace it: it is written beside {output!r}.",
            hint="Move it, or choose another name with --output.",
        )
    for each in derived:
        refuse_link(each)
    with (
        closing(scan_progress_for(options["display"], None)) as progress,
        open_store(options["store"]) as store,
    ):
        found = find(asked, store, progress)
    nothing = None
    if not found.pairs and not _has_both_labels(found):
        nothing, found = nothing_sentence(found, kind, asked), replace(found, answers=())
    rows = chain(map(preference_row, found.pairs), map(labelled_row, found.answers))
    files = WrittenFiles(
        output=None if nothing else output,
        held_out=_beside(output, "held-out") if found.held_out and not nothing else None,
        unpaired=_beside(output, "unpaired") if found.unpaired else None,
    )
    contents = (
        (files.output, rows),
        (files.held_out, prompt_rows(found.held_out)),
        (files.unpaired, prompt_rows(found.unpaired)),
    )
    for name, lines in contents:
        if name is not None:
            write_lines(json_lines(lines), name)
    commands = next_commands(found, asked, output, files.unpaired)
    if json_output:
        typer.echo(dumps(export_document(found, asked, files, nothing, commands)))
    else:
        print_export(stdout_console(), found, asked, files, nothing, commands)
    if nothing:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _has_both_labels(found: ExportedSet) -> bool:
    return {answer.degenerate for answer in found.answers} == {True, False}


def _beside(output: str, what: str) -> str:
    """``pairs.jsonl`` → ``pairs.held-out.jsonl``."""
    path = Path(output)
    return str(path.with_name(f"{path.stem}.{what}.jsonl"))


app.command(
    "generations",
    cls=SectionedCommand,
    epilog=tables.GENERATIONS_EXAMPLES,
    short_help="The generations of runs, a row each.",
)(tables.generations)
app.command("runs", cls=SectionedCommand, epilog=tables.RUNS_EXAMPLES, short_help="Stored runs, a row each.")(
    tables.runs
)
