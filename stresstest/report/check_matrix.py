"""A check of a project file on the terminal, as JSON, and as Markdown. Computes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.model.gate import GOOD, BudgetOutcome, CellOutcome, Gate, Outcome
from stresstest.report.check import changed_words, check_document
from stresstest.report.limits import decoding_words, one_line
from stresstest.report.markdown import SIMULATED, bullets, grid, inline
from stresstest.report.text import NOT_MEASURED, SIMULATED_WARNING, count, duration
from stresstest.store.documents import clean_url

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {
    Outcome.PASS: "green",
    Outcome.UNTESTED: "green",
    Outcome.WARNING: "yellow",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.MISSING: "yellow",
    Outcome.TROUBLE: "magenta",
    Outcome.BREACH: "red",
}
WORDS = {
    Outcome.PASS: "pass",
    Outcome.UNTESTED: "pass, no baseline yet",
    Outcome.WARNING: "warning",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.MISSING: "not measured",
    Outcome.TROUBLE: "endpoint trouble",
    Outcome.BREACH: "budget breached",
}
_REASONS = WORDS | {
    Outcome.PASS: "kept",
    Outcome.BREACH: "breached",
    Outcome.UNTESTED: "not tested",
    Outcome.TROUBLE: "trouble",
}
_COUNTED = WORDS | {
    Outcome.PASS: "passed",
    Outcome.UNTESTED: "passed without a baseline",
    Outcome.WARNING: "passed with a warning",
    Outcome.BREACH: "breached",
}


def gate_document(gate: Gate) -> dict[str, Any]:
    """``check --config … --json``: the worst outcome, then one entry a cell. Absent is null.

    verdict: the outcome in the words of a check of two.
    """
    verdicts = {Outcome.BREACH: "regression"} | dict.fromkeys(GOOD, "pass")
    return {
        "verdict": verdicts.get(gate.outcome, "inconclusive"),
        "outcome": str(gate.outcome),
        "complete": gate.complete,
        "simulated": gate.simulated,
        "cells": [_cell(cell) for cell in gate.cells],
    }


def _cell(cell: CellOutcome) -> dict[str, Any]:
    return {
        "key": cell.key,
        "subject": asdict(cell.subject),
        "base_url": None if cell.plan.base_url is None else clean_url(cell.plan.base_url),
        "decoding_name": cell.plan.decoding_name,
        "decoding": cell.plan.decoding.given(),
        "outcome": str(cell.outcome),
        "run_id": cell.run_id,
        "reused": cell.reused,
        "threshold": None if cell.threshold is None else asdict(cell.threshold),
        "safe_max_tokens": cell.safe_max_tokens,
        "baseline": cell.baseline,
        "baseline_safe_max_tokens": cell.baseline_safe,
        "budgets": [_budget(each) for each in cell.budgets],
        "comparison": None if cell.comparison is None else check_document(cell.comparison),
        "trouble": cell.trouble,
        "simulated": cell.simulated,
        "tokens_spent": cell.tokens,
        "seconds": round(cell.seconds, 3),
    }


def _budget(found: BudgetOutcome) -> dict[str, Any]:
    budget = found.budget
    return {
        "name": str(budget.name),
        "limit": budget.limit,
        "level": str(budget.level),
        "at_tokens": budget.at_tokens,
        "outcome": str(found.outcome),
        "measured": found.measured,
        "sentence": found.sentence,
    }


def gate_headline(gate: Gate) -> str:
    """How many cells came to what, worst first."""
    counts = Counter(cell.outcome for cell in gate.cells)
    order = list(Outcome)
    words = (f"{counts[each]} {_COUNTED[each]}" for each in sorted(counts, key=order.index, reverse=True))
    return f"{len(gate.cells)} cell{'s' if len(gate.cells) != 1 else ''}: {', '.join(words)}"


def reasons(cell: CellOutcome) -> list[tuple[Outcome, str]]:
    """What became of every budget of a cell, those that are kept as well; trouble; what else was found."""
    if cell.trouble is not None:
        return [(Outcome.TROUBLE, cell.trouble)]
    names: dict[tuple[Outcome, str], list[str]] = {}
    for each in cell.budgets:
        names.setdefault((each.outcome, each.sentence), []).append(str(each.budget.name))
    found = [(outcome, f"{', '.join(own)}: {sentence}") for (outcome, sentence), own in names.items()]
    if not cell.budgets and cell.outcome is Outcome.INCONCLUSIVE and cell.threshold is not None:
        found.append((Outcome.INCONCLUSIVE, cell.threshold.lacking or "nothing is certified"))
    if cell.comparison is not None:
        warned = (f for f in cell.comparison.findings if f.kind != "max_drop")
        found += [(Outcome.WARNING, finding.sentence) for finding in warned]
    return found


def changes(cell: CellOutcome) -> list[str]:
    """What else differs from the baseline: where to look first when a budget is breached."""
    if cell.comparison is None:
        return []
    return [f"changed: {changed_words(each)}" for each in cell.comparison.changed]


def grounds(cell: CellOutcome) -> list[str]:
    """Which runs a cell's numbers stand on: its own with the decoding, and the baseline's. Empty without."""
    if cell.run_id is None:
        return []
    before = ", measured before" if cell.reused else ""
    found = [f"run {cell.run_id}{before}; decoding: {decoding_words(cell.plan.decoding)}"]
    if cell.comparison is not None:
        found.append(f"baseline: {cell.comparison.baseline.label}")
    elif cell.baseline is not None:
        found.append(f"baseline: run {cell.baseline}")
    elif cell.threshold is not None:
        found.append("baseline: none")
    return found


def print_gate(console: Console, gate: Gate) -> None:
    """One table, then why each cell that did not pass did not."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if gate.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("cell", overflow="fold")
    for name in ("safe max\ntokens", "baseline", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold", min_width=12)
    for cell in gate.cells:
        word = Text(WORDS[cell.outcome], style=_COLOURS[cell.outcome])
        table.add_row(Text(one_line(_name(cell))), *_numbers(cell), word)
    console.print(table)
    for cell in gate.cells:
        found, more, runs = reasons(cell), changes(cell), grounds(cell)
        if found or more or runs:
            console.print(Text(one_line(_name(cell)), style="bold"))
        for words in runs:
            console.print(Padding(Text(one_line(words), style="dim"), (0, 0, 0, 2)))
        for outcome, sentence in found:
            line = Text(f"{_REASONS[outcome]}: ", style=_COLOURS[outcome])
            line.append(one_line(sentence), style="default")
            console.print(Padding(line, (0, 0, 0, 2)))
        for words in more:
            console.print(Padding(Text(one_line(words), style="dim"), (0, 0, 0, 2)))
    colour = _COLOURS[gate.outcome]
    console.print(Text(gate_headline(gate), style=f"bold {colour}"))
    console.print(Text(_cost(gate), style="dim"))


def _name(cell: CellOutcome) -> str:
    """As the project file names it, with the model that answered, and its address where it has its own."""
    subject = cell.subject
    words = [subject.model or "served model", subject.task, subject.language, cell.plan.decoding_name]
    if cell.plan.base_url is not None:
        words.append(clean_url(cell.plan.base_url))
    return " · ".join(words)


def _numbers(cell: CellOutcome) -> tuple[str, str, str]:
    threshold = cell.threshold
    at_least = "≥ " if threshold is not None and threshold.censored_at is not None else ""
    safe = NOT_MEASURED if cell.safe_max_tokens is None else f"{at_least}{count(cell.safe_max_tokens)}"
    return safe, count(cell.baseline_safe), NOT_MEASURED if threshold is None else str(threshold.n)


def _cost(gate: Gate) -> str:
    reused = sum(cell.reused for cell in gate.cells)
    words = (
        f"{count(sum(c.tokens for c in gate.cells))} tokens in {duration(sum(c.seconds for c in gate.cells))}"
    )
    words += f"; {reused} measured before" if reused else ""
    return words + (f"; kept as check {gate.id}" if gate.id else "")


def gate_markdown(gate: Gate) -> str:
    """For a pull request's comment and a job's summary. Foreign text is escaped: it cannot become markup."""
    sections = [f"### stresstest check: {inline(gate_headline(gate))}"]
    if gate.simulated:
        sections.append(SIMULATED)
    rows = [
        tuple(inline(each) for each in (_name(cell), *_numbers(cell), WORDS[cell.outcome]))
        for cell in gate.cells
    ]
    sections.append(grid(("cell", "safe max_tokens", "baseline", "n", "outcome"), rows))
    lines: list[str] = []
    for cell in gate.cells:
        lines += [f"{_name(cell)}: {words}" for words in grounds(cell)]
        lines += [f"{_REASONS[outcome]}: {_name(cell)}: {sentence}" for outcome, sentence in reasons(cell)]
        lines += [f"{_name(cell)}: {words}" for words in changes(cell)]
    if lines:
        sections.append(bullets(lines))
    sections.append(inline(_cost(gate)))
    return "\n\n".join(sections) + "\n"
