"""`recommend` on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.report.console import provenance
from stresstest.report.limits import Limits, Row, decoding_words, limits_of, one_line, safe
from stresstest.report.text import count, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from stresstest.store import RunSummary

WIDE = 100
"""From this width on the decoding has a column of its own; on narrower terminals it is below the subject."""


def print_recommendations(console: Console, rows: Sequence[Row]) -> None:
    """Subject, decoding, limit, and what each number stands on; the smallest where a model has several."""
    from rich.table import Table
    from rich.text import Text

    wide = console.width >= WIDE
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("subject", overflow="fold")
    if wide:
        table.add_column("decoding", overflow="fold", max_width=34)
    for name in ("safe max_tokens", "T", "risk", "n", "onsets"):
        table.add_column(
            name if wide else name.replace("safe max_", "safe max\n"), justify="right", no_wrap=True
        )
    for row in rows:
        decoding = decoding_words(row.decoding)
        subject = Text(subject_words(row))
        if not wide:
            subject.append(f"\n{one_line(decoding)}", style="dim")
        table.add_row(subject, *([Text(one_line(decoding))] if wide else []), *_numbers(row))
    console.print(table)
    for limits in limits_of(rows):
        if len(limits.rows) > 1:
            console.print(Text(_smallest(limits), style="bold"))
    for row in rows:
        console.print(Text(f"{subject_words(row)}: {provenance(row)}", style="dim"))
        if row.certified_before:
            earlier = f"  run {row.certified_before} was certified before; this newer one does not support it"
            console.print(Text(earlier, style="yellow"))
        if row.threshold.lacking:
            console.print(Text(f"  {one_line(row.threshold.lacking)}", style="yellow"))


def _numbers(row: Row) -> tuple[Text | str, ...]:
    from rich.text import Text

    threshold = row.threshold
    reach = f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)
    risk = f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}"
    limit = Text(count(row.safe_max_tokens), style="bold")
    return limit, reach, risk, str(threshold.n), str(threshold.onsets)


def _smallest(limits: Limits) -> str:
    row = limits.smallest
    words = (
        f"{limits.model}, {decoding_words(limits.decoding)}: the smallest of {len(limits.rows)} limits is "
        f"{count(safe(row))} ({row.subject.task}, {row.subject.language})"
    )
    without = len(limits.uncovered)
    return one_line(words + (f"; {without} more are not certified" if without else ""))


def subject_words(row: Row | RunSummary) -> str:
    """Model, task and language, and whether they are the simulator's."""
    return one_line(str(row.subject)) + (" (simulated)" if row.simulated else "")
