"""The sentences of a project's check, as the terminal and Markdown show them."""

from __future__ import annotations

from collections import Counter

from stresstest.features.check.output.wording import changed_words, check_headline
from stresstest.model import CheckVerdict
from stresstest.model.address import clean_url
from stresstest.model.comparison import BudgetName, CellOutcome, FindingKind, GateOutcome, ProjectGate
from stresstest.render.limits import decoding_words, safe_words
from stresstest.render.text import NOT_MEASURED, certified_sentence, duration, format_count

OUTCOME_LABELS = {
    GateOutcome.PASS: "pass",
    GateOutcome.UNTESTED: "pass, no baseline yet",
    GateOutcome.WARNING: "warning",
    GateOutcome.INCONCLUSIVE: "inconclusive",
    GateOutcome.MISSING: "not measured",
    GateOutcome.TROUBLE: "endpoint trouble",
    GateOutcome.BREACH: "budget breached",
}
REASON_LABELS = OUTCOME_LABELS | {
    GateOutcome.PASS: "kept",
    GateOutcome.BREACH: "breached",
    GateOutcome.UNTESTED: "not tested",
    GateOutcome.TROUBLE: "trouble",
}
_COUNTED = OUTCOME_LABELS | {
    GateOutcome.PASS: "passed",
    GateOutcome.UNTESTED: "passed without a baseline",
    GateOutcome.WARNING: "passed with a warning",
    GateOutcome.BREACH: "breached",
}


def gate_headline(gate: ProjectGate) -> str:
    """How many cells came to what, worst first."""
    counts = Counter(cell.outcome for cell in gate.cells)
    order = list(GateOutcome)
    words = (f"{counts[each]} {_COUNTED[each]}" for each in sorted(counts, key=order.index, reverse=True))
    return f"{len(gate.cells)} cell{'s' if len(gate.cells) != 1 else ''}: {', '.join(words)}"


def budget_reasons(cell: CellOutcome) -> list[tuple[GateOutcome, str]]:
    """What became of every budget of a cell, those that are kept as well; trouble; what else was found."""
    if cell.trouble is not None:
        return [(GateOutcome.TROUBLE, cell.trouble)]
    names: dict[tuple[GateOutcome, str], list[str]] = {}
    for each in cell.budgets:
        names.setdefault((each.outcome, each.sentence), []).append(str(each.budget.name))
    found = [(outcome, f"{', '.join(own)}: {sentence}") for (outcome, sentence), own in names.items()]
    if not cell.budgets and cell.outcome is GateOutcome.INCONCLUSIVE and cell.threshold is not None:
        lacking = cell.uncompared if cell.threshold.usable else cell.threshold.lacking
        found.append((GateOutcome.INCONCLUSIVE, lacking or "nothing is certified"))
    if not cell.budgets and cell.outcome is GateOutcome.BREACH and cell.comparison is not None:
        found.append((GateOutcome.BREACH, check_headline(cell.comparison)))
    return found + [(GateOutcome.WARNING, each) for each in _warnings(cell)]


def _warnings(cell: CellOutcome) -> list[str]:
    """What speaks against a cell, and no budget of it has told."""
    judged = {each.budget.name for each in cell.budgets}
    told = {each.sentence for each in cell.budgets}
    found = cell.comparison
    if found is None or cell.uncompared is not None:
        untold = cell.budgets and cell.uncompared not in told
        return [f"not compared with the baseline: {cell.uncompared}"] if untold and cell.uncompared else []
    undecided = found.verdict is CheckVerdict.INCONCLUSIVE and BudgetName.MAX_INCREASE not in judged
    words = [f"against the baseline, {found.lacking or 'nothing could be decided'}"] if undecided else []
    dropped = BudgetName.MAX_DROP in judged
    return words + [f.sentence for f in found.findings if not (dropped and f.kind is FindingKind.MAX_DROP)]


def comparison_remarks(cell: CellOutcome) -> list[str]:
    """What else differs from the baseline, where to look first when a budget is breached; then the notes of
    the comparison and of the cell's own run."""
    if cell.comparison is None:
        return list(cell.notes)
    changed = [f"changed: {changed_words(each)}" for each in cell.comparison.changed]
    return list(dict.fromkeys([*changed, *cell.comparison.notes, *cell.notes]))


def source_runs(cell: CellOutcome) -> list[str]:
    """What a cell's numbers stand on: what is certified, its run with the decoding, and the baseline's. Empty
    without a run."""
    if cell.run_id is None:
        return []
    before = ", measured before" if cell.reused else ""
    certified = certified_words(cell)
    found = [certified] if certified else []
    found.append(f"run {cell.run_id}{before}; decoding: {decoding_words(cell.plan.decoding)}")
    if cell.comparison is not None:
        found.append(f"baseline: {cell.comparison.baseline.label}")
    elif cell.baseline is not None:
        found.append(f"baseline: run {cell.baseline}")
    elif cell.threshold is not None:
        found.append("baseline: none")
    return found


def cell_name(cell: CellOutcome) -> str:
    """As the project file names it, with the model that answered, and its address where it has its own."""
    subject = cell.subject
    words = [subject.model or "served model", subject.task, subject.language, cell.plan.decoding_name]
    if cell.plan.base_url is not None:
        words.append(clean_url(cell.plan.base_url))
    return " · ".join(words)


def certified_words(cell: CellOutcome) -> str:
    """T of a cell with its risk, confidence and sample; empty where nothing is certified."""
    threshold = cell.threshold
    return "" if threshold is None or not threshold.certified else certified_sentence(threshold)


NUMBERS = ("safe max_tokens", "baseline", "n", "degenerate")
"""What `cell_numbers` are, n: of the answers that count for T. degenerate: of all answers of the run."""


def cell_numbers(cell: CellOutcome) -> tuple[str, str, str, str]:
    threshold, failed = cell.threshold, NOT_MEASURED
    open_end = threshold is not None and threshold.censored_at is not None
    at_least = "≥ " if open_end and cell.safe_max_tokens is not None else ""
    safe = f"{at_least}{safe_words(threshold, cell.safe_max_tokens)}"
    if cell.generations is not None:
        failed = f"{format_count(cell.degenerate)} of {format_count(cell.generations)}"
    n = NOT_MEASURED if threshold is None else str(threshold.n)
    return safe, format_count(cell.baseline_safe), n, failed


def spent_line(gate: ProjectGate) -> str:
    reused = sum(cell.reused for cell in gate.cells)
    tokens, seconds = sum(c.tokens for c in gate.cells), sum(c.seconds for c in gate.cells)
    words = f"{format_count(tokens)} tokens in {duration(seconds)}"
    words += f"; {reused} measured before" if reused else ""
    return words + (f"; stored as check {gate.id}" if gate.id else "")
