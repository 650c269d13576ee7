"""``sweep --json``: a sweep as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.model.sweep import CellLimit, Sweep, SweepCell, SweepControl


def stored_document(found: Sweep) -> dict[str, Any]:
    """What is stored of a sweep: which of its runs it began, too."""
    return {**sweep_document(found), "began": [cell.run_id for cell in found.cells if cell.measured_now]}


def sweep_document(found: Sweep) -> dict[str, Any]:
    """``sweep --json``."""
    return {
        "simulated": found.simulated,
        "complete": found.complete,
        "cells": [_cell(each) for each in found.cells],
        "answers": list(found.answers),
        "ratios": [asdict(ratio) for ratio in found.ratios],
        "control": None if found.control is None else _control(found.control),
    }


def _control(control: SweepControl) -> dict[str, Any]:
    return {
        "n": control.n,
        "symptoms": dict(control.kinds),
        "confirms": control.confirms,
        "tokens": control.tokens,
    }


def _joint(limit: CellLimit) -> dict[str, Any]:
    """What holds of the cell although it may be chosen among all for its T."""
    return {
        "tokens": limit.threshold.tokens,
        "certified": limit.threshold.certified,
        "lacking": limit.threshold.lacking,
        "safe_max_tokens": limit.safe_max_tokens,
        "needs_no_cap": limit.needs_no_cap,
    }


def _cell(cell: SweepCell) -> dict[str, Any]:
    threshold = cell.threshold
    return {
        "values": dict(cell.values),
        "run_id": cell.run_id,
        "distinct_prompts": cell.prompts,
        "subject": asdict(cell.subject),
        "threshold": {
            "tokens": threshold.tokens,
            "certified": threshold.certified,
            "censored_at": threshold.censored_at,
            "lacking": threshold.lacking,
        },
        "safe_max_tokens": cell.safe_max_tokens,
        "needs_no_cap": cell.needs_no_cap,
        "joint": None if cell.joint is None else _joint(cell.joint),
        "generations": cell.generations,
        "failed": cell.failed,
        "symptoms": dict(cell.kinds),
        "median_onset": cell.median_onset,
        "first_foreign_sentence": cell.first_foreign,
        "onset_unit": cell.onset_unit,
        "completed": cell.completed,
        "finished": cell.finished,
        "lexical_diversity": cell.diversity,
        "recurring_terms": cell.terms,
        "requests_of_others": cell.others,
        "server_cap": cell.server_cap,
        "answered_by": list(cell.answered_by),
        "notes": list(cell.doubts),
        "tokens_spent": cell.tokens,
    }
