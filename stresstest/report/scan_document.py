"""``scan --json``: the contract's keys, and beside them what else the table shows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.model.scanned import GroupResult, ScanResult
from stresstest.report.document import threshold_document


def scan_document(result: ScanResult) -> dict[str, Any]:
    """One document; absent values are null, never 0."""
    return {
        "requests": result.requests,
        "damaged": result.damaged,
        "groups": [_group(group) for group in result.groups],
        "interrupted": result.interrupted,
        "textless": result.textless,
    }


def _group(group: GroupResult) -> dict[str, Any]:
    threshold = group.threshold
    return {
        "key": dict(group.key),
        "requests": group.requests,
        "degenerate": group.degenerate,
        "rate": group.rate,
        "rate_ci": list(group.rate_ci),
        "dharma_rate": group.dharma_rate,
        "symptoms": dict(group.symptoms),
        "threshold": {
            **threshold_document(threshold),
            "tokens": threshold.tokens if group.unit != "words" else None,
            "words": threshold.tokens if group.unit == "words" else None,
            "unit": group.unit,
        },
        "safe_max_tokens": group.safe_max_tokens,
        "healthy_cut": group.healthy_cut,
        "wasted": group.wasted,
        "total": group.total,
        "recovered": group.recovered,
        "empty": group.empty,
        "uncounted": group.uncounted,
        "undecided": group.undecided,
        "prompts": group.prompts,
        "sampled": group.sampled,
        "languages": dict(group.languages),
        "language_sources": dict(group.language_sources),
        "by_length": group.by_length and asdict(group.by_length),
    }
