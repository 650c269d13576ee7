"""Summarises a campaign as one cell of a sweep, and draws conclusions from all cells. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import median

from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.intervention.effects import lexical_diversity, recurring_terms
from stresstest.diagnosis.intervention.forks import symptom_family, unit_start_tokens
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
from stresstest.model.sweep import SweepCell, ThresholdRatio
from stresstest.statistics import certify, observations, onset_ratio, risk_at
from stresstest.statistics.certify import clopper_pearson, needed_at_risk
from stresstest.statistics.comparison import more_failures_p

_READ = 400
"""Healthy tokens of each answer used for the lexical measures, so that cells are compared at equal length."""
_WORKS = 0.1
_KEPT = 0.8
"""Share of the first cell's recurring terms below which a cell has lost terms."""
_SIDE = 0.975
_LEVEL = 0.05

_Row = tuple[float, SweepCell]
"""A value of one parameter and its cell."""


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
    )


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


def sweep_answers(cells: Sequence[SweepCell], names: Sequence[str]) -> tuple[str, ...]:
    """One sentence per numeric parameter: the smallest change that works, and the failures of larger ones.

    A change works if at most a tenth of the answers fail with the predominant failure of the first cell,
    significantly fewer than there, and enough go on to where those without it fail. Cells that also differ
    in other parameters are not compared.
    """
    series = [(name, _series(cells, name)) for name in names]
    found = [_answer(name, rows) for name, rows in series if len(rows) >= 2]
    return tuple(answer for answer in found if answer is not None)


def _series(cells: Sequence[SweepCell], name: str) -> list[_Row]:
    """Cells that differ from the first one in `name` only, by ascending value; empty if it is no number."""
    others = {k: v for k, v in cells[0].values.items() if k != name} if cells else {}
    rows = []
    for each in cells:
        if name in each.values and {k: v for k, v in each.values.items() if k != name} == others:
            try:
                rows.append((float(each.values[name]), each))
            except ValueError:
                return []
    return sorted(rows, key=lambda row: row[0])


def _answer(name: str, rows: Sequence[_Row]) -> str | None:
    worst = _family(rows[0][1])
    if worst is None:
        value, first = rows[0]
        if first.threshold.certified:
            said = f"{name} {value:g} fails in less than a tenth: nothing has to be changed"
        else:
            said = (
                f"at {value:g}, {first.failed} of {first.generations} fail, but no T is certified: whether "
                f"{name} has to be changed is not known"
            )
        return "; ".join([said, *_term_loss(rows)]) + "."
    before, words = rows[0], list[str]()
    working: Sequence[_Row] = ()
    for at, row in enumerate(rows[1:], 1):
        if _share(row[1], worst) > _WORKS:
            before = row
        elif too_few := _too_few_reach(row, before):
            words.append(_in_another_way(row) or too_few)
        elif chance := _may_be_chance(row, rows, worst):
            words.append(chance)
        else:
            working = rows[at:]
            break
    failing = f"at {before[0]:g}, {before[1].failed} of {before[1].generations} fail"
    if working:
        between = f"lies between {before[0]:g} and {working[0][0]:g}"
        said = f"the smallest {name} that keeps {worst} away {between}: {failing}"
    elif words:
        said = f"no {name} up to {rows[-1][0]:g} is known to keep {worst} away: {failing}"
    else:
        return f"no {name} up to {rows[-1][0]:g} keeps {worst} away."
    words += list(filter(None, map(_in_another_way, working)))[:3]
    told = [r for r in rows[1:] if _share(r[1], worst) > _WORKS or not _too_few_reach(r, before)]
    return "; ".join([said, *words, *_term_loss([rows[0], *told])]) + "."


def _too_few_reach(row: _Row, before: _Row) -> str | None:
    """That too few answers of a cell go on to where those of another one fail; None where enough do.

    Enough would show, if none of them failed, that at most a tenth does. Answers that end earlier, such as
    empty ones, tell nothing about the failure.
    """
    (value, each), onset = row, before[1].median_onset or 0.0
    reaching = sum(tokens >= onset for tokens in each.reached)
    needed = needed_at_risk(_WORKS, each.threshold.confidence)
    if reaching >= needed:
        return None
    return (
        f"at {value:g} too few answers go on long enough to tell: {reaching} of {each.generations} reach "
        f"token {onset:,.0f}, the median onset at {before[0]:g}, and {needed} are needed"
    )


def _may_be_chance(row: _Row, rows: Sequence[_Row], worst: str) -> str | None:
    """That a cell's few failures do not differ from those of the first one by more than chance: one-sided
    by Fisher's exact test, Bonferroni's correction for the values that are looked at."""
    (value, each), (first_value, first) = row, rows[0]
    failed, before = _count(each, worst), _count(first, worst)
    if more_failures_p((failed, each.generations), (before, first.generations)) <= _LEVEL / (len(rows) - 1):
        return None
    return (
        f"at {value:g}, {failed} of {each.generations} fail with {worst}: the difference from {before} of "
        f"{first.generations} at {first_value:g} may be chance"
    )


def _in_another_way(row: _Row) -> str | None:
    value, each = row
    if each.failed <= _WORKS * each.generations or each.median_onset is None:
        return None
    symptoms = ", ".join(symptom_info(kind).label for kind in each.kinds)
    return (
        f"at {value:g}, {each.failed} of {each.generations} fail in another way "
        f"({symptoms}, median onset {each.median_onset:,.0f})"
    )


def _term_loss(rows: Sequence[_Row]) -> list[str]:
    """The value above which fewer terms recur than at the first: penalties suppress necessary repetition."""
    first = rows[0][1].terms
    if not first:
        return []
    for (before, _), (value, each) in pairwise(rows):
        if each.terms is not None and each.terms < _KEPT * first:
            return [
                f"above {before:g} fewer terms recur: {first:.1f} per 100 words at "
                f"{rows[0][0]:g}, {each.terms:.1f} at {value:g}"
            ]
    return []


def _family(each: SweepCell) -> str | None:
    """The most frequent symptom family; None if at most a tenth of the answers fail."""
    counts: Counter[str] = Counter()
    for kind, n in each.kinds.items():
        counts[symptom_family(kind)] += n
    if not counts or sum(counts.values()) <= _WORKS * each.generations:
        return None
    return counts.most_common(1)[0][0]


def _count(each: SweepCell, worst: str) -> int:
    return sum(n for kind, n in each.kinds.items() if symptom_family(kind) == worst)


def _share(each: SweepCell, worst: str) -> float:
    return _count(each, worst) / each.generations if each.generations else 0.0


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
