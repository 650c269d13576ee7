"""Summarises a campaign as one cell of a sweep, and compares the thresholds of cells. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import median

from stresstest.diagnosis.evidence.capped import find_server_cap
from stresstest.diagnosis.evidence.others import measure_others
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.effects import lexical_diversity, recurring_terms
from stresstest.diagnosis.intervention.forks import unit_start_tokens
from stresstest.diagnosis.measured import known_median
from stresstest.model import (
    Generation,
    GenerationLoader,
    GenerationRecord,
    Observation,
    Rigor,
    RunResult,
    SymptomKind,
)
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.model.sweep import SweepCell, ThresholdRatio
from stresstest.statistics import certify, observations, onset_ratio, risk_at
from stresstest.statistics.certify import clopper_pearson
from stresstest.statistics.sample import are_mostly_answerless, ended_by_itself

_READ = 400
"""Healthy tokens of each answer used for the lexical measures, so that cells are compared at equal length."""
_SIDE = 0.975


def sweep_cell(
    values: Mapping[str, str], result: RunResult, pattern: str | None, load: GenerationLoader
) -> SweepCell:
    """The cell of a campaign, from its certifying sample. pattern: regex of the task's units, if any.

    load: called for each generation of the sample, one at a time.
    """
    sample = [g for g in result.certifying if not is_lost(g)]
    onsets = tuple(sorted(g.verdict.onset for g in sample if g.verdict.onset is not None))
    foreign = [s.onset for g in sample for s in g.verdict.symptoms if s.kind is SymptomKind.LANGUAGE_DRIFT]
    kinds = Counter(str(g.verdict.symptom) for g in sample if g.verdict.symptom is not None)
    seen = observations(sample)
    measures = [_measure_text(load(g), pattern) for g in sample]
    settings = result.run.settings
    others = measure_others(result.generations, result.samples)
    server_cap = find_server_cap(result.generations, result.run.profile)
    return SweepCell(
        values=dict(values),
        run_id=result.run.id,
        subject=settings.subject,
        decoding=settings.decoding,
        threshold=result.threshold,
        safe_max_tokens=result.safe_max_tokens,
        generations=len(sample),
        failed=len(onsets),
        kinds=dict(kinds.most_common()),
        median_onset=median(onsets) if onsets else None,
        onset_unit=known_median(unit for _, _, unit in measures),
        first_foreign=min(foreign, default=None),
        completed=_share_of(sample, lambda g: _finished(g) and not g.verdict.degenerate),
        finished=None if any(g.aborted for g in sample) else _share_of(sample, _finished),
        diversity=known_median(diversity for diversity, _, _ in measures),
        terms=known_median(terms for _, terms, _ in measures),
        tokens=result.tokens_spent,
        onsets=onsets,
        quantile=onset_interval(seen, result.threshold.alpha),
        reached=tuple(sorted(o.observed for o in seen)),
        others=None if others is None else others.median,
        server_cap=None if server_cap is None else server_cap.at,
        answered_by=tuple(sorted({g.answered_by for g in sample if g.answered_by is not None})),
        prompts=result.distinct_prompts,
        needs_no_cap=needs_no_cap(result),
    )


def needs_no_cap(result: RunResult) -> bool:
    """Whether a cap is withheld because the answers end by themselves before they fail: with this decoding
    they are safe up to T without one. Not where it is withheld for what was not seen, or for another run."""
    threshold, answers = result.threshold, result.certifying
    if not threshold.usable or threshold.withheld is None or result.overruled_by is not None:
        return False
    healthy = [g for g in answers if not g.verdict.degenerate and not is_lost(g)]
    few = len(answers) - len(healthy) <= threshold.alpha * len(answers)
    ended = sum(map(ended_by_itself, healthy)) > MOST_HEALTHY_CUT * len(healthy)
    seen = result.distinct_prompts > 1 and not are_mostly_answerless(answers)
    return few and ended and seen


def onset_interval(sample: Sequence[Observation], alpha: float) -> tuple[int | None, int | None]:
    """Exact 95 % interval of the length at which the risk reaches alpha; None at an end without a bound.

    Both Clopper-Pearson bounds of the risk at T increase with T: each end is where one of them crosses alpha.
    """
    lowest = certify(sample, Rigor("", alpha, _SIDE, 0, 0)).tokens
    for tokens in sorted({o.onset for o in sample if o.onset is not None}):
        n, d = risk_at(tokens, sample)
        if clopper_pearson(d, n, 2.0 * _SIDE - 1.0)[0] > alpha:
            return lowest, tokens
    return lowest, None


def _measure_text(
    generation: Generation, pattern: str | None
) -> tuple[float | None, float | None, float | None]:
    """(lexical diversity, recurring terms, number of the unit that contains the onset)."""
    verdict = generation.verdict
    healthy = generation.tokens[: min(verdict.observed, _READ)]
    unit = None
    if verdict.onset is not None and pattern:
        unit = float(len(unit_start_tokens(generation.tokens[: verdict.onset], pattern)))
    return lexical_diversity(healthy), recurring_terms(healthy), unit


def _finished(generation: GenerationRecord) -> bool:
    got, asked = generation.verdict.units, generation.job.units
    return generation.finish_reason == "stop" and (asked is None or got is None or got >= asked)


def _share_of(sample: Sequence[GenerationRecord], holds: Callable[[GenerationRecord], bool]) -> float | None:
    return sum(map(holds, sample)) / len(sample) if sample else None


def threshold_ratios(cells: Sequence[SweepCell]) -> tuple[ThresholdRatio, ...]:
    """Ratios of the certified thresholds of different subjects with the same decoding, if one has failed."""
    certified = [c for c in cells if c.threshold.certified and c.threshold.tokens]
    found = []
    for one, other in combinations(certified, 2):
        if one.subject == other.subject or one.decoding != other.decoding:
            continue
        of, over = sorted(
            (one, other),
            key=lambda c: (c.threshold.tokens or 0, c.threshold.censored_at is not None),
            reverse=True,
        )
        if over.threshold.censored_at is None:
            found.append(_ratio(of, over))
    return tuple(found)


def _ratio(of: SweepCell, over: SweepCell) -> ThresholdRatio:
    (of_lo, of_hi), (over_lo, over_hi) = of.quantile, over.quantile
    onsets = onset_ratio(over.onsets, of.onsets)
    return ThresholdRatio(
        str(of.subject),
        str(over.subject),
        ratio=(of.threshold.tokens or 0) / (over.threshold.tokens or 1),
        lo=of_lo / over_hi if of_lo and over_hi else None,
        hi=of_hi / over_lo if of_hi and over_lo else None,
        at_least=of.threshold.censored_at is not None,
        onsets=None if onsets is None else onsets.ratio,
        onsets_lo=None if onsets is None else onsets.lo,
        onsets_hi=None if onsets is None else onsets.hi,
    )
