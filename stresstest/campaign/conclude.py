"""From what is stored to a `RunResult`: the same answer for run, report, recommend and runs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stresstest.campaign.fitness import judge_fitness
from stresstest.campaign.ignored_units import add_ignored_units, find_ignored_units
from stresstest.campaign.thinking import certify_budget
from stresstest.campaign.withheld import count_cut, withhold_cap
from stresstest.detectors.identification.identify import can_detect_drift
from stresstest.diagnosis import annotate_planes, plane_verdict
from stresstest.diagnosis.concluded import apply_confirmed_plane, apply_diagnosis, covers_run
from stresstest.diagnosis.evidence.capped import find_server_cap
from stresstest.diagnosis.evidence.capped import server_cap_sentence as capped_sentence
from stresstest.diagnosis.evidence.gpu_series import GpuSeries, summarise_gpus
from stresstest.diagnosis.evidence.metrics_series import summarize_server
from stresstest.diagnosis.representative import representative_failure
from stresstest.errors import UsageError
from stresstest.model import (
    RIGORS,
    Diagnosis,
    GenerationRecord,
    GpuSample,
    Phase,
    Run,
    RunResult,
    RunStatus,
    ServerSample,
    Threshold,
)
from stresstest.model.result import certifying_sample
from stresstest.model.server import UNLISTED_MODEL
from stresstest.statistics import certified_threshold, safe_max_tokens, survival_curve, without_certificate
from stresstest.statistics.sample import count_copies

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
    observed = plane_verdict(generations, settings.decoding, run.profile, run.id)
    generations = apply_confirmed_plane(generations, found, run)
    certifying = certifying_sample(generations)
    threshold = certified_threshold(
        certifying,
        RIGORS[settings.rigor],
        tighten=settings.tighten,
        temperature=settings.decoding.temperature,
    )
    if run.status is not RunStatus.DONE:
        threshold = _without_certificate(threshold, len(certifying))
    threshold = judge_fitness(threshold, generations, certifying, run)
    climb = [g for g in generations if g.job.phase is Phase.CLIMB]
    threshold = withhold_cap(threshold, climb, certifying, settings)
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
        distinct_prompts=len({g.prompt_id for g in certifying}),
        tokens_spent=sum(g.output_tokens for g in generations),
        seconds=store.wall_seconds(run.id),
        survival=survival_curve(certifying),
        server=summarize_server(samples),
        gpus=summarise_gpus(gpus),
        notes=(
            *_sample_notes(certifying, threshold, safe),
            *_other_length_notes(generations, certifying),
            *_notes(run, generations, samples),
            *_origin_notes(run, found),
            *_gpu_notes(gpus),
        ),
        representative=None if shown is None else store.loader(run.id)(shown),
        thinking=certify_budget(certifying, run, store.loader(run.id)),
    )


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


def _origin_notes(run: Run, found: Diagnosis | None) -> list[str]:
    if found is None or found.run_id == run.id:
        return []
    return [
        f"This run was started by the diagnosis of run {found.run_id}, to find what its first failure hides."
    ]


def _without_certificate(threshold: Threshold, measured: int) -> Threshold:
    """An interrupted sample certifies nothing: what was still in flight was not a random part of it."""
    return without_certificate(
        threshold,
        "the run is not complete: it ended before its certifying sample began; resume it"
        if not measured
        else f"the run is not complete: {measured} answers of its certifying sample are measured, and "
        f"the missing ones are not random; resume the run",
    )


def is_short(generation: GenerationRecord) -> bool:
    """Ended by itself in good order with fewer units than requested: counted, no symptom."""
    requested, got = generation.job.units, generation.verdict.units
    ended = generation.finish_reason == "stop" and not generation.verdict.degenerate
    return ended and requested is not None and got is not None and got < requested


def _sample_notes(
    certifying: Sequence[GenerationRecord], threshold: Threshold, safe: int | None
) -> list[str]:
    """What a reader must know of the sample before the number is used."""
    notes = []
    prompts = len({g.prompt_id for g in certifying})
    if threshold.certified and 2 * prompts < threshold.n:
        notes.append(
            f"The {threshold.n} answers at risk come from {prompts} distinct "
            f"prompt{('s' if prompts > 1 else '')}: the bound holds for these only; other prompts were "
            f"not measured."
        )
    if copies := count_copies(certifying):
        notes.append(
            f"{copies} of the sample's {len(certifying)} answers are identical to another one and do not "
            f"count again: is there a cache in front of the server?"
        )
    healthy, longer = count_cut(certifying, safe) if safe is not None else (0, 0)
    if longer and threshold.censored_at is not None:
        notes.append(
            f"No onset was seen: T is limited by the sample ({threshold.n} of {len(certifying)} "
            f"answers got that far), not by failures. A cap of {safe:,} would cut {longer} of "
            f"{healthy} healthy answers; longer or more prompts raise it."
        )
    return notes


def _other_length_notes(
    generations: Sequence[GenerationRecord], certifying: Sequence[GenerationRecord]
) -> list[str]:
    """That a first sample, of another length, did not get as far as the suspected onset."""
    certify = [g.job for g in generations if g.job.phase is Phase.CERTIFY]
    others = [job for job in certify if job.units != certifying[0].job.units]
    if not others:
        return []
    return [
        f"{len(others)} answers to requests for {others[0].units} units do not count: most ended "
        f"before the climb's onsets. The certifying ones are answers to requests for "
        f"{certifying[0].job.units}."
    ]


def _notes(run: Run, generations: Sequence[GenerationRecord], samples: Sequence[ServerSample]) -> list[str]:
    notes = []
    language = run.settings.subject.language
    if not language:
        notes.append("No --lang was given, so language drift was not checked.")
    elif not can_detect_drift(language):
        notes.append(
            f"Language drift was not checked: {language!r} is not a language that can be identified."
        )
    other = next((gap for gap in run.profile.missing if gap.what.startswith(UNLISTED_MODEL)), None)
    if other is not None:
        notes.append(f"The server has no {other.what[2:]}: {other.cost}.")
    if not run.settings.send_seed:
        notes.append("No seeds were sent (--no-seed): repeating the command gives other answers.")
    if run.profile.metrics and generations and not samples:
        notes.append("The server's /metrics answered at first but could not be sampled during the run.")
    cut = find_server_cap(generations, run.profile)
    if cut is not None:
        notes.append(capped_sentence(cut))
    certifying = certifying_sample(generations)
    limited = sum(1 for g in certifying if g.invalid_from is not None)
    if limited:
        notes.append(
            f"{limited} of {len(certifying)} certifying generations count only up to their first "
            f"preemption or GPU trouble: after it, the model is not the only possible cause."
        )
    sources = {g.token_source for g in generations if g.token_summary.count} - {"server"}
    if sources:
        notes.append(f"Token positions are not the server's own count: {', '.join(sorted(sources))}.")
    lags = [g.loop_lag for g in generations if g.loop_lag is not None]
    if lags and max(lags) > 0.25:
        notes.append(
            f"stresstest itself lagged by up to {max(lags):.2f} s: latencies are unreliable; texts and "
            f"limits are not affected."
        )
    if any(g.verdict.tokens and not g.token_summary.entropy for g in generations):
        notes.append("Entropy was not measured: the server gave no logprobs.")
    return notes


def _gpu_notes(samples: Sequence[GpuSample]) -> list[str]:
    series = GpuSeries.of(samples)
    notes = []
    if series.idle:
        which = ", ".join(series.idle)
        notes.append(f"GPU {which} stayed idle during the run; its readings are not used as evidence.")
    lost = {gpu: r.lost for gpu, readings in series.gpus.items() for r in readings if r.lost}
    notes += [f"GPU {gpu} was lost during the run: {why}." for gpu, why in lost.items()]
    return notes
