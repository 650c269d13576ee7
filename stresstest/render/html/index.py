"""The HTML page of all subjects in a store: their newest thresholds, and the history of thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stresstest.clock import format_time
from stresstest.model.percent import percent
from stresstest.render.html.page import render
from stresstest.render.limits import decoding_words, only_up_to, overruled_words
from stresstest.render.run_summary import provenance
from stresstest.render.text import format_count, format_threshold, language_name, load_words

if TYPE_CHECKING:
    from stresstest.store import StoredThreshold

_HISTORY = 400


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """The newest result of one subject. how: decoding, server and load. change: since the previous result.
    where: provenance."""

    row: StoredThreshold
    how: str
    reach: str
    safe: str
    risk: str
    measured: str
    change: str
    where: str


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    """The section of one task and language. number: index of its chart. swaps: changes of the model."""

    number: int
    task: str
    language: str
    lines: tuple[SubjectLine, ...]
    swaps: tuple[str, ...]


def index_html(rows: Sequence[StoredThreshold], location: str) -> str:
    """The page. rows: every stored result. location: the store's address without credentials."""
    by_place: dict[tuple[str, str], list[StoredThreshold]] = {}
    for row in sorted(rows, key=lambda r: r.created):
        by_place.setdefault((row.subject.task, row.subject.language), []).append(row)
    places = [
        WorkloadSection(number, task, language_name(language), tuple(_lines(history)), tuple(_swaps(history)))
        for number, ((task, language), history) in enumerate(sorted(by_place.items()))
    ]
    history = [_history(found) for _, found in sorted(by_place.items())]
    return render(
        "index.html",
        {"history": history},
        places=places,
        location=location,
        results=len(rows),
        simulated=any(row.simulated for row in rows),
    )


def _lines(history: Sequence[StoredThreshold]) -> list[SubjectLine]:
    """The newest result of each model, decoding and rigor, the largest limit first."""
    newest = [row for row in history if row.latest]
    found = [_line(row, history) for row in newest]
    return sorted(found, key=lambda line: -(line.row.limit or 0))


def _line(row: StoredThreshold, history: Sequence[StoredThreshold]) -> SubjectLine:
    threshold = row.threshold
    before = [
        r for r in history
        if r.created < row.created and (r.rigor, _conditions(r)) == (row.rigor, _conditions(row))
    ]  # fmt: skip
    where, safe = [provenance(row)], format_count(row.limit)
    if row.holds_up_to is not None and row.limit is not None:
        where.append(only_up_to(row.holds_up_to))
        safe += f" (at most {load_words(row.holds_up_to)})"
    if row.overruled_by is not None:
        where.append(overruled_words(row))
    return SubjectLine(
        row=row,
        how=", ".join([decoding_words(row.decoding), row.base_url, load_words(row.concurrency)]),
        reach=format_threshold(threshold),
        safe=safe,
        risk=f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}, n = {threshold.n}",
        measured=format_time(row.created),
        change=_change(before[-1].threshold.tokens if before else None, threshold.tokens, bool(before)),
        where="; ".join(where),
    )


def _change(before: int | None, after: int | None, known: bool) -> str:
    if not known:
        return "first"
    if after is None:
        return "still not certified" if before is None else "no longer certified"
    if before is None:
        return "was not certified"
    return f"{after - before:+,} tokens"


def _swaps(history: Sequence[StoredThreshold]) -> list[str]:
    """The last changes of the model from one result to the next, with both thresholds."""
    found = []
    alike = sorted(history, key=_kind)
    for before, after in pairwise(alike):
        if _kind(before) == _kind(after) and before.subject.model != after.subject.model:
            moved = f"{format_count(before.threshold.tokens)} → {format_count(after.threshold.tokens)} tokens"
            words = f"{format_time(after.created)}: {before.subject.model} → {after.subject.model}, {moved}"
            found.append((after.created, words))
    return [words for _, words in sorted(found)][-12:]


def _kind(row: StoredThreshold) -> tuple[bool, str, str]:
    """Results of different models are compared where they agree in this."""
    return row.simulated, row.rigor, str(row.decoding)


def _conditions(row: StoredThreshold) -> tuple[object, ...]:
    """What a result is of: two that differ in it are no history of one thing."""
    return row.subject, row.simulated, row.decoding, row.base_url, row.concurrency


def _series_name(row: StoredThreshold, kinds: Sequence[int]) -> str:
    """The model, and what else tells it from the others of the same name.

    kinds: how many decodings, addresses and loads there are of it.
    """
    parts = [
        decoding_words(row.decoding),
        row.base_url.partition("://")[2] or row.base_url,
        f"{row.concurrency} in flight",
    ]
    name = row.subject.model + (" (simulated)" if row.simulated else "")
    return ", ".join([name, *(words for words, n in zip(parts, kinds, strict=True) if n > 1)])


def _history(rows: Sequence[StoredThreshold]) -> dict[str, Any]:
    rows = rows[-_HISTORY:]
    seen: dict[object, tuple[set[object], set[object], set[object]]] = {}
    for row in rows:
        kinds = seen.setdefault((row.subject, row.simulated), (set(), set(), set()))
        for kind, each in zip(kinds, (row.decoding, row.base_url, row.concurrency), strict=True):
            kind.add(each)
    counts = {key: [len(kind) for kind in kinds] for key, kinds in seen.items()}
    names = {_conditions(row): _series_name(row, counts[row.subject, row.simulated]) for row in rows}
    return {
        "points": [
            {
                "at": row.created,
                "series": names[_conditions(row)],
                "label": names[_conditions(row)]
                .removeprefix(row.subject.model.rpartition("/")[0] + "/")
                .replace(" (simulated)", ""),
                "tokens": row.threshold.tokens,
                "safe": row.safe_max_tokens,
                "run": row.run_id,
                "rigor": row.rigor,
            }
            for row in rows
        ]
    }
