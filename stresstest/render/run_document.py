"""A run as one JSON document: the output of ``run --json``, and the longer form of ``report -o x.json``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields
from typing import Any

from stresstest.model import (
    Evidence,
    Generation,
    GenerationLoader,
    GenerationRecord,
    GenerationVerdict,
    GpuSummary,
    Plane,
    RunResult,
    ServerSummary,
    Symptom,
    ThinkingBudget,
    Threshold,
)
from stresstest.render.text import excerpt


def run_document(result: RunResult) -> dict[str, Any]:
    """The output of ``run --json``; missing values are null, never 0."""
    settings = result.run.settings
    threshold = result.threshold
    degenerate = [g for g in result.generations if g.verdict.degenerate]
    planes = Counter(g.plane for g in result.generations if g.plane is not None)
    symptoms = Counter(str(g.verdict.symptom) for g in degenerate)
    return {
        "run_id": result.run.id,
        "subject": asdict(settings.subject),
        "simulated": result.run.profile.simulated,
        "decoding": _decoding(result),
        "generations": len(result.generations),
        "onsets": len(degenerate),
        "short": result.short,
        "without_units": result.without_units,
        "distinct_prompts": result.distinct_prompts,
        "threshold": {**threshold_document(threshold), "withheld": threshold.withheld},
        "safe_max_tokens": result.safe_max_tokens,
        "cap_withheld": threshold.withheld is not None,
        "overruled_by": result.overruled_by,
        "holds_up_to": result.holds_up_to,
        "unfit": threshold.unfit,
        "unit_tokens": threshold.unit_tokens,
        "planes": {str(p): planes.get(p, 0) for p in Plane},
        "symptoms": dict(sorted(symptoms.items())),
        "verdict": {
            "plane": result.verdict.plane and str(result.verdict.plane),
            "basis": result.verdict.basis and str(result.verdict.basis),
            "sentence": result.verdict.sentence,
            "evidence": [_evidence(e) for e in result.verdict.evidence],
            "advice": list(result.verdict.advice),
        },
        "notes": list(result.notes),
        "tokens_spent": result.tokens_spent,
        "seconds": round(result.seconds, 3),
        **thinking_document(result.thinking),
    }


def thinking_document(thinking: ThinkingBudget | None) -> dict[str, Any]:
    """The thinking budget, under its key; nothing where nothing reasons. Its tokens are those up to the end
    of the reasoning, while `safe_max_tokens` counts reasoning and answer together."""
    if thinking is None:
        return {}
    threshold = thinking.threshold
    found = {
        "safe_tokens": thinking.safe_tokens,
        "threshold": {**threshold_document(threshold), "withheld": threshold.withheld},
        "reasoned": thinking.reasoned,
        "healthy": thinking.healthy,
        "cut": thinking.cut,
        "supported": thinking.supported,
    }
    return {"thinking_budget": found}


def threshold_document(threshold: Threshold) -> dict[str, Any]:
    """A threshold in the output of ``run --json``."""
    return {
        "tokens": threshold.tokens,
        "alpha": threshold.alpha,
        "confidence": threshold.confidence,
        "n": threshold.n,
        "onsets": threshold.onsets,
        "certified": threshold.certified,
        "censored_at": threshold.censored_at,
        "lacking": threshold.lacking,
    }


def empty_document() -> dict[str, Any]:
    """The output of ``run --json`` if interrupted before the run began: every key, but no values."""
    threshold = dict.fromkeys(("tokens", "alpha", "confidence", "n", "onsets"))
    return {
        **dict.fromkeys(("run_id", "subject", "simulated", "decoding", "generations", "onsets", "short")),
        "without_units": None,
        "distinct_prompts": None,
        "threshold": {
            **threshold,
            "certified": False,
            "censored_at": None,
            "lacking": "interrupted",
            "withheld": None,
        },
        "safe_max_tokens": None,
        "cap_withheld": False,
        "overruled_by": None,
        "holds_up_to": None,
        "unfit": False,
        "unit_tokens": None,
        "planes": dict.fromkeys(str(p) for p in Plane),
        "symptoms": {},
        "verdict": {"plane": None, "basis": None, "sentence": None, "evidence": [], "advice": []},
        "notes": [],
        "tokens_spent": None,
        "seconds": None,
    }


def full_document(result: RunResult, load: GenerationLoader) -> dict[str, Any]:
    """The output of ``run --json`` with provenance, survival curve, and every generation's symptoms.

    load: called for each degenerate generation, to quote its text.
    """
    run = result.run
    return {
        **run_document(result),
        "status": str(run.status),
        "created": run.created,
        "tool_version": run.tool_version,
        "settings": {k: v for k, v in asdict(run.settings).items() if k not in {"subject", "decoding"}},
        "endpoint": _endpoint(result),
        "survival": [
            {"tokens": t, "coherent": s, "low": low, "high": high} for t, s, low, high in result.survival
        ],
        "server": _server(result.server),
        "gpus": [_gpu(gpu) for gpu in result.gpus],
        "notes": list(result.notes),
        "generation_list": [
            _generation(g, load) | ({} if run.settings.send_seed else {"seed": None})
            for g in result.generations
        ],
    }


def _decoding(result: RunResult) -> dict[str, Any]:
    """The parameters sent, and the server's defaults if known."""
    given: dict[str, Any] = dict(result.run.settings.decoding.given())
    defaults = dict(result.run.profile.defaults)
    return {**given, "server_defaults": defaults} if defaults else given


def _endpoint(result: RunResult) -> dict[str, Any]:
    profile = result.run.profile
    found = {f.name: getattr(profile, f.name) for f in fields(profile)}
    clock = None if profile.clock is None else asdict(profile.clock)
    missing = [asdict(each) for each in profile.missing]
    return {**found, "defaults": dict(profile.defaults), "missing": missing, "clock": clock}


def _server(server: ServerSummary | None) -> dict[str, Any] | None:
    if server is None:
        return None
    found = {f.name: getattr(server, f.name) for f in fields(server)}
    return {**found, "means": dict(server.means), "finished": dict(server.finished)}


def _gpu(gpu: GpuSummary) -> dict[str, Any]:
    found = {f.name: getattr(gpu, f.name) for f in fields(gpu)}
    return {**found, "throttled": gpu.throttled and dict(gpu.throttled), "missing": dict(gpu.missing)}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {**asdict(evidence), "plane": str(evidence.plane)}


def _symptom(symptom: Symptom) -> dict[str, Any]:
    return {
        "kind": str(symptom.kind),
        "onset": symptom.onset,
        "alarm": symptom.alarm,
        "start": symptom.start,
        "end": symptom.end,
        "score": symptom.score,
        "confirmed": symptom.confirmed,
        "summary": symptom.summary,
        "detail": dict(symptom.detail),
    }


def _generation(generation: GenerationRecord, load: GenerationLoader) -> dict[str, Any]:
    verdict = generation.verdict
    failure = generation.failure
    return {
        "key": generation.key,
        "phase": str(generation.job.phase),
        "rung": generation.job.rung,
        "units_asked": generation.job.units,
        "units": verdict.units,
        "seed": generation.job.seed,
        "prompt_id": generation.prompt_id,
        "prompt_tokens": generation.prompt_tokens,
        "output_tokens": generation.output_tokens,
        "token_source": generation.token_source,
        "finish_reason": generation.finish_reason,
        "aborted": generation.aborted,
        "failure": failure and {"kind": str(failure.kind), "message": failure.message},
        "onset": verdict.onset,
        "alarm": verdict.alarm,
        "symptom": verdict.symptom and str(verdict.symptom),
        **_reasoning(verdict),
        "observed": verdict.observed,
        "recovered": verdict.recovered,
        "loops_to_end": verdict.loops_to_end,
        "symptoms": [_symptom(s) for s in verdict.symptoms],
        "zones": [{"kind": str(z.kind), "start": z.start, "end": z.end} for z in verdict.zones],
        "plane": generation.plane and str(generation.plane),
        "evidence": [_evidence(e) for e in generation.evidence],
        "excerpt": _excerpt(load(generation)) if verdict.degenerate else None,
    }


def _reasoning(verdict: GenerationVerdict) -> dict[str, Any]:
    """Only of an output that reasons: how long, and the part that the onset lies in."""
    if not verdict.reasoning:
        return {}
    return {"reasoning_tokens": verdict.reasoning, "onset_in": verdict.onset_in and str(verdict.onset_in)}


def _excerpt(generation: Generation) -> dict[str, str]:
    before, after = excerpt(generation)
    return {"before": before, "after": after}
