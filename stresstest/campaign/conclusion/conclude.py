"""From what is stored to a `RunResult`: the same answer for run, report, recommend and runs show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.chance import (
    chance_note,
    lower_results,
    results_beside,
    results_of_subject,
)
from stresstest.campaign.conclusion.ignored_units import add_ignored_units, find_ignored_units
from stresstest.campaign.conclusion.judging import judged_threshold
from stresstest.campaign.conclusion.notes import run_notes
from stresstest.campaign.conclusion.overruled import beside_others, diagnosis_beside_others
from stresstest.campaign.conclusion.thinking import certify_budget
from stresstest.diagnosis import annotate_planes, plane_verdict
from stresstest.diagnosis.concluded import apply_confirmed_plane, apply_diagnosis, covers_run
from stresstest.diagnosis.evidence.gpu_series import summarise_gpus
from stresstest.diagnosis.evidence.metrics_series import summarize_server
from stresstest.diagnosis.intervention.enough import too_few_prompts
from stresstest.diagnosis.representative import representative_failure
from stresstest.errors import UsageError
from stresstest.model import (
    Diagnosis,
    GenerationRecord,
    Run,
    RunResult,
    RunStatus,
)
from stresstest.model.result import certifying_sample
from stresstest.statistics import safe_max_tokens, survival_curve
from stresstest.statistics.sample import count_distinct_prompts

if TYPE_CHECKING:
    from stresstest.store.records import StoredThreshold
    from stresstest.store.repository import Store


def find_run(store: Store, reference: str) -> Run:
    """The run that a user means: an id, its unique beginning, or "latest". UsageError when there is none."""
    if reference != "latest":
        return store.run(reference)
    newest = store.runs()
    if not newest:
        raise UsageError("No runs are stored yet.", hint="Start one with: stresstest run --model M --lang it")
    found = store.run(newest[0].id)
    # A run that a diagnosis began belongs to it: "latest" means the run that a person began.
    return found if found.settings.parent is None else store.run(found.settings.parent)


def conclude(store: Store, reference: str, *, status: RunStatus | None = None) -> RunResult:
    """Judge a stored run. Pure in what is stored: the same run gives the same result at any time.

    What a stored diagnosis has confirmed takes the place of what evidence suggests.

    status: the one that is about to be stored, in place of the stored one.
    """
    run = find_run(store, reference)
    if status is not None:
        run = replace(run, status=status)
    samples = store.samples(run.id)
    gpus = store.gpu_samples(run.id)
    generations = annotate_planes(
        store.generations(run.id), samples, run.profile, run.settings.decoding, gpus=gpus
    )
    settings, found = run.settings, find_diagnosis(store, run)
    found = None if found is None else diagnosis_beside_others(store, found, settings.subject)
    untestable = None
    if run.status is RunStatus.DONE:
        untestable = too_few_prompts(settings, run.profile, certifying_sample(generations))
    observed = plane_verdict(generations, settings.decoding, run.profile, run.id, untestable=untestable)
    generations = apply_confirmed_plane(generations, found, run)
    certifying = certifying_sample(generations)
    threshold = judged_threshold(run, generations)
    safe = safe_max_tokens(threshold, settings.margin)
    ignored = find_ignored_units(generations)
    shown = representative_failure(certifying) or representative_failure(generations)
    return RunResult(
        run=run,
        threshold=threshold,
        safe_max_tokens=safe,
        verdict=add_ignored_units(apply_diagnosis(observed, found, run), ignored, settings),
        generations=tuple(generations),
        samples=tuple(samples),
        short=sum(1 for g in generations if is_short(g)),
        without_units=None if ignored is None else ignored.without,
        distinct_prompts=count_distinct_prompts(certifying),
        tokens_spent=sum(g.output_tokens for g in generations),
        seconds=store.wall_seconds(run.id),
        survival=survival_curve(certifying),
        server=summarize_server(samples),
        gpus=summarise_gpus(gpus),
        notes=run_notes(
            run, generations, certifying, samples, gpus, threshold=threshold, safe=safe, found=found
        ),
        representative=None if shown is None else store.loader(run.id)(shown),
        thinking=certify_budget(certifying, run, store.loader(run.id)),
        holds_up_to=settings.holds_up_to,
    )


def current_result(store: Store, reference: str) -> RunResult:
    """A stored run as it stands among the others: without a cap where one speaks against it."""
    return beside_others(store, conclude(store, reference))


def chance_notes(store: Store, stored: StoredThreshold) -> list[str]:
    """That a stored limit may be chance, as `chance_note` of its run."""
    run = store.run(stored.run_id)
    others = results_beside(store, results_of_subject(store, stored.subject), run, stored.threshold)
    if not lower_results(others, stored.threshold):
        return []  # without reading what the run has measured
    note = chance_note(conclude(store, run.id), others)
    return [] if note is None else [note]


def find_diagnosis(store: Store, run: Run) -> Diagnosis | None:
    """The stored diagnosis that examined a run: its own, or that of the run whose diagnosis began it."""
    own, parent = store.diagnosis(run.id), run.settings.parent
    if own is not None or parent is None:
        return own
    above = store.diagnosis(parent)
    return above if above is not None and covers_run(above, run.id) else None


def update_conclusion(store: Store, run_id: str) -> RunResult:
    """Judge a stored run again and, if its result is saved, update that too."""
    result = conclude(store, run_id)
    if result.run.status is RunStatus.DONE:
        save_result(store, result)
    return result


def save_result(store: Store, result: RunResult) -> None:
    """Save what `recommend` reads."""
    store.save_threshold(
        result.run.id,
        result.threshold,
        result.safe_max_tokens,
        result.verdict,
        distinct_prompts=result.distinct_prompts,
        thinking=result.thinking,
    )


def is_short(generation: GenerationRecord) -> bool:
    """Ended by itself in good order with fewer units than requested: counted, no symptom."""
    requested, got = generation.job.units, generation.verdict.units
    ended = generation.finish_reason == "stop" and not generation.verdict.degenerate
    return ended and requested is not None and got is not None and got < requested
