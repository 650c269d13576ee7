"""Runs, generations and groups as flat rows: what ``export`` writes and DataFrames hold.

A value that was not measured is None. Times are seconds, positions tokens; ``created`` is UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from stresstest.model import SAMPLING, GenerationRecord, Run, RunResult
from stresstest.model.scanned import GroupResult

_DECODING: dict[str, type] = {
    name: {"top_k": int, "system_prompt": str}.get(name, float) for name in SAMPLING
}
_SUBJECT: dict[str, type] = {"run_id": str, "model": str, "task": str, "language": str, "simulated": bool}

RUN_COLUMNS: dict[str, type] = {
    **_SUBJECT,
    "status": str,
    "created": str,
    "base_url": str,
    "tool_version": str,
    **_DECODING,
    "rigor": str,
    "alpha": float,
    "confidence": float,
    "generations": int,
    "degenerate": int,
    "at_risk": int,
    "onsets": int,
    "threshold_tokens": int,
    "certified": bool,
    "censored_at": int,
    "risk_upper_bound": float,
    "safe_max_tokens": int,
    "concurrency": int,
    "holds_up_to": int,
    "safe_thinking_budget": int,
    "lacking": str,
    "withheld": str,
    "unfit": bool,
    "plane": str,
    "basis": str,
    "distinct_prompts": int,
    "tokens_spent": int,
    "seconds": float,
}
GENERATION_COLUMNS: dict[str, type] = {
    **_SUBJECT,
    **_DECODING,
    "key": str,
    "phase": str,
    "prompt_id": str,
    "seed": int,
    "units_asked": int,
    "units": int,
    "max_tokens": int,
    "prompt_tokens": int,
    "output_tokens": int,
    "token_source": str,
    "finish_reason": str,
    "failure": str,
    "aborted": bool,
    "degenerate": bool,
    "symptom": str,
    "onset_token": int,
    "onset_in": str,
    "reasoning_tokens": int,
    "alarm_token": int,
    "observed_tokens": int,
    "loops_to_end": bool,
    "recovered": bool,
    "score": float,
    "plane": str,
    "first_token_seconds": float,
    "seconds": float,
}
"""Columns in their order, with their types; any may be None where it was not measured or not sent."""
TEXT_COLUMNS: dict[str, type] = {"prompt": str, "reasoning": str, "text": str}
"""What a generation has beside them where its text is wanted."""


def without_text(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of a generation, or its row, without what somebody wrote, which a system prompt is, too."""
    return {name: value for name, value in row.items() if name not in (*TEXT_COLUMNS, "system_prompt")}


def run_row(result: RunResult) -> dict[str, Any]:
    """A run as one row, of `RUN_COLUMNS`."""
    run, threshold, verdict = result.run, result.threshold, result.verdict
    return {
        **_subject(run),
        "status": str(run.status),
        "created": datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
        "base_url": run.settings.base_url,
        "tool_version": run.tool_version,
        **_decoding(run),
        "rigor": run.settings.rigor,
        "alpha": threshold.alpha,
        "confidence": threshold.confidence,
        "generations": len(result.generations),
        "degenerate": sum(each.verdict.degenerate for each in result.generations),
        "at_risk": threshold.n,
        "onsets": threshold.onsets,
        "threshold_tokens": threshold.tokens,
        "certified": threshold.certified,
        "censored_at": threshold.censored_at,
        "risk_upper_bound": threshold.upper,
        "safe_max_tokens": result.safe_max_tokens,
        "concurrency": run.settings.concurrency,
        "holds_up_to": result.holds_up_to,
        "safe_thinking_budget": None if result.thinking is None else result.thinking.safe_tokens,
        "lacking": threshold.lacking,
        "withheld": threshold.withheld,
        "unfit": threshold.unfit,
        "plane": verdict.plane and str(verdict.plane),
        "basis": verdict.basis and str(verdict.basis),
        "distinct_prompts": result.distinct_prompts,
        "tokens_spent": result.tokens_spent,
        "seconds": round(result.seconds, 3),
    }


def generation_row(run: Run, generation: GenerationRecord) -> dict[str, Any]:
    """A generation as one row, of `GENERATION_COLUMNS`. Positions are output tokens, 1-based."""
    job, verdict, failure = generation.job, generation.verdict, generation.failure
    first = generation.first_token
    return {
        **_subject(run),
        **_decoding(run),
        "key": generation.key,
        "phase": str(job.phase),
        "prompt_id": generation.prompt_id,
        "seed": job.seed if run.settings.send_seed else None,
        "units_asked": job.units,
        "units": verdict.units,
        "max_tokens": job.max_tokens,
        "prompt_tokens": generation.prompt_tokens,
        "output_tokens": generation.output_tokens,
        "token_source": generation.token_source,
        "finish_reason": generation.finish_reason,
        "failure": failure and str(failure.kind),
        "aborted": generation.aborted,
        "degenerate": verdict.degenerate,
        "symptom": verdict.symptom and str(verdict.symptom),
        "onset_token": verdict.onset,
        "onset_in": verdict.onset_in and str(verdict.onset_in),
        "reasoning_tokens": verdict.reasoning or None,
        "alarm_token": verdict.alarm,
        "observed_tokens": verdict.observed,
        "loops_to_end": verdict.loops_to_end,
        "recovered": verdict.recovered,
        "score": verdict.score,
        "plane": generation.plane and str(generation.plane),
        "first_token_seconds": None if first is None else round(first - generation.started, 4),
        "seconds": round(generation.ended - generation.started, 4),
    }


def group_row(group: GroupResult) -> dict[str, Any]:
    """A group of a scan as one row: its key, then its numbers. Threshold and totals are in `unit`."""
    low, high = group.rate_ci
    return {
        **group.key,
        "requests": group.requests,
        "degenerate": group.degenerate,
        "rate": group.rate,
        "rate_low": low,
        "rate_high": high,
        "dharma_rate": group.dharma_rate,
        "unit": group.unit,
        "threshold": group.threshold.tokens,
        "certified": group.threshold.certified,
        "safe_max_tokens": group.safe_max_tokens,
        "wasted": group.wasted,
        "total": group.total,
    }


def _subject(run: Run) -> dict[str, Any]:
    subject = run.settings.subject
    return {
        "run_id": run.id,
        "model": subject.model,
        "task": subject.task,
        "language": subject.language or None,
        "simulated": run.profile.simulated,
    }


def _decoding(run: Run) -> dict[str, Any]:
    return {name: getattr(run.settings.decoding, name) for name in SAMPLING}
