"""``check --json``: a comparison as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.model import CheckVerdict, Comparison, ComparisonSide


def check_document(found: Comparison) -> dict[str, Any]:
    """``check --json``: the contract's keys in its order, then what else is known. Absent is null."""
    return {
        "baseline": _side(found.baseline),
        "candidate": _side(found.candidate),
        "at_tokens": found.at_tokens,
        "p_baseline": found.p_baseline,
        "p_candidate": found.p_candidate,
        "difference": found.difference,
        "interval": None if found.interval is None else list(found.interval),
        "max_increase": found.max_increase,
        "verdict": str(found.verdict),
        "lacking": found.lacking,
        "evidence": dict(found.evidence),
        "tested": str(found.tested),
        "method": str(found.method),
        "alpha": found.alpha,
        "confidence": found.confidence,
        "pairs": found.pairs,
        "looks": found.looks,
        "look": found.look,
        "findings": [
            {"kind": str(f.kind), "severity": str(f.severity), "sentence": f.sentence} for f in found.findings
        ],
        "changed": [asdict(changed) for changed in found.changed],
        "notes": list(found.notes),
        "simulated": found.simulated,
        "run_ids": list(found.run_ids),
        "tokens_spent": found.tokens_spent,
        "seconds": round(found.seconds, 3),
    }


def empty_check_document() -> dict[str, Any]:
    """``check --json`` when it was interrupted before there was anything to compare."""
    keys = ("baseline", "candidate", "at_tokens", "p_baseline", "p_candidate", "difference", "interval")
    return {
        **dict.fromkeys(keys),
        "max_increase": None,
        "verdict": str(CheckVerdict.INCONCLUSIVE),
        "lacking": "interrupted",
        "evidence": {},
        "findings": [],
        "changed": [],
        "notes": [],
        "run_ids": [],
        "tokens_spent": 0,
    }


def _side(side: ComparisonSide) -> dict[str, Any]:
    return {
        "label": side.label,
        "subject": asdict(side.subject),
        "run_ids": list(side.run_ids),
        "files": list(side.files),
        "generations": side.generations,
        "onsets": side.onsets,
        "at_risk": side.at_risk,
        "failed": side.failed,
        "threshold": side.threshold,
        "safe_max_tokens": side.safe_max_tokens,
        "limit_without_cap": side.limit_without_cap,
        "symptoms": dict(side.symptoms),
        "plane": None if side.plane is None else str(side.plane),
        "unit": side.unit,
        "measured_now": side.measured_now,
        "decoding": None if side.decoding is None else side.decoding.given(),
        "base_url": side.base_url,
    }
