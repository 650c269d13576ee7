"""``check --config … --json``: a project's check as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.features.check.output.document import check_document
from stresstest.model.address import clean_url
from stresstest.model.comparison import PASSING_OUTCOMES, BudgetOutcome, CellOutcome, GateOutcome, ProjectGate


def gate_document(gate: ProjectGate) -> dict[str, Any]:
    """``check --config … --json``: the worst outcome, then one entry a cell. Absent is null.

    verdict: the outcome in the words of a check of two.
    """
    verdicts = {GateOutcome.BREACH: "regression"} | dict.fromkeys(PASSING_OUTCOMES, "pass")
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
        "uncompared": cell.uncompared,
        "notes": list(cell.notes),
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
