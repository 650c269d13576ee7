"""What a run's certifying sample certifies, and which cap it recommends, if any."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.campaign.conclusion.fitness import judge_fitness
from stresstest.campaign.conclusion.withheld import withhold_cap
from stresstest.model import RIGORS, GenerationRecord, Phase, Run, RunStatus, Threshold
from stresstest.model.result import certifying_sample
from stresstest.statistics import certified_threshold, without_certificate
from stresstest.statistics.replays import old_answers_reason


def judged_threshold(run: Run, generations: Sequence[GenerationRecord], *, among: int = 1) -> Threshold:
    """What is certified of a run, and why no cap is recommended, if none is. among: runs of which it is
    chosen for its T; the confidence then holds for all of them together."""
    settings, certifying = run.settings, certifying_sample(generations)
    threshold = certified_threshold(
        certifying,
        RIGORS[settings.rigor],
        tighten=settings.tighten,
        temperature=settings.decoding.temperature,
        among=among,
    )
    if run.status is not RunStatus.DONE:
        threshold = _without_certificate(threshold, len(certifying))
    elif old := old_answers_reason(certifying, run.profile.clock):
        threshold = without_certificate(threshold, old)
    threshold = judge_fitness(threshold, generations, certifying, run)
    climb = [g for g in generations if g.job.phase is Phase.CLIMB]
    return withhold_cap(threshold, climb, certifying, settings)


def _without_certificate(threshold: Threshold, measured: int) -> Threshold:
    """An interrupted sample certifies nothing: what was still in flight was not a random part of it."""
    why = "it ended before any answer of its certifying sample; resume it"
    if measured:
        why = (
            f"{measured} answers of its certifying sample are measured, and the missing ones are not random; "
            f"resume the run"
        )
    return without_certificate(threshold, f"the run is not complete: {why}")
