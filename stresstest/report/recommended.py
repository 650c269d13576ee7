"""Stored thresholds and runs as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stresstest.report.limits import Limits, limits_of, safe
from stresstest.store import RunSummary, StoredThreshold


def recommendations_document(rows: Sequence[StoredThreshold]) -> dict[str, Any]:
    """``recommend --format json``: newest threshold of each subject and decoding, and what each model's
    tasks and languages have in common: the smallest limit."""
    return {
        "recommendations": [_recommendation(row) for row in rows],
        "smallest": [_smallest(limits) for limits in limits_of(rows)],
    }


def _smallest(limits: Limits) -> dict[str, Any]:
    return {
        "model": limits.model,
        "decoding": limits.decoding.given(),
        "simulated": limits.simulated,
        "safe_max_tokens": safe(limits.smallest),
        "subject": asdict(limits.smallest.subject),
        "subjects": len(limits.rows),
        "not_certified": [asdict(row.subject) for row in limits.uncovered],
    }


def _recommendation(row: StoredThreshold) -> dict[str, Any]:
    verdict = row.verdict
    return {
        "run_id": row.run_id,
        "subject": asdict(row.subject),
        "simulated": row.simulated,
        "safe_max_tokens": row.safe_max_tokens,
        "margin": row.margin,
        "rigor": row.rigor,
        "threshold": asdict(row.threshold),
        "distinct_prompts": row.distinct_prompts,
        "decoding": row.decoding.given(),
        "plane": verdict.plane and str(verdict.plane),
        "basis": verdict.basis and str(verdict.basis),
        "measured": row.created,
        "base_url": row.base_url,
        "server_version": row.server_version,
        "tool_version": row.tool_version,
        "certified_before": row.certified_before,
    }


def runs_document(rows: Sequence[RunSummary]) -> dict[str, Any]:
    """``runs list --json``."""
    return {
        "runs": [
            {
                "run_id": row.id,
                "subject": asdict(row.subject),
                "simulated": row.simulated,
                "rigor": row.rigor,
                "status": str(row.status),
                "created": row.created,
                "generations": row.generations,
                "onsets": row.degenerate,
                "lost": row.lost,
                "tokens_spent": row.output_tokens,
                "seconds": row.seconds,
                "safe_max_tokens": row.safe_max_tokens,
                "note": row.note,
                "decoding": row.decoding.given(),
                "parent": row.parent,
                "sweep": row.sweep,
            }
            for row in rows
        ]
    }
