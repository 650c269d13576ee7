"""`diagnose --json`: the keys of `run --json`, the chain and the recommendations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stresstest.diagnosis.intervention.wording import split_sentence
from stresstest.model import ArmResult, CauseLink, Diagnosis, RunResult, SplitRemedy
from stresstest.render.run_document import empty_document, run_document


def diagnosis_document(found: Diagnosis, result: RunResult) -> dict[str, Any]:
    """``diagnose --json``: the keys of `run --json`, the chain and the recommendations. The verdict is that
    of the first link."""
    document = run_document(result)
    if found.chain:
        first = found.chain[0]
        document["verdict"] |= {
            "plane": first.plane and str(first.plane),
            "basis": first.basis and str(first.basis),
            "sentence": found.sentence,
        }
    return document | chain_keys(found)


def empty_diagnosis_document() -> dict[str, Any]:
    """``diagnose --json`` after an interruption before there was a run."""
    return empty_document() | chain_keys(Diagnosis("", ())) | {"diagnosis_tokens": None, "more_answers": None}


def chain_keys(found: Diagnosis) -> dict[str, Any]:
    """The keys that a diagnosis adds to those of its run."""
    recommended = found.recommended
    return {
        "chain": [_link(link) for link in found.chain],
        "recommended_decoding": None if recommended is None else recommended.given(),
        "recommended_concurrency": found.concurrency,
        "recommended_max_tokens": found.safe_max_tokens,
        "complete": found.complete,
        "diagnosis_tokens": {
            "arms": found.arm_tokens,
            "unmasking": found.child_tokens,
            "run": found.run_tokens,
            "more_answers": found.added_tokens,
        },
        "more_answers": {
            "answers": found.added_answers,
            "tokens": found.added_tokens,
            "budget_tokens": found.added_budget,
        },
        "notes": list(found.notes),
    }


def _link(link: CauseLink) -> dict[str, Any]:
    return {
        "plane": link.plane and str(link.plane),
        "basis": link.basis and str(link.basis),
        "symptom": link.symptom and str(link.symptom),
        "median_onset": link.median_onset,
        "cleared_by": link.cleared_by,
        "arms": [_arm(arm) for arm in link.arms],
        "run_id": link.run_id,
        "n": link.n,
        "symptoms": dict(link.kinds),
        "lacking": link.lacking,
        "sentence": link.sentence,
        "position_in_context": link.position,
        "from_scratch": link.from_scratch,
        "why": None if link.why is None else asdict(link.why),
        "ablations": [asdict(ablation) for ablation in link.ablations],
        "remedy": None if link.remedy is None else _remedy(link.remedy),
        "notes": list(link.notes),
    }


def _remedy(remedy: SplitRemedy) -> dict[str, Any]:
    """The sentence is written again: one stored by an earlier version may claim more than its counts show."""
    return asdict(remedy) | {"sentence": split_sentence(remedy)}


def _arm(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "plane": arm.plane and str(arm.plane),
        "changed": arm.changed,
        "n": arm.n,
        "failed": arm.failed,
        "p": None if arm.plane is None else arm.p,
        "clears": arm.clears,
        "failed_unchanged": arm.unchanged_failed,
        "decided_early": arm.decided_early,
        "symptoms": dict(arm.symptoms),
        "median_onset": arm.median_onset,
        "lost": arm.lost,
        "ended_short": arm.short,
        "control": {"n": arm.control_n, "failed": arm.control_failed, "continued": arm.control}
        if arm.control_n
        else None,
        "tokens": arm.tokens,
        "effects": [asdict(effect) for effect in arm.effects],
    }
