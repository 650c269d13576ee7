"""From what is stored to a `RunResult`: the same answer for run, report, recommend and runs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.detectors import can_judge
from stresstest.diagnosis import annotate, plane_verdict
from stresstest.diagnosis.capped import capped
from stresstest.diagnosis.capped import sentence as capped_sentence
from stresstest.diagnosis.concluded import concluded, examined, settled
from stresstest.diagnosis.gpu_series import GpuSeries, summarise_gpus
from stresstest.errors import UsageError
from stresstest.model import (
    RIGORS,
    Diagnosis,
    Generation,
    GpuSample,
    Phase,
    Run,
    RunResult,
    RunStatus,
    ServerSample,
    Threshold,
)
from stresstest.series import summarise
from stresstest.threshold import certified_threshold, safe_max_tokens, survival_curve, withdrawn

if TYPE_CHECKING:
    from stresstest.store.repository import Store


def find_run(store: Store, reference: str) -> Run:
    """The run that a user means: an id, its unique beginning, or "latest". UsageError when there is none."""
    if reference != "latest":
        return store.run(reference)
    newest = store.runs()
    if not newest:
        raise UsageError("No runs are stored yet.", hint="Start one with: stresstest run --model M --lang it")
    found = store.run(newest[0].id)
    # What a diagnosis or a sweep began is a part of it: meant is the run that a person began.
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
    generations = annotate(store.generations(run.id), samples, run.profile, run.settings.decoding, gpus=gpus)
    settings, found = run.settings, diagnosis_of(store, run)
    observed = plane_verdict(generations, settings.decoding, run.profile)
    generations = settled(generations, found, run)
    certifying = [g for g in generations if g.job.phase is Phase.CERTIFY]
    threshold = certified_threshold(
        certifying,
        RIGORS[settings.rigor],
        tighten=settings.tighten,
        temperature=settings.decoding.temperature,
    )
    if run.status is not RunStatus.DONE:
        threshold = _incomplete(threshold, len(certifying))
    safe = safe_max_tokens(threshold, settings.margin)
    return RunResult(
        run=run,
        threshold=threshold,
        safe_max_tokens=safe,
        verdict=concluded(observed, found, run),
        generations=tuple(generations),
        samples=tuple(samples),
        short=sum(1 for g in generations if is_short(g)),
        distinct_prompts=len({g.prompt_id for g in certifying}),
        tokens_spent=sum(g.output_tokens for g in generations),
        seconds=store.wall_seconds(run.id),
        survival=survival_curve(certifying),
        server=summarise(samples),
        gpus=summarise_gpus(gpus),
        notes=(
            *_sample_notes(certifying, threshold, safe),
            *_notes(run, generations, samples),
            *_begun_notes(run, found),
            *_gpu_notes(gpus),
        ),
    )


def diagnosis_of(store: Store, run: Run) -> Diagnosis | None:
    """The stored diagnosis that examined a run: its own, or that of the run whose diagnosis began it."""
    own, parent = store.diagnosis(run.id), run.settings.parent
    if own is not None or parent is None:
        return own
    above = store.diagnosis(parent)
    return above if above is not None and examined(above, run.id) else None


def conclude_again(store: Store, run_id: str) -> RunResult:
    """Judge a stored run anew and, where its result is saved, save that too."""
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
    )


def _begun_notes(run: Run, found: Diagnosis | None) -> list[str]:
    if found is None or found.run_id == run.id:
        return []
    return [f"The diagnosis of run {found.run_id} began this run, to see what its first failure hides."]


def _incomplete(threshold: Threshold, measured: int) -> Threshold:
    """An interrupted sample certifies nothing: what was still in flight was not a random part of it."""
    return withdrawn(
        threshold,
        f"the run is not complete: {measured} generations of its certifying sample are measured, "
        "and those still missing are not a random part of it; resume the run",
    )


def is_short(generation: Generation) -> bool:
    """Ended by itself in good order with fewer units than asked: counted, no symptom."""
    asked, got = generation.job.units, generation.verdict.units
    ended = generation.finish_reason == "stop" and not generation.verdict.degenerate
    return ended and asked is not None and got is not None and got < asked


def _sample_notes(certifying: Sequence[Generation], threshold: Threshold, safe: int | None) -> list[str]:
    """What a reader must know of the sample before the number is used."""
    notes = []
    prompts = len({g.prompt_id for g in certifying})
    if threshold.certified and 2 * prompts < threshold.n:
        notes.append(
            f"The {threshold.n} answers at risk come from {prompts} distinct prompt"
            f"{'s' if prompts > 1 else ''}: the bound holds for these; how others behave was not measured."
        )
    healthy = [g for g in certifying if not g.verdict.degenerate and g.failure is None]
    longer = sum(1 for g in healthy if safe is not None and g.verdict.tokens > safe)
    if longer and threshold.censored_at is not None:
        notes.append(
            f"No onset was seen: T is where the sample thins out ({threshold.n} of {len(certifying)} answers "
            f"ran that long), not where the model fails. A cap of {safe} would cut {longer} of "
            f"{len(healthy)} healthy answers; longer or more prompts raise it."
        )
    elif longer:
        notes.append(
            f"A cap of {safe} would have cut {longer} of {len(healthy)} healthy answers of this sample."
        )
    return notes


def _notes(run: Run, generations: Sequence[Generation], samples: Sequence[ServerSample]) -> list[str]:
    notes = []
    language = run.settings.subject.language
    if not language:
        notes.append("No --lang was given: language drift was not looked for.")
    elif not can_judge(language):
        notes.append(f"Language drift was not looked for: no identifier here knows {language!r}.")
    if run.profile.metrics and generations and not samples:
        notes.append("The server's /metrics answered at first but could not be sampled during the run.")
    cut = capped(generations, run.profile)
    if cut is not None:
        notes.append(capped_sentence(cut))
    certifying = [g for g in generations if g.job.phase is Phase.CERTIFY]
    spoilt = sum(1 for g in certifying if g.invalid_from is not None)
    if spoilt:
        notes.append(
            f"{spoilt} of {len(certifying)} certifying generations count only up to their first preemption "
            "or GPU trouble: what followed was not the model alone."
        )
    sources = {g.token_source for g in generations if g.tokens} - {"server"}
    if sources:
        notes.append(f"Token positions are not the server's own count: {', '.join(sorted(sources))}.")
    lags = [g.loop_lag for g in generations if g.loop_lag is not None]
    if lags and max(lags) > 0.25:
        notes.append(f"This client lagged up to {max(lags):.2f} s: timings are unreliable, texts are not.")
    if any(g.verdict.tokens and all(t.entropy is None for t in g.tokens) for g in generations):
        notes.append("Entropy was not measured: the server gave no logprobs.")
    return notes


def _gpu_notes(samples: Sequence[GpuSample]) -> list[str]:
    series = GpuSeries.of(samples)
    notes = []
    if series.idle:
        which = ", ".join(series.idle)
        notes.append(f"GPU {which} stayed idle during the run: what it shows is not held for or against it.")
    lost = {gpu: r.lost for gpu, readings in series.gpus.items() for r in readings if r.lost}
    notes += [f"GPU {gpu} was lost during the run: {why}." for gpu, why in lost.items()]
    return notes
