"""`scan --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.model.scanned import GroupResult, ScanResult
from stresstest.render.run_document import threshold_document
from stresstest.statistics.rate_limit import CONFIDENCE, RateJudgement


def scan_document(result: ScanResult, judged: RateJudgement | None = None) -> dict[str, Any]:
    """``scan --json``. Absent values are null, never 0. judged: of --fail-above."""
    return {
        "requests": result.requests,
        "damaged": result.damaged,
        "groups": [_group(group) for group in result.groups],
        "interrupted": result.interrupted,
        "textless": result.textless,
        "left_out": result.left_out,
        "unread_files": result.unread,
        "read_from": dict(result.read_from),
        "not_judged": {"lines_looked_at": result.looked_at, "lines": dict(result.not_judged)},
        "fail_above": judged and _judgement(judged),
    }


def _judgement(judged: RateJudgement) -> dict[str, Any]:
    return {
        "limit": judged.limit,
        "outcome": str(judged.outcome),
        "confidence": CONFIDENCE,
        "groups": [
            {"key": dict(each.group.key), "low": each.low, "high": each.high, "outcome": str(each.outcome)}
            for each in judged.groups
        ],
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
        "cap_withheld": group.cap_withheld,
        "wasted": group.wasted,
        "total": group.total,
        "recovered": group.recovered,
        "empty": group.empty,
        "uncounted": group.uncounted,
        "sums": group.sums,
        "at_cap": group.at_cap,
        "beyond_cap": group.beyond_cap,
        "undecided": group.undecided,
        "unknown_language": group.unknown_language,
        "several_turns": group.several_turns,
        "capped": group.capped,
        "unseen": group.unseen,
        "lost": group.lost,
        "stopped": group.stopped,
        "unsure_stops": group.unsure_stops,
        "repetitions": group.repetitions,
        "prompts": group.prompts,
        "questions": group.questions,
        "promptless": group.promptless,
        "copies": group.copies,
        "one_text": group.one_text,
        "brief": group.brief,
        "sampled": group.sampled,
        "languages": dict(group.languages),
        "language_sources": dict(group.language_sources),
        "by_length": group.by_length and asdict(group.by_length),
        **_parts(group),
    }


def _parts(group: GroupResult) -> dict[str, Any]:
    """The rates inside and outside the reasoning, only where answers have any."""
    if not group.parts:
        return {}
    found = {
        str(each.part): {
            "n": each.n,
            "degenerate": each.degenerate,
            "rate": each.rate,
            "rate_ci": list(each.rate_ci),
        }
        for each in group.parts
    }
    return {"parts": found}
