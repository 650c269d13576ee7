"""`runs list` on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.report.limits import decoding_words, one_line
from stresstest.report.recommended_console import WIDE, subject_words
from stresstest.report.text import count, flat
from stresstest.store import RunSummary

if TYPE_CHECKING:
    from rich.console import Console


def print_runs(console: Console, runs: Sequence[RunSummary]) -> None:
    """Run, subject, decoding, what began it, and what it found; on narrow terminals below the subject."""
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
    for name in ("n", "onsets", "safe"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        numbers = (str(run.generations), str(run.degenerate), count(run.safe_max_tokens))
        decoding = one_line(decoding_words(run.decoding))
        below = [*([] if wide else [decoding]), *_begun(run)]
        subject = Text(f"{subject_words(run)}, {run.rigor}")
        subject.append("".join(f"\n{line}" for line in below), style="dim")
        cells = (Text(flat(run.id)), subject, *([Text(decoding)] if wide else []), Text(str(run.status)))
        table.add_row(*cells, *numbers)
    console.print(table)


def _begun(run: RunSummary) -> list[str]:
    """What a run is a part of, by the end of the other's id."""
    found = [("diagnose of", run.parent), ("cell of sweep", run.sweep)]
    return [one_line(f"{what} {of.rpartition('-')[2]}") for what, of in found if of is not None]
