"""A comparison on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.features.check.output.wording import (
    changed_words,
    check_headline,
    comparison_rows,
    spent_line,
)
from stresstest.model import CheckVerdict, Comparison
from stresstest.render.text import SIMULATED_WARNING, sanitize

if TYPE_CHECKING:
    from rich.console import Console


_COLOURS = {CheckVerdict.PASS: "green", CheckVerdict.REGRESSION: "red", CheckVerdict.INCONCLUSIVE: "yellow"}
MORE_DATA = (
    "To get more data: choose a stricter --rigor, which measures more of the candidate, or declare a "
    "second look with --extend before the first."
)
MORE_RECORDED = (
    "To get more data: record more outputs of the candidate. Only the first output of each prompt counts."
)


def print_check(
    console: Console, found: Comparison, *, document_id: str | None = None, cut_short: bool = False
) -> None:
    """The verdict first, then both sides, what else was found, what else changed.

    cut_short: it was interrupted, and repeating it is the way to more data.
    """
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    if found.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    colour = _COLOURS[found.verdict]
    word, colon, grounds = sanitize(check_headline(found)).partition(": ")
    answer = Text.assemble((word, f"bold {colour}"), f"{colon}{grounds}")
    console.print(Panel(answer, border_style=colour, title=str(found.verdict)))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    table.add_column("baseline", overflow="fold")
    table.add_column("candidate", overflow="fold")
    for row in comparison_rows(found):
        table.add_row(*(Text(sanitize(cell)) for cell in row))
    console.print(table)
    for finding in found.findings:
        style = "red" if finding.severity == "error" else "yellow"
        console.print(Text(sanitize(f"{finding.severity}: {finding.sentence}"), style=style))
    for changed in found.changed:
        style = "yellow" if changed.allowed else ""
        console.print(Text(sanitize(f"changed: {changed_words(changed)}"), style=style))
    for note in found.notes:
        console.print(Text(sanitize(f"note: {note}"), style="dim"))
    undecided = found.verdict is CheckVerdict.INCONCLUSIVE and not cut_short
    if undecided and found.at_tokens is not None and found.looks == 1:
        advice = MORE_RECORDED if found.candidate.files else MORE_DATA
        console.print(Text(f"→ {advice}", style="cyan"))
    console.print(Text(spent_line(found, document_id), style="dim"))
