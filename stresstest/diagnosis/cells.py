"""A campaign as one cell of a sweep, and what the cells answer together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median

from stresstest.diagnosis.effects import diversity, recurring_terms
from stresstest.diagnosis.evidence import lost
from stresstest.diagnosis.forks import family
from stresstest.model import Generation, RunResult, SymptomKind, Token
from stresstest.model.sweep import Cell, Ratio
from stresstest.threshold import onset_ratio

_READ = 400
"""Healthy tokens of each answer that the lexical measures read, so that cells are compared at one length."""
_WORKS = 0.1


def cell(values: Mapping[str, str], result: RunResult) -> Cell:
    """The campaign's certifying sample in numbers."""
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
        first_foreign=min(foreign, default=None),
        completed=sum(map(_complete, sample)) / len(sample) if sample else None,
        diversity=_median(diversity(_healthy(g)) for g in sample),
        terms=_median(recurring_terms(_healthy(g)) for g in sample),
        tokens=result.tokens_spent,
        onsets=onsets,
    )


def _healthy(generation: Generation) -> Sequence[Token]:
    return generation.tokens[: min(generation.verdict.observed, _READ)]


def _complete(generation: Generation) -> bool:
    verdict, asked = generation.verdict, generation.job.units
    ended = generation.finish_reason == "stop" and not verdict.degenerate
    return ended and (asked is None or verdict.units is None or verdict.units >= asked)


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
        return f"{name} {rows[0][0]:g} fails in less than a tenth: nothing has to be changed."
    works = next((i for i, (_, each) in enumerate(rows) if _share(each, worst) <= _WORKS), None)
    if works is None:
        return f"no {name} up to {rows[-1][0]:g} keeps {worst} away."
    value, good = rows[works]
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
    first = rows[0][1].terms
    if first is not None and good.terms is not None and good.terms < 0.8 * first:
        words.append(f"recurring terms per 100 words fall from {first:.1f} to {good.terms:.1f}")
    return "; ".join(words) + "."


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
    """Median onsets of different subjects against each other, where each has five onsets."""
    found = []
    for one, other in combinations(cells, 2):
        if one.subject == other.subject or one.decoding != other.decoding:
            continue
        of, over = sorted((one, other), key=lambda c: -(c.median_onset or 0.0))
        ratio = onset_ratio(over.onsets, of.onsets)
        if ratio is not None:
            found.append(Ratio(str(of.subject), str(over.subject), ratio.ratio, ratio.lo, ratio.hi))
    return tuple(found)
