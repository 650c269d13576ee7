"""`recommend` on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.model.percent import percent
from stresstest.render.limits import (
    WIDE,
    LimitRow,
    ModelLimits,
    decoding_words,
    group_limits,
    only_up_to,
    overruled_words,
    safe_limit,
    subject_words,
)
from stresstest.render.run_summary import provenance
from stresstest.render.sentences import UNFIT, thinking_words
from stresstest.render.text import format_count, format_threshold, language_name, single_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def print_recommendations(console: Console, rows: Sequence[LimitRow]) -> None:
    """Print each row's subject, decoding, limit and sample, and the smallest of several limits of a model."""
    from rich.table import Table
    from rich.text import Text

    wide = console.width >= WIDE
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("subject", overflow="fold")
    if wide:
        table.add_column("decoding", overflow="fold", max_width=34)
    for name, narrow in (
        ("safe max_tokens", "safe max\ntokens"),
        ("T", "T"),
        ("tolerated risk", "tolerated\nrisk"),
        ("at risk", "at risk"),
        ("degenerate by T", "degenerate\nby T"),
    ):
        table.add_column(name if wide else narrow, justify="right", no_wrap=True)
    for row in rows:
        decoding = decoding_words(row.decoding)
        subject = Text(subject_words(row))
        if not wide:
            subject.append(f"\n{single_line(decoding)}", style="dim")
        table.add_row(subject, *([Text(single_line(decoding))] if wide else []), *_numbers(row))
    console.print(table)
    for which in _which_to_take(rows):
        console.print(Text(which, style="bold"))
    for row in rows:
        console.print(Text(f"{subject_words(row)}: {provenance(row)}", style="dim"))
        if row.thinking is not None:
            said = thinking_words(row.thinking, row.margin)
            console.print(
                Text(f"  {single_line(said)}", style="bold" if row.thinking.safe_tokens else "yellow")
            )
        if row.certified_before:
            earlier = (
                f"  run {row.certified_before} was certified before, but this newer run does not confirm it"
            )
            console.print(Text(earlier, style="yellow"))
        if row.holds_up_to is not None:
            console.print(Text(f"  {only_up_to(row.holds_up_to)}", style="bold yellow"))
        if row.overruled_by:
            console.print(Text(single_line(f"  {overruled_words(row)}"), style="yellow"))
        if row.threshold.lacking:
            console.print(Text(f"  {single_line(row.threshold.lacking)}", style="yellow"))
        if row.threshold.withheld:
            verdict = UNFIT.lower() if row.threshold.unfit else "no cap is recommended"
            reason = f"  {verdict}: {row.threshold.withheld}"
            console.print(Text(single_line(reason), style="yellow"))


def _numbers(row: LimitRow) -> tuple[Text | str, ...]:
    from rich.text import Text

    threshold = row.threshold
    risk = f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}"
    limit = Text(format_count(row.safe_max_tokens), style="bold" if row.limit else "strike")
    return limit, format_threshold(threshold), risk, str(threshold.n), str(threshold.onsets)


def _which_to_take(rows: Sequence[LimitRow]) -> list[str]:
    """Which limit counts, of a subject that has several and of a model with several subjects."""
    several = [_several_words(own) for own in _measured_twice(rows)]
    return several + [_smallest(limits) for limits in group_limits(rows) if len(limits.rows) > 1]


def _measured_twice(rows: Sequence[LimitRow]) -> list[list[LimitRow]]:
    """The limits of each subject and decoding that has several."""
    found: dict[object, list[LimitRow]] = {}
    for row in rows:
        if row.limit:
            found.setdefault((row.subject, row.decoding, row.simulated), []).append(row)
    return [own for own in found.values() if len(own) > 1]


def _several_words(rows: Sequence[LimitRow]) -> str:
    """Why a subject is listed more than once, and which of its limits counts."""
    smallest = min(rows, key=safe_limit)
    listed = " and ".join(
        f"{format_count(safe_limit(row))} (at most {percent(row.threshold.alpha)} at "
        f"{percent(row.threshold.confidence)} confidence)"
        for row in rows
    )
    return single_line(
        f"{subject_words(smallest)}, {decoding_words(smallest.decoding)}: {len(rows)} limits are in force, "
        f"one for each rigor and each set of prompts that it was measured with: {listed}. Take the smallest, "
        f"{format_count(safe_limit(smallest))}, as the other formats do: it keeps them all."
    )


def _smallest(limits: ModelLimits) -> str:
    row = limits.smallest
    words = (
        f"{limits.model}, {decoding_words(limits.decoding)}: the smallest of {len(limits.rows)} limits is "
        f"{format_count(safe_limit(row))} ({row.subject.task}, {language_name(row.subject.language)})"
    )
    without = len(limits.uncovered)
    return single_line(words + (f"; {without} more have no limit" if without else ""))
