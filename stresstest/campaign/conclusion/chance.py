"""Whether a T may be chance: chosen from several results, or measured again until it came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.judging import judged_threshold
from stresstest.model import DocumentKind, Run, RunResult, Subject, Threshold
from stresstest.statistics import safe_max_tokens

if TYPE_CHECKING:
    from stresstest.store.records import StoredThreshold
    from stresstest.store.repository import Store

_MATERIAL = 1.25
"""A T so many times another one is another statement."""


def results_of_subject(store: Store, subject: Subject) -> list[StoredThreshold]:
    return store.thresholds(model=subject.model, task=subject.task, language=subject.language)


def results_beside(
    store: Store, of_subject: Sequence[StoredThreshold], run: Run, own: Threshold
) -> list[StoredThreshold]:
    """The results among which T may have been chosen: of the same prompts, model and language, whatever the
    decoding, or cells of one sweep, that tolerate no less. of_subject: all results of the run's subject.

    A run that was diagnosed does not count beside that of its remedy, nor do others with its decoding: tests
    of their own chose the remedy.
    """
    beside = {each.run_id: each for each in of_subject if each.prompts_digest == run.prompts_digest}
    swept: set[str] = set()
    for document in store.documents(DocumentKind.SWEEP, run.id):
        with document.reading() as body:
            swept.update(cell["run_id"] for cell in body["cells"])
    if swept - beside.keys():
        beside |= {each.run_id: each for each in store.thresholds() if each.run_id in swept}
    parent = run.settings.parent
    remedied = next((each.decoding for each in of_subject if each.run_id == parent), run.settings.decoding)
    return [
        each
        for each in beside.values()
        if each.run_id not in (run.id, parent)
        and (remedied == run.settings.decoding or each.decoding != remedied)
        and each.simulated == run.profile.simulated
        and each.threshold.alpha >= own.alpha
    ]


def lower_results(others: Sequence[StoredThreshold], own: Threshold) -> list[StoredThreshold]:
    """Those that are much lower, because answers failed."""
    return [each for each in others if _is_lower(each.threshold, own)]


def chance_note(result: RunResult, others: Sequence[StoredThreshold]) -> str | None:
    """That T may be chance, with what holds of the best of all such results; None where that is much the
    same, or where no other result is much lower. others: as of `results_beside`."""
    run, own = result.run, result.threshold
    lower = lower_results(others, own)
    if not lower or not own.certified or own.tokens is None:
        return None
    among = len(others) + 1
    joint = judged_threshold(run, result.generations, among=among)
    if joint.certified and own.tokens <= _MATERIAL * (joint.tokens or 0):
        return None
    lowest = min(lower, key=lambda each: each.threshold.tokens or 0)
    least = lowest.threshold.tokens
    of_it = "certified nothing" if least is None else f"certified T = {least:,}"
    cap = safe_max_tokens(joint, run.settings.margin)
    capped = "" if cap is None else f" (a safe max_tokens of {cap:,})"
    holds = f"T = {joint.tokens:,}{capped} holds" if joint.certified and joint.tokens else "no T holds"
    return (
        f"{len(lower)} of {among} results for these prompts {'is' if len(lower) == 1 else 'are'} much lower "
        f"(run {lowest.run_id} {of_it}). If this one was chosen for its T, or measured again until it "
        f"passed, T = {own.tokens:,} may be chance: for the best of {among}, {holds} with the same "
        f"confidence."
    )


def _is_lower(other: Threshold, own: Threshold) -> bool:
    """Whether failures set another T much lower, or left none."""
    if other.tokens is None or other.unfit:
        return other.unfit or other.onsets > 0
    return other.censored_at is None and _MATERIAL * other.tokens < (own.tokens or 0)
