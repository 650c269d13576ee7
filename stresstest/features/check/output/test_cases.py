"""A check's outcome as test cases, for JUnit XML and GitHub's annotations."""

from __future__ import annotations

from stresstest.features.check.output.wording import check_headline
from stresstest.features.check.project.wording import certified_words
from stresstest.model import (
    CheckVerdict,
    Comparison,
    ComparisonSide,
    FindingKind,
    Severity,
)
from stresstest.model.comparison import BudgetName, BudgetOutcome, CellOutcome, GateOutcome, ProjectGate
from stresstest.render.test_cases import CaseResult, CaseState, CaseSuite


def gate_suites(gate: ProjectGate) -> list[CaseSuite]:
    """One suite a cell, one case a budget."""
    return [_cell_suite(cell) for cell in gate.cells]


def _cell_suite(cell: CellOutcome) -> CaseSuite:
    properties = {
        "run": cell.run_id or "",
        "baseline": cell.baseline or "",
        "simulated": str(cell.simulated).lower(),
        "measured_before": str(cell.reused).lower(),
        "safe_max_tokens": "" if cell.safe_max_tokens is None else str(cell.safe_max_tokens),
    }
    if cell.generations is not None:
        properties["degenerate"] = f"{cell.degenerate} of {cell.generations}"
    if cell.notes:
        properties["notes"] = " ".join(cell.notes)
    subject = cell.subject
    name = (
        f"{subject.model or 'served model'} · {subject.task} · {subject.language} · {cell.plan.decoding_name}"
    )
    return CaseSuite(name, _cell_cases(cell), "stresstest.check", cell.seconds, properties)


def _cell_cases(cell: CellOutcome) -> tuple[CaseResult, ...]:
    names = [str(budget.name) for budget in cell.plan.budgets] or ["certified"]
    if cell.outcome in (GateOutcome.TROUBLE, GateOutcome.MISSING):
        kind = "infrastructure" if cell.trouble is not None else "interrupted"
        message = cell.trouble or "interrupted before it was measured"
        return tuple(CaseResult(name, CaseState.ERROR, message, kind) for name in names)
    if not cell.budgets:
        lacking = "" if cell.threshold is None else cell.threshold.lacking or ""
        if cell.outcome is GateOutcome.PASS:
            return (CaseResult("certified", CaseState.PASSED, certified_words(cell)),)
        if cell.outcome is GateOutcome.BREACH and cell.comparison is not None:
            return (CaseResult("certified", CaseState.FAILURE, check_headline(cell.comparison), "breach"),)
        return (CaseResult("certified", CaseState.FAILURE, lacking, "inconclusive"),)
    states = {
        GateOutcome.BREACH: CaseState.FAILURE,
        GateOutcome.INCONCLUSIVE: CaseState.FAILURE,
        GateOutcome.UNTESTED: CaseState.SKIPPED,
    }
    return tuple(
        CaseResult(
            str(each.budget.name),
            states.get(each.outcome, CaseState.PASSED),
            f"{each.sentence}{_grounds(cell, each)}",
            str(each.outcome) if each.outcome in states else "",
            warning=each.outcome is GateOutcome.WARNING,
        )
        for each in cell.budgets
    )


def _grounds(cell: CellOutcome, found: BudgetOutcome) -> str:
    """What a limit in the sentence on a budget stands on: risk, confidence and sample."""
    about_limit = found.budget.name in (BudgetName.MIN_SAFE_TOKENS, BudgetName.MAX_DROP)
    certified = certified_words(cell)
    return f"; {certified}" if about_limit and certified else ""


def error_suite(sentence: str, kind: str) -> CaseSuite:
    """A check that has no result at all, and why."""
    return CaseSuite("check", (CaseResult("check", CaseState.ERROR, sentence, kind),), "stresstest.check")


def _side_name(side: ComparisonSide) -> str:
    """The same from check to check, so that a CI server can follow the case: no run's id."""
    return str(side.subject) if side.run_ids else side.label


def comparison_suite(found: Comparison, *, error: str | None = None) -> CaseSuite:
    """A check of two sides: the test, and each finding beside it. error: what cut it short."""
    state = CaseState.PASSED if found.tested is CheckVerdict.PASS else CaseState.FAILURE
    kind = "" if state is CaseState.PASSED else str(found.tested)
    if error is not None:
        test = CaseResult("risk at the baseline's threshold", CaseState.ERROR, error, "infrastructure")
    else:
        test = CaseResult("risk at the baseline's threshold", state, check_headline(found), kind)
    seen = {finding.kind: finding for finding in found.findings}
    cases = [test]
    for each in FindingKind:
        finding = seen.get(each)
        failed = finding is not None and finding.severity is Severity.ERROR
        sentence = "" if finding is None else finding.sentence
        state = CaseState.FAILURE if failed else CaseState.PASSED
        cases.append(
            CaseResult(str(each), state, sentence, "finding" if failed else "", warning=bool(finding))
        )
    name = " → ".join(dict.fromkeys(map(_side_name, (found.baseline, found.candidate))))
    properties = {"runs": " ".join(found.run_ids), "simulated": str(found.simulated).lower()}
    if found.notes:
        properties["notes"] = " ".join(found.notes)
    return CaseSuite(name, tuple(cases), "stresstest.check", found.seconds, properties)
