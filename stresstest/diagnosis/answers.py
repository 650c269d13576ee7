"""What the cells of a sweep say together: the smallest change that works, what larger ones break. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.intervention.forks import symptom_family
from stresstest.model.model_names import other_models
from stresstest.model.sweep import SweepCell, SweepControl
from stresstest.statistics.certify import needed_at_risk
from stresstest.statistics.comparison import more_failures_p

_WORKS = 0.1
_KEPT = 0.8
"""Share of the first cell's recurring terms below which a cell has lost terms."""
_LEVEL = 0.05
_LOAD_DIFFERS = 2.0
"""Requests of other clients at the server by which cells are measured under different loads."""

_Row = tuple[float, SweepCell]
"""A value of one parameter and its cell."""


def sweep_answers(
    cells: Sequence[SweepCell], names: Sequence[str], control: SweepControl | None = None
) -> tuple[str, ...]:
    """One sentence per numeric parameter and direction from its first value: the smallest change that works,
    and the failures of larger ones.

    A change works if at most a tenth of the answers fail with the predominant failure of the first cell,
    significantly fewer than there, and enough go on to where those without it fail. Cells that also differ
    in other parameters are not compared. control: one that does not confirm withholds what is said to work.
    The last sentence tells where prompts were asked more than once.
    """
    found = [_answer(name, rows, control) for name, rows in _every_series(cells, names)]
    return tuple(dict.fromkeys([*found, *_few_prompts(cells)]))


def _few_prompts(cells: Sequence[SweepCell]) -> list[str]:
    """That all this holds for the prompts that were asked, where answers to one of them repeat it."""
    few = [cell for cell in cells if cell.prompts is not None and cell.prompts < cell.generations]
    if not few:
        return []
    least = min(few, key=lambda cell: cell.prompts or 0)
    which = (
        "1 prompt: all this holds for that one"
        if least.prompts == 1
        else f"{least.prompts} prompts: all this holds for these"
    )
    return [f"the {least.generations} answers of a cell are to only {which}, and with others more may fail"]


def differing_loads(cells: Sequence[SweepCell]) -> tuple[SweepCell, SweepCell] | None:
    """The cells beside which other clients had the fewest and the most requests at the server, where these
    differ by `_LOAD_DIFFERS` or more."""
    known = sorted((c for c in cells if c.others is not None), key=lambda c: c.others or 0.0)
    if not known or (known[-1].others or 0.0) - (known[0].others or 0.0) < _LOAD_DIFFERS:
        return None
    return known[0], known[-1]


def working_cells(cells: Sequence[SweepCell], names: Sequence[str]) -> list[SweepCell]:
    """The cells of the smallest changes that are said to keep the first cell's failure away."""
    found = [_search(rows).working for _, rows in _every_series(cells, names)]
    return [working[0][1] for working in found if working]


def still_fails(kinds: Mapping[str, int], n: int, first: SweepCell, working: Sequence[SweepCell]) -> bool:
    """Whether `n` repeated answers of the first cell fail, as it did, more often than each `working` cell
    (one-sided, Fisher's exact test). kinds: symptom → repeated answers."""
    worst = _family(first)
    again = _count(kinds, worst), n
    return all(
        more_failures_p((_count(each.kinds, worst), each.generations), again) <= _LEVEL for each in working
    )


def _every_series(cells: Sequence[SweepCell], names: Sequence[str]) -> list[tuple[str, list[_Row]]]:
    """By parameter, the rows from the first cell's value upwards, and those downwards, if there are any."""
    found = []
    for name in names:
        if rows := _rows(cells, name):
            up = sorted((row for row in rows[1:] if row[0] > rows[0][0]), key=_value)
            down = sorted((row for row in rows[1:] if row[0] < rows[0][0]), key=_value, reverse=True)
            found += [(name, [rows[0], *side]) for side in (up, down) if side]
    return found


def _value(row: _Row) -> float:
    return row[0]


def _rows(cells: Sequence[SweepCell], name: str) -> list[_Row]:
    """The first cell and those that differ from it in `name` only; empty if that is no number."""
    others = {k: v for k, v in cells[0].values.items() if k != name} if cells else {}
    rows = []
    for each in cells:
        if name in each.values and {k: v for k, v in each.values.items() if k != name} == others:
            try:
                rows.append((float(each.values[name]), each))
            except ValueError:
                return []
    return rows


@dataclass(frozen=True, slots=True)
class _Search:
    """The smallest change that works, and what comes before it. before: the last value that fails; working:
    the rows from the first value that works; words: what is said of values that are not known to."""

    worst: str | None
    before: _Row
    working: Sequence[_Row] = ()
    words: tuple[str, ...] = ()


def _search(rows: Sequence[_Row]) -> _Search:
    worst, before, words = _family(rows[0][1]), rows[0], list[str]()
    for at, row in enumerate(rows[1:] if worst else (), 1):
        if _share(row[1], worst) > _WORKS:
            before = row
        elif too_few := _too_few_reach(row, before):
            words.append(_in_another_way(row) or too_few)
        elif other := _by_another_model(row, rows[0]):
            words.append(other)
        elif chance := _may_be_chance(row, rows, worst):
            words.append(chance)
        else:
            return _Search(worst, before, rows[at:], tuple(words))
    return _Search(worst, before, (), tuple(words))


def _answer(name: str, rows: Sequence[_Row], control: SweepControl | None) -> str:
    found = _search(rows)
    worst, before, working, words = found.worst, found.before, found.working, list(found.words)
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
    if working and control is not None and not control.confirms:
        return _withheld(name, rows, worst, control)
    falls = rows[-1][0] < rows[0][0]
    reach = f"{'down' if falls else 'up'} to {rows[-1][0]:g}"
    failing = f"at {before[0]:g}, {before[1].failed} of {before[1].generations} fail"
    if working:
        low, high = sorted((before[0], working[0][0]))
        nearest = "largest" if falls else "smallest"
        said = f"the {nearest} {name} that keeps {worst} away lies between {low:g} and {high:g}: {failing}"
    elif words:
        said = f"no {name} {reach} is known to keep {worst} away: {failing}"
    else:
        return f"no {name} {reach} keeps {worst} away."
    words += list(filter(None, map(_in_another_way, working)))[:3]
    told = [r for r in rows[1:] if _share(r[1], worst) > _WORKS or not _too_few_reach(r, before)]
    return "; ".join([said, *words, *_term_loss([rows[0], *told])]) + "."


def _withheld(name: str, rows: Sequence[_Row], worst: str, control: SweepControl) -> str:
    value, first = rows[0]
    then, now = _count(first.kinds, worst), _count(control.kinds, worst)
    unknown = f"whether {name} keeps {worst} away is not known"
    if not control.n:
        return (
            f"{unknown}: at {value:g}, {then} of {first.generations} fail with it, but when the same prompts "
            f"were asked again after the last cell, no answer came back. Repeat the command to ask once more."
        )
    again = f"only {now}" if now else "none"
    return (
        f"{unknown}: at {value:g}, {then} of {first.generations} fail with it, but {again} of {control.n} "
        f"when the same prompts were asked again after the last cell. Something else has changed meanwhile, "
        f"such as the load that other clients put on the server; measure again with --fresh while that is "
        f"steady."
    )


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


def _may_be_chance(row: _Row, rows: Sequence[_Row], worst: str | None) -> str | None:
    """That a cell's few failures do not differ from those of the first one by more than chance: one-sided
    by Fisher's exact test, Bonferroni's correction for the values that are looked at."""
    (value, each), (first_value, first) = row, rows[0]
    failed, before = _count(each.kinds, worst), _count(first.kinds, worst)
    if more_failures_p((failed, each.generations), (before, first.generations)) <= _LEVEL / (len(rows) - 1):
        return None
    return (
        f"at {value:g}, {failed} of {each.generations} fail with {worst}: the difference from {before} of "
        f"{first.generations} at {first_value:g} may be chance"
    )


def _by_another_model(row: _Row, first: _Row) -> str | None:
    """That the streams of a cell name models that those of the first one do not."""
    (value, each), (first_value, before) = row, first
    others = other_models(before.answered_by, each.answered_by)
    if not others:
        return None
    return (
        f"at {value:g} the streams name the model {' and '.join(others[:3])}, at {first_value:g} "
        f"{' and '.join(before.answered_by[:3])}: a gateway answers with another one"
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
    """The value beyond which fewer terms recur than at the first: penalties suppress necessary repetition."""
    first = rows[0][1].terms
    if not first:
        return []
    for (before, _), (value, each) in pairwise(rows):
        if each.terms is not None and each.terms < _KEPT * first:
            side = "below" if value < before else "above"
            return [
                f"{side} {before:g} fewer terms recur: {first:.1f} per 100 words at "
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


def _count(kinds: Mapping[str, int], worst: str | None) -> int:
    return sum(n for kind, n in kinds.items() if symptom_family(kind) == worst)


def _share(each: SweepCell, worst: str | None) -> float:
    return _count(each.kinds, worst) / each.generations if each.generations else 0.0
