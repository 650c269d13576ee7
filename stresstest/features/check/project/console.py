"""A project's check on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.features.check.project.wording import (
    NUMBERS,
    OUTCOME_LABELS,
    REASON_LABELS,
    budget_reasons,
    cell_name,
    cell_numbers,
    comparison_remarks,
    gate_headline,
    source_runs,
    spent_line,
)
from stresstest.model.comparison import GateOutcome, ProjectGate
from stresstest.render.text import SIMULATED_WARNING, single_line

if TYPE_CHECKING:
    from rich.console import Console


_COLOURS = {
    GateOutcome.PASS: "green",
    GateOutcome.UNTESTED: "green",
    GateOutcome.WARNING: "yellow",
    GateOutcome.INCONCLUSIVE: "yellow",
    GateOutcome.MISSING: "yellow",
    GateOutcome.TROUBLE: "magenta",
    GateOutcome.BREACH: "red",
}


def print_gate(console: Console, gate: ProjectGate) -> None:
    """One table, then why each cell that did not pass did not."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if gate.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("cell", overflow="fold")
    for name in NUMBERS:
        name = name.replace("max_", "max\n")
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold", min_width=12)
    for cell in gate.cells:
        word = Text(OUTCOME_LABELS[cell.outcome], style=_COLOURS[cell.outcome])
        table.add_row(Text(single_line(cell_name(cell))), *cell_numbers(cell), word)
    console.print(table)
    for cell in gate.cells:
        found, more, runs = budget_reasons(cell), comparison_remarks(cell), source_runs(cell)
        if found or more or runs:
            console.print(Text(single_line(cell_name(cell)), style="bold"))
        for words in runs:
            console.print(Padding(Text(single_line(words), style="dim"), (0, 0, 0, 2)))
        for outcome, sentence in found:
            line = Text(f"{REASON_LABELS[outcome]}: ", style=_COLOURS[outcome])
            line.append(single_line(sentence), style="default")
            console.print(Padding(line, (0, 0, 0, 2)))
        for words in more:
            console.print(Padding(Text(single_line(words), style="dim"), (0, 0, 0, 2)))
    colour = _COLOURS[gate.outcome]
    console.print(Text(gate_headline(gate), style=f"bold {colour}"))
    console.print(Text(spent_line(gate), style="dim"))
