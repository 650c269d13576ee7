"""A cost as Markdown."""

from __future__ import annotations

from stresstest.economics.optimum import CapOptimum
from stresstest.features.cost.wording import conclusion, cost_rows, remarks
from stresstest.model.cost import Cost
from stresstest.render.text import SIMULATED_WARNING, sanitize


def cost_markdown(cost: Cost, best_cap: CapOptimum | None = None) -> str:
    """The account as a Markdown table with its remarks."""
    lines = ["| what | how much | known |", "| --- | --- | --- |"]
    lines += [f"| {name} | {_cell(words)} | {known} |" for name, words, known in cost_rows(cost)]
    lines += ["", *(f"- {_cell(remark)}" for remark in remarks(cost))]
    lines += ["", f"**{_cell(conclusion(cost, best_cap))}**"]
    head = f"{SIMULATED_WARNING}\n\n" if cost.simulated else ""
    return head + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return sanitize(text).replace("|", "\\|")
