"""What a reader must know of a run beside its verdict: its sample, its server, what was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.campaign.conclusion.delivery import slow_delivery_sentence
from stresstest.campaign.conclusion.withheld import count_cut
from stresstest.campaign.provenance.doubts import doubts
from stresstest.detectors.identification.names import can_detect_drift
from stresstest.diagnosis.evidence.capped import find_server_cap
from stresstest.diagnosis.evidence.capped import server_cap_sentence as capped_sentence
from stresstest.diagnosis.evidence.gpu_series import GpuSeries
from stresstest.diagnosis.evidence.others import measure_others
from stresstest.model import (
    Diagnosis,
    GenerationRecord,
    GpuSample,
    Phase,
    Run,
    ServerSample,
    Threshold,
)
from stresstest.statistics.sample import count_distinct_prompts

if TYPE_CHECKING:
    pass


def run_notes(
    run: Run,
    generations: Sequence[GenerationRecord],
    certifying: Sequence[GenerationRecord],
    samples: Sequence[ServerSample],
    gpus: Sequence[GpuSample],
    *,
    threshold: Threshold,
    safe: int | None,
    found: Diagnosis | None,
) -> tuple[str, ...]:
    """All notes, one sentence or two each, the sample's first. found: the diagnosis that examined the run."""
    return (
        *_sample_notes(certifying, threshold, safe),
        *_other_length_notes(generations, certifying),
        *_measurement_notes(run, generations, samples),
        *_timing_notes(run, generations, samples),
        *_origin_notes(run, found),
        *_gpu_notes(gpus),
    )


def _sample_notes(
    certifying: Sequence[GenerationRecord], threshold: Threshold, safe: int | None
) -> list[str]:
    """What a reader must know of the sample before the number is used."""
    notes = []
    if threshold.certified:
        notes += prompts_note(certifying)
    healthy, longer = count_cut(certifying, safe) if safe is not None else (0, 0)
    if longer and threshold.censored_at is not None:
        notes.append(
            f"No onset was seen: T is limited by the sample ({threshold.n} of {len(certifying)} "
            f"answers got that far), not by failures. A cap of {safe:,} would cut {longer} of "
            f"{healthy} healthy answers; longer or more prompts raise it."
        )
    return notes


def prompts_note(certifying: Sequence[GenerationRecord]) -> list[str]:
    """That prompts were asked more than once, so that the answers tell little of others."""
    prompts, asked = count_distinct_prompts(certifying), len({g.prompt_id for g in certifying})
    if not 0 < prompts < len(certifying):
        return []
    alike = (
        f" ({asked}, if those that differ only in numbers, ids, times or blanks are counted apart)"
        if prompts < asked
        else ""
    )
    return [
        f"The sample's {len(certifying)} answers are to {prompts} distinct "
        f"prompt{('s' if prompts > 1 else '')}{alike}: the bound holds for these only. Answers to one "
        f"prompt are alike, so of other prompts more may fail."
    ]


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


def _measurement_notes(
    run: Run,
    generations: Sequence[GenerationRecord],
    samples: Sequence[ServerSample],
) -> list[str]:
    notes = []
    language = run.settings.subject.language
    if not language:
        notes.append("No --lang was given, so language drift was not checked.")
    elif not can_detect_drift(language):
        notes.append(
            f"Language drift was not checked: {language!r} is not a language that can be identified."
        )
    if generations and all(g.job.units is None for g in generations):
        notes.append(
            "The prompts ask for no units, so structure (numbering, lengths of units) was not checked."
        )
    notes += doubts(run, generations, samples)
    if not run.settings.send_seed:
        notes.append("No seeds were sent (--no-seed): repeating the command gives other answers.")
    if run.profile.metrics and generations and not samples:
        notes.append("The server's /metrics answered at first but could not be sampled during the run.")
    others = measure_others(generations, samples)
    if others is not None and others.median >= 1.0:
        notes.append(
            f"Other clients had about {others.median:.0f} requests at the server in the median (at most "
            f"{others.most:.0f}; {others.n} readings): what was measured holds beside such a load."
        )
    cut = find_server_cap(generations, run.profile)
    if cut is not None:
        notes.append(capped_sentence(cut))
    sources = {g.token_source for g in generations if g.token_summary.count} - {"server"}
    if sources:
        notes.append(f"Token positions are not the server's own count: {', '.join(sorted(sources))}.")
    return notes


def _timing_notes(
    run: Run, generations: Sequence[GenerationRecord], samples: Sequence[ServerSample]
) -> list[str]:
    """What makes latencies unreliable, and whether entropy was measured."""
    notes = []
    lags = [g.loop_lag for g in generations if g.loop_lag is not None]
    if lags and max(lags) > 0.25:
        notes.append(
            f"stresstest itself lagged by up to {max(lags):.2f} s: latencies are unreliable; texts and "
            f"limits are not affected."
        )
    slow = slow_delivery_sentence(generations, samples, logprobs=run.settings.logprobs)
    if slow is not None:
        notes.append(slow)
    if not run.settings.logprobs:
        notes.append("Entropy was not measured: no logprobs were requested (--no-logprobs).")
    elif any(g.token_summary.count and not g.token_summary.entropy for g in generations):
        notes.append("Entropy was not measured: the server gave no logprobs.")
    return notes


def _origin_notes(run: Run, found: Diagnosis | None) -> list[str]:
    if found is None or found.run_id == run.id:
        return []
    return [
        f"This run was started by the diagnosis of run {found.run_id}, to find what its first failure hides."
    ]


def _gpu_notes(samples: Sequence[GpuSample]) -> list[str]:
    series = GpuSeries.of(samples)
    notes = []
    if series.idle:
        which = ", ".join(series.idle)
        notes.append(f"GPU {which} stayed idle during the run; its readings are not used as evidence.")
    lost = {gpu: r.lost for gpu, readings in series.gpus.items() for r in readings if r.lost}
    notes += [f"GPU {gpu} was lost during the run: {why}." for gpu, why in lost.items()]
    return notes
