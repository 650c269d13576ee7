"""A project's check as Markdown, for a pull request's comment and a job's summary."""

from __future__ import annotations

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
from stresstest.model.comparison import ProjectGate
from stresstest.render.markdown import SIMULATED_NOTE, bullet_list, escape_inline, markdown_table


def gate_markdown(gate: ProjectGate) -> str:
    """For a pull request's comment and a job's summary. Foreign text is escaped: it cannot become markup."""
    sections = [f"### stresstest check: {escape_inline(gate_headline(gate))}"]
    if gate.simulated:
        sections.append(SIMULATED_NOTE)
    rows = [
        tuple(
            escape_inline(each)
            for each in (cell_name(cell), *cell_numbers(cell), OUTCOME_LABELS[cell.outcome])
        )
        for cell in gate.cells
    ]
    sections.append(markdown_table(("cell", *NUMBERS, "outcome"), rows))
    lines: list[str] = []
    for cell in gate.cells:
        lines += [f"{cell_name(cell)}: {words}" for words in source_runs(cell)]
        lines += [
            f"{REASON_LABELS[outcome]}: {cell_name(cell)}: {sentence}"
            for outcome, sentence in budget_reasons(cell)
        ]
        lines += [f"{cell_name(cell)}: {words}" for words in comparison_remarks(cell)]
    if lines:
        sections.append(bullet_list(lines))
    sections.append(escape_inline(spent_line(gate)))
    return "\n\n".join(sections) + "\n"
