"""All subjects of a store on one HTML page: the newest threshold of each, and how thresholds moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stresstest.report.console import provenance, when
from stresstest.report.html.page import render
from stresstest.report.text import count, percent

if TYPE_CHECKING:
    from stresstest.store import StoredThreshold

_HISTORY = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One subject's newest result. change: against the one before, in words."""

    row: StoredThreshold
    reach: str
    safe: str
    risk: str
    measured: str
    change: str
    where: str


@dataclass(frozen=True, slots=True)
class Place:
    """One task and language: what model swaps are seen on. number: its chart's place."""

    number: int
    task: str
    language: str
    lines: tuple[Line, ...]
    swaps: tuple[str, ...]


def index_html(rows: Sequence[StoredThreshold], location: str) -> str:
    """rows: every saved result. location: of the store, fit for showing."""
    by_place: dict[tuple[str, str], list[StoredThreshold]] = {}
    for row in sorted(rows, key=lambda r: r.created):
        by_place.setdefault((row.subject.task, row.subject.language), []).append(row)
    places = [
        Place(number, task, language, tuple(_lines(history)), tuple(_swaps(history)))
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


def _lines(history: Sequence[StoredThreshold]) -> list[Line]:
    """The newest of each model, decoding and rigor, the largest limit first."""
    newest = [row for row in history if row.latest]
    found = [_line(row, history) for row in newest]
    return sorted(found, key=lambda line: -(line.row.safe_max_tokens or 0))


def _line(row: StoredThreshold, history: Sequence[StoredThreshold]) -> Line:
    threshold = row.threshold
    before = [
        r for r in history
        if r.created < row.created and (r.subject, r.decoding, r.rigor, r.simulated)
        == (row.subject, row.decoding, row.rigor, row.simulated)
    ]  # fmt: skip
    return Line(
        row=row,
        reach=("≥ " if threshold.censored_at else "") + count(threshold.tokens),
        safe=count(row.safe_max_tokens),
        risk=f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}, n = {threshold.n}",
        measured=when(row.created),
        change=_change(before[-1].threshold.tokens if before else None, threshold.tokens, bool(before)),
        where=provenance(row),
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
    """Where the model changed from one result to the next, in words."""
    found = []
    for before, after in pairwise(history):
        if before.subject.model != after.subject.model:
            moved = f"{count(before.threshold.tokens)} → {count(after.threshold.tokens)} tokens"
            found.append(f"{when(after.created)}: {before.subject.model} → {after.subject.model}, {moved}")
    return found[-12:]


def _history(rows: Sequence[StoredThreshold]) -> dict[str, Any]:
    return {
        "points": [
            {
                "at": row.created,
                "model": row.subject.model + (" (simulated)" if row.simulated else ""),
                "tokens": row.threshold.tokens,
                "safe": row.safe_max_tokens,
                "run": row.run_id,
                "rigor": row.rigor,
            }
            for row in rows[-_HISTORY:]
        ]
    }
