"""`stresstest export generations | runs`: what is stored, as a table for a notebook or a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import ExitCode
from stresstest.options.common import with_global_options

if TYPE_CHECKING:
    from stresstest.store.repository import Store

GENERATIONS_EXAMPLES = """\b
Examples:
  stresstest export generations latest -o generations.csv
  stresstest export generations 20261121-1730 20261122-0910 --no-text -o generations.parquet
"""
RUNS_EXAMPLES = """\b
Examples:
  stresstest export runs -o runs.csv
  stresstest export runs latest -o run.jsonl
"""

Table = Annotated[
    str, typer.Option("--output", "-o", help="A .csv or .parquet file, or one JSON object a line.")
]


@with_global_options
def generations(
    options: dict[str, Any],
    runs: Annotated[
        list[str], typer.Argument(metavar="RUNS", help="Run ids, their unique beginnings, or latest.")
    ],
    output: Table,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave prompts and answers out.")] = False,
) -> None:
    """The generations of runs, a row each: subject, decoding, verdict, tokens, times, prompt and answer."""
    from stresstest.render.rows import GENERATION_COLUMNS, TEXT_COLUMNS, without_text
    from stresstest.store import open_store
    from stresstest.table_file import write_table

    columns = without_text(GENERATION_COLUMNS) if no_text else GENERATION_COLUMNS | TEXT_COLUMNS
    with open_store(options["store"]) as store:
        found = list(dict.fromkeys(_run_id(store, each) for each in runs))
        _say(output, write_table(output, columns, _generation_rows(store, found, texts=not no_text)))


@with_global_options
def runs(
    options: dict[str, Any],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUNS", help="Run ids, their unique beginnings, or latest. Default: all."),
    ] = None,
    *,
    output: Table,
) -> None:
    """Runs, a row each: subject, decoding, threshold, safe max_tokens, plane. Exit 4 without one."""
    from stresstest.campaign.conclusion.conclude import conclude
    from stresstest.campaign.conclusion.overruled import overruling_runs, without_overruled_cap
    from stresstest.render.rows import RUN_COLUMNS, run_row
    from stresstest.store import open_store
    from stresstest.table_file import write_table

    with open_store(options["store"]) as store:
        named = [_run_id(store, each) for each in runs or ()] or [each.id for each in store.runs()]
        against = overruling_runs(store)
        results = (conclude(store, each) for each in dict.fromkeys(named))
        rows = (run_row(without_overruled_cap(each, against)) for each in results)
        count = write_table(output, RUN_COLUMNS, rows)
    _say(output, count)
    if not count:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _run_id(store: Store, reference: str) -> str:
    from stresstest.campaign.conclusion.conclude import find_run

    return find_run(store, reference).id


def _generation_rows(store: Store, run_ids: list[str], *, texts: bool) -> Iterator[dict[str, Any]]:
    """The rows, with the text of one generation in memory at a time."""
    from stresstest.campaign.conclusion.conclude import conclude
    from stresstest.render.rows import generation_row, without_text

    for run_id in run_ids:
        result, load = conclude(store, run_id), store.loader(run_id)
        for each in result.generations:
            row = generation_row(result.run, each)
            if texts:
                whole = load(each)
                yield row | {
                    "prompt": each.prompt_text,
                    "reasoning": whole.thought or None,
                    "text": whole.text,
                }
            else:
                yield without_text(row)


def _say(output: str, rows: int) -> None:
    from stresstest.render.text import format_count, single_line

    counted = "1 row" if rows == 1 else f"{format_count(rows)} rows"
    typer.echo(f"Wrote {single_line(output)}: {counted}.", err=True)
