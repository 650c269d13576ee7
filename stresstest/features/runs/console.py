"""`runs list` on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from stresstest.render.limits import WIDE, decoding_words, safe_words, subject_words
from stresstest.render.text import format_count, load_words, single_line
from stresstest.store import RunSummary

if TYPE_CHECKING:
    from rich.console import Console


def print_runs(
    console: Console,
    runs: Sequence[RunSummary],
    refused: Collection[str] = (),
    overruling: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print one row per run. On narrow terminals the decoding is below the subject, not in its own column.

    refused: ids of runs that a check has refused. overruling: by the ids of runs whose limits are not in
    force, the run that speaks against each.
    """
    from rich.table import Table
    from rich.text import Text

    if not runs:
        console.print("No runs are stored yet. Start one with: stresstest run --model M --lang it")
        return
    wide = console.width >= WIDE
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("run (UTC)", no_wrap=True)
    table.add_column("subject", overflow="fold")
    if wide:
        table.add_column("decoding", overflow="fold", max_width=34)
    table.add_column("status", no_wrap=True)
    for name in ("degenerate", "safe"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        against = overruling.get(run.id)
        safe = safe_words(run.threshold, run.safe_max_tokens) if against is None else "–"
        numbers = (f"{run.degenerate} of {run.generations}", safe)
        decoding = single_line(decoding_words(run.decoding))
        below = [*([] if wide else [decoding]), *_origin(run)]
        if run.id in refused:
            below.append("refused by a check")
        if against is not None:
            below.append(single_line(f"{format_count(run.safe_max_tokens)} does not hold: see run {against}"))
        elif run.holds_up_to is not None and run.safe_max_tokens is not None:
            below.append(f"holds with at most {load_words(run.holds_up_to)}")
        subject = Text(f"{subject_words(run)}, {run.rigor}")
        subject.append("".join(f"\n{line}" for line in below), style="dim")
        cells = (
            Text(single_line(run.id)),
            subject,
            *([Text(decoding)] if wide else []),
            Text(str(run.status)),
        )
        table.add_row(*cells, *numbers)
    console.print(table)


def _origin(run: RunSummary) -> list[str]:
    """The diagnosed run or the sweep that a run belongs to, by the last part of its id."""
    origins = [("diagnose of", run.parent), ("cell of sweep", run.sweep)]
    return [single_line(f"{what} {id.rpartition('-')[2]}") for what, id in origins if id is not None]
