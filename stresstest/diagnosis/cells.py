"""A campaign as one cell of a sweep, and what the cells answer together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import median

from stresstest.diagnosis.effects import diversity, recurring_terms
from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import family, unit_starts
from stresstest.model import Generation, Observation, Rigor, RunResult, SymptomKind, Token
from stresstest.model.sweep import Cell, Ratio
from stresstest.threshold import certify, observations, onset_ratio, risk_at
from stresstest.threshold.proportion import clopper_pearson

_READ = 400
"""Healthy tokens of each answer that the lexical measures read, so that cells are compared at one length."""
_WORKS = 0.1
_KEPT = 0.8
"""Recurring terms below this share of the first cell's are a loss."""
_SIDE = 0.975


def cell(values: Mapping[str, str], result: RunResult, pattern: str | None) -> Cell:
    """The campaign's certifying sample in numbers. pattern: of the task's units, None without one."""
    sample = [g for g in result.certifying if not lost(g)]
    onsets = tuple(sorted(g.verdict.onset for g in sample if g.verdict.onset is not None))
    foreign = [s.onset for g in sample for s in g.verdict.symptoms if s.kind is SymptomKind.LANGUAGE_DRIFT]
    kinds = Counter(str(g.verdict.symptom) for g in sample if g.verdict.symptom is not None)
    settings = result.run.settings
    return Cell(
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
        onset_unit=_median(_unit(g, pattern) for g in sample) if pattern else None,
        first_foreign=min(foreign, default=None),
        completed=_share_of(sample, lambda g: _finished(g) and not g.verdict.degenerate),
        finished=None if any(g.aborted for g in sample) else _share_of(sample, _finished),
        diversity=_median(diversity(_healthy(g)) for g in sample),
        terms=_median(recurring_terms(_healthy(g)) for g in sample),
        tokens=result.tokens_spent,
        onsets=onsets,
        quantile=interval(observations(sample), result.threshold.alpha),
    )


def interval(sample: Sequence[Observation], alpha: float) -> tuple[int | None, int | None]:
    """Exact 95 % interval of the length at which the risk reaches alpha; None at an end without a bound.

    Both Clopper-Pearson bounds of the risk at T only grow with T: each end is where one crosses alpha.
    """
    lowest = certify(sample, Rigor("", alpha, _SIDE, 0, 0)).tokens
    for tokens in sorted({o.onset for o in sample if o.onset is not None}):
        n, d = risk_at(tokens, sample)
        if clopper_pearson(d, n, 2.0 * _SIDE - 1.0)[0] > alpha:
            return lowest, tokens
    return lowest, None


def _healthy(generation: Generation) -> Sequence[Token]:
    return generation.tokens[: min(generation.verdict.observed, _READ)]


def _finished(generation: Generation) -> bool:
    got, asked = generation.verdict.units, generation.job.units
    return generation.finish_reason == "stop" and (asked is None or got is None or got >= asked)


def _share_of(sample: Sequence[Generation], holds: Callable[[Generation], bool]) -> float | None:
    return sum(map(holds, sample)) / len(sample) if sample else None


def _unit(generation: Generation, pattern: str) -> float | None:
    """Number of the unit in which the onset lies."""
    onset = generation.verdict.onset
    return None if onset is None else float(len(unit_starts(generation.tokens[:onset], pattern)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def answers(cells: Sequence[Cell], names: Sequence[str]) -> tuple[str, ...]:
    """For each parameter with numbers: the smallest change that works, and what more of it breaks.

    Works: at most a tenth of the answers fails in the way that most of the first cell's do. Cells that
    differ in other parameters are not compared.
    """
    found = []
    for name in names:
        rows = _series(cells, name)
        if len(rows) >= 2:
            found.append(_answer(name, rows))
    return tuple(answer for answer in found if answer is not None)


def _series(cells: Sequence[Cell], name: str) -> list[tuple[float, Cell]]:
    """Cells in which only `name` varies, smallest first; the other values are the first cell's."""
    others = {k: v for k, v in cells[0].values.items() if k != name} if cells else {}
    rows = []
    for each in cells:
        if name in each.values and {k: v for k, v in each.values.items() if k != name} == others:
            try:
                rows.append((float(each.values[name]), each))
            except ValueError:
                return []
    return sorted(rows, key=lambda row: row[0])


def _answer(name: str, rows: Sequence[tuple[float, Cell]]) -> str | None:
    worst = _family(rows[0][1])
    if worst is None:
        said = f"{name} {rows[0][0]:g} fails in less than a tenth: nothing has to be changed"
        return "; ".join([said, *_lost_terms(rows)]) + "."
    works = next((i for i, (_, each) in enumerate(rows) if _share(each, worst) <= _WORKS), None)
    if works is None:
        return f"no {name} up to {rows[-1][0]:g} keeps {worst} away."
    value = rows[works][0]
    before = rows[works - 1]
    words = [
        f"the smallest {name} that keeps {worst} away lies between {before[0]:g} and {value:g}: "
        f"at {before[0]:g} {before[1].failed} of {before[1].generations} fail"
    ]
    later = [(v, c) for v, c in rows[works:] if c.failed > _WORKS * c.generations]
    words += [
        f"at {v:g} {c.failed} of {c.generations} fail otherwise "
        f"({', '.join(k.replace('_', ' ') for k in c.kinds)}, median onset {c.median_onset:,.0f})"
        for v, c in later[:3]
        if c.median_onset is not None
    ]
    return "; ".join([*words, *_lost_terms(rows)]) + "."


def _lost_terms(rows: Sequence[tuple[float, Cell]]) -> list[str]:
    """From which value on fewer terms recur than at the first: words that must be repeated are pushed out."""
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


def _family(each: Cell) -> str | None:
    """How most of the answers fail, None where under a tenth does."""
    counts: Counter[str] = Counter()
    for kind, n in each.kinds.items():
        counts[family(SymptomKind(kind))] += n
    if not counts or sum(counts.values()) <= _WORKS * each.generations:
        return None
    return counts.most_common(1)[0][0]


def _share(each: Cell, worst: str) -> float:
    n = sum(n for kind, n in each.kinds.items() if family(SymptomKind(kind)) == worst)
    return n / each.generations if each.generations else 1.0


def ratios(cells: Sequence[Cell]) -> tuple[Ratio, ...]:
    """Thresholds of different subjects against each other, where both are certified and one has failed."""
    certified = [c for c in cells if c.threshold.certified and c.threshold.tokens]
    found = []
    for one, other in combinations(certified, 2):
        if one.subject == other.subject or one.decoding != other.decoding:
            continue
        of, over = sorted((one, other), key=_reach, reverse=True)
        if over.threshold.censored_at is None:
            found.append(_ratio(of, over))
    return tuple(found)


def _reach(each: Cell) -> tuple[int, bool]:
    return each.threshold.tokens or 0, each.threshold.censored_at is not None


def _ratio(of: Cell, over: Cell) -> Ratio:
    (of_lo, of_hi), (over_lo, over_hi) = of.quantile, over.quantile
    onsets = onset_ratio(over.onsets, of.onsets)
    return Ratio(
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
