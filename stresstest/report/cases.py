"""Outcomes as test cases, the one shape that JUnit XML and GitHub's annotations are written from.

A breach, a regression and an inconclusive result are failures: the gate was not passed. What kept us from
measuring is an error. What has no baseline yet is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stresstest.model import (
    CheckVerdict,
    Comparison,
    FindingKind,
    RunResult,
    RunStatus,
    Severity,
)
from stresstest.model.gate import CellOutcome, Gate, Outcome
from stresstest.report.check import check_headline
from stresstest.report.sentences import headline


class State(StrEnum):
    """How a case ended, in JUnit's words."""

    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One question and its answer. kind: type of a failure or error. warning: a passed one with a remark."""

    name: str
    state: State
    message: str = ""
    kind: str = ""
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one subject. properties: what it stands on. seconds: of measuring."""

    name: str
    cases: tuple[Case, ...]
    classname: str
    seconds: float = 0.0
    properties: dict[str, str] = field(default_factory=dict)


def gate_suites(gate: Gate) -> list[Suite]:
    """One suite a cell, one case a budget."""
    return [_cell_suite(cell) for cell in gate.cells]


def _cell_suite(cell: CellOutcome) -> Suite:
    properties = {
        "run": cell.run_id or "",
        "baseline": cell.baseline or "",
        "simulated": str(cell.simulated).lower(),
        "safe_max_tokens": "" if cell.safe_max_tokens is None else str(cell.safe_max_tokens),
    }
    subject = cell.subject
    name = (
        f"{subject.model or 'served model'} · {subject.task} · {subject.language} · {cell.plan.decoding_name}"
    )
    return Suite(name, _cell_cases(cell), "stresstest.check", cell.seconds, properties)


def _cell_cases(cell: CellOutcome) -> tuple[Case, ...]:
    names = [str(budget.name) for budget in cell.plan.budgets] or ["certified"]
    if cell.outcome in (Outcome.TROUBLE, Outcome.MISSING):
        kind = "infrastructure" if cell.trouble is not None else "interrupted"
        message = cell.trouble or "interrupted before it was measured"
        return tuple(Case(name, State.ERROR, message, kind) for name in names)
    if not cell.budgets:
        lacking = "" if cell.threshold is None else cell.threshold.lacking or ""
        if cell.outcome is Outcome.PASS:
            return (Case("certified", State.PASSED),)
        return (Case("certified", State.FAILURE, lacking, "inconclusive"),)
    states = {
        Outcome.BREACH: State.FAILURE,
        Outcome.INCONCLUSIVE: State.FAILURE,
        Outcome.UNTESTED: State.SKIPPED,
    }
    return tuple(
        Case(
            str(each.budget.name),
            states.get(each.outcome, State.PASSED),
            each.sentence,
            str(each.outcome) if each.outcome in states else "",
            warning=each.outcome is Outcome.WARNING,
        )
        for each in cell.budgets
    )


def comparison_suite(found: Comparison, *, trouble: str | None = None) -> Suite:
    """A check of two sides: the test, and each finding beside it. trouble: what cut it short."""
    state = State.PASSED if found.tested is CheckVerdict.PASS else State.FAILURE
    kind = "" if state is State.PASSED else str(found.tested)
    if trouble is not None:
        test = Case("risk at the baseline's threshold", State.ERROR, trouble, "infrastructure")
    else:
        test = Case("risk at the baseline's threshold", state, check_headline(found), kind)
    seen = {finding.kind: finding for finding in found.findings}
    cases = [test]
    for each in FindingKind:
        finding = seen.get(each)
        failed = finding is not None and finding.severity is Severity.ERROR
        sentence = "" if finding is None else finding.sentence
        state = State.FAILURE if failed else State.PASSED
        cases.append(Case(str(each), state, sentence, "finding" if failed else "", warning=bool(finding)))
    name = f"{found.baseline.label} → {found.candidate.label}"
    properties = {"runs": " ".join(found.run_ids), "simulated": str(found.simulated).lower()}
    return Suite(name, tuple(cases), "stresstest.check", found.seconds, properties)


def run_suite(result: RunResult) -> Suite:
    """A stored run: was a threshold certified?"""
    run = result.run
    if run.status is RunStatus.FAILED:
        case = Case("certified", State.ERROR, run.note or "the run failed", "infrastructure")
    elif result.threshold.certified:
        case = Case("certified", State.PASSED, headline(result))
    else:
        case = Case("certified", State.FAILURE, headline(result), "inconclusive")
    safe = result.safe_max_tokens
    properties = {
        "run": run.id,
        "simulated": str(run.profile.simulated).lower(),
        "safe_max_tokens": "" if safe is None else str(safe),
    }
    return Suite(str(run.settings.subject), (case,), "stresstest.run", result.seconds, properties)
