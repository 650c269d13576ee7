"""`recommend --format json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stresstest.render.limits import ModelLimits, group_limits, safe_limit
from stresstest.render.run_document import thinking_document
from stresstest.store import StoredThreshold


def recommendations_document(rows: Sequence[StoredThreshold]) -> dict[str, Any]:
    """``recommend --format json``: the newest threshold of each subject and decoding, and the smallest limit
    of each model."""
    return {
        "recommendations": [_recommendation(row) for row in rows],
        "smallest": [_smallest(limits) for limits in group_limits(rows)],
    }


def _smallest(limits: ModelLimits) -> dict[str, Any]:
    return {
        "model": limits.model,
        "decoding": limits.decoding.given(),
        "simulated": limits.simulated,
        "safe_max_tokens": safe_limit(limits.smallest),
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
        "safe_max_tokens": row.limit,
        "cap_withheld": row.threshold.withheld is not None,
        "unfit": row.threshold.unfit,
        "margin": row.margin,
        "rigor": row.rigor,
        "threshold": asdict(row.threshold),
        "distinct_prompts": row.distinct_prompts,
        "decoding": row.decoding.given(),
        "plane": verdict.plane and str(verdict.plane),
        "basis": verdict.basis and str(verdict.basis),
        "measured": row.created,
        "base_url": row.base_url,
        "concurrency": row.concurrency,
        "server_version": row.server_version,
        "tool_version": row.tool_version,
        "certified_before": row.certified_before,
        "overruled_by": row.overruled_by,
        "holds_up_to": row.holds_up_to,
        **thinking_document(row.thinking),
    }
