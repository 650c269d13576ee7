"""Sweeps, checks, costs and scans that stand on a run, from their stored documents.

The documents are what ``--json`` printed, perhaps by an older version: every key may be missing, and what
is missing is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.model import DocumentKind
from stresstest.report.html import read
from stresstest.report.text import NOT_MEASURED, percent

if TYPE_CHECKING:
    from stresstest.store import StoredDocument

_ROWS = 60
_TONES = {"pass": "good", "regression": "bad"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One section. facts: (name, value). header, rows: a table; bars: 0-1 beside each row, or empty.

    tone: good, bad, warn, or nothing.
    """

    kind: str
    title: str
    sentence: str
    facts: tuple[tuple[str, str], ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    bars: tuple[float | None, ...] = ()
    notes: tuple[str, ...] = ()
    tone: str = ""
    saved: float = 0.0
    complete: bool = True


def findings(documents: Iterable[StoredDocument]) -> list[Finding]:
    """A section each: the newest of a kind first told, cost before sweep before comparison."""
    order = list(_DRAWN)
    kept = sorted(documents, key=lambda d: (order.index(d.kind), -d.saved))
    return [_DRAWN[document.kind](document) for document in kept]


def _cost(document: StoredDocument) -> Finding:
    body = document.body
    slow, step = read.ratio(body.get("healthy_slowdown")), read.ratio(body.get("step_ratio"))
    inflation, share = read.number(body, "inflation"), read.number(body, "share_of_time")
    sentence = "What degenerate requests cost the healthy ones that share their GPU."
    if share is not None:
        sentence = f"{percent(share)} of the observed time went to degenerate requests and what they held up."
    money = body.get("money")
    facts = (
        ("degenerate requests", f"{read.counted(body, 'degenerate')} of {read.counted(body, 'requests')}"),
        ("rate", f"{read.share(body, 'rate', 1)}{read.interval(body.get('rate_ci'))}"),
        ("rate, DharmaOCR's definition", read.share(body, "dharma_rate", 1)),
        ("share of time lost", percent(share)),
        ("inflation of the wall clock", NOT_MEASURED if inflation is None else f"+{percent(inflation, 1)}"),
        ("healthy requests slowed", slow),
        ("time per token inside loops over outside", step),
        ("wall clock, as it was / without loops", read.durations(body, "wall_clock_s", "counterfactual_s")),
        ("wasted tokens", read.counted(body, "wasted_tokens")),
        ("GPU seconds", read.counted(body, "gpu_seconds")),
        ("money", read.money(money)),
    )
    labels = read.mapping(body.get("labels"))
    kinds = sorted({str(label) for label in labels.values()})
    told = (f"These numbers are {' and '.join(kinds)}; `cost --json` says which is which.",) if kinds else ()
    return _finding(document, "What it costs", sentence, facts=facts, notes=(*told, *read.notes(body)))


def _sweep(document: StoredDocument) -> Finding:
    cells = read.mappings(document.body.get("cells"))
    names = list(dict.fromkeys(name for cell in cells for name in read.mapping(cell.get("values"))))
    columns = ("safe max_tokens", "failed", "median onset", "whole answers", "symptoms")
    header = (*(n.replace("_", " ") for n in names), *columns)
    safes = [read.number(cell, "safe_max_tokens") for cell in cells]
    most = max((s for s in safes if s is not None), default=0.0)
    rows = []
    for cell in cells:
        values, kinds = read.mapping(cell.get("values")), read.mapping(cell.get("symptoms"))
        rows.append(
            (
                *(str(values.get(name, NOT_MEASURED)) for name in names),
                read.counted(cell, "safe_max_tokens"),
                f"{read.counted(cell, 'failed')} of {read.counted(cell, 'generations')}",
                read.counted(cell, "median_onset"),
                read.share(cell, "completed"),
                ", ".join(f"{str(k).replace('_', ' ')} {n}" for k, n in kinds.items()) or NOT_MEASURED,
            )
        )
    bars = tuple(None if s is None or not most else s / most for s in safes)
    sentence = f"{len(cells)} combinations, one campaign each."
    notes = tuple(str(answer) for answer in read.listed(document.body.get("answers")))
    return _finding(document, "Parameters swept", sentence, header=header, rows=rows, bars=bars, notes=notes)


def _check(document: StoredDocument) -> Finding:
    body = document.body
    verdict = str(body.get("verdict") or "inconclusive")
    tone = _TONES.get(verdict, "warn")
    if "cells" in body:
        return _project(document, tone)
    difference = read.number(body, "difference")
    facts = (
        ("baseline", read.name(body.get("baseline"))),
        ("candidate", read.name(body.get("candidate"))),
        ("compared at", f"{read.counted(body, 'at_tokens')} tokens"),
        ("failed by then, baseline", read.share(body, "p_baseline", 1)),
        ("failed by then, candidate", read.share(body, "p_candidate", 1)),
        (
            "difference",
            (NOT_MEASURED if difference is None else f"{100 * difference:+.1f} points")
            + read.interval(body.get("interval")),
        ),
        ("tolerated increase", read.share(body, "max_increase", 1)),
    )
    notes = (*((str(body["lacking"]),) if body.get("lacking") else ()), *read.notes(body))
    return _finding(document, "Compared", f"Verdict: {verdict}.", facts=facts, notes=notes, tone=tone)


def _project(document: StoredDocument, tone: str) -> Finding:
    """A check of a project file: one row a cell, and why one did not pass."""
    rows, notes = [], []
    for cell in read.mappings(document.body.get("cells")):
        subject = read.mapping(cell.get("subject"))
        words = (
            subject.get("model"),
            subject.get("task"),
            subject.get("language"),
            cell.get("decoding_name"),
        )
        name = " · ".join(str(word) for word in words if word)
        safe, before = read.counted(cell, "safe_max_tokens"), read.counted(cell, "baseline_safe_max_tokens")
        rows.append((name, str(cell.get("outcome") or NOT_MEASURED), safe, before))
        notes += [f"{name}: {cell['trouble']}"] if cell.get("trouble") else []
        broken = (
            b for b in read.mappings(cell.get("budgets")) if b.get("outcome") in ("breach", "inconclusive")
        )
        notes += [f"{name}: {budget.get('name')}: {budget.get('sentence')}" for budget in broken]
    header = ("cell", "outcome", "safe max_tokens", "baseline")
    sentence = f"Verdict: {document.body.get('outcome') or NOT_MEASURED}."
    return _finding(
        document, "Project checked", sentence, header=header, rows=rows, notes=tuple(notes[:_ROWS]), tone=tone
    )


def _scan(document: StoredDocument) -> Finding:
    body = document.body
    rows = []
    for group in read.mappings(body.get("groups")):
        key = ", ".join(f"{k} {v}" for k, v in read.mapping(group.get("key")).items()) or "all"
        rows.append(
            (
                key,
                read.counted(group, "requests"),
                read.counted(group, "degenerate"),
                read.share(group, "rate", 1) + read.interval(group.get("rate_ci")),
                read.share(group, "dharma_rate", 1),
                read.counted(read.mapping(group.get("threshold")), "tokens"),
            )
        )
    header = ("group", "requests", "degenerate", "rate", "DharmaOCR's rate", "threshold")
    whole, damaged = read.counted(body, "requests"), read.counted(body, "damaged")
    sentence = f"{whole} recorded requests were read; {damaged} lines were damaged."
    return _finding(document, "Recorded requests", sentence, header=header, rows=rows)


def _finding(
    document: StoredDocument,
    title: str,
    sentence: str,
    *,
    facts: tuple[tuple[str, str], ...] = (),
    header: tuple[str, ...] = (),
    rows: Sequence[tuple[str, ...]] = (),
    bars: tuple[float | None, ...] = (),
    notes: tuple[str, ...] = (),
    tone: str = "",
) -> Finding:
    left = len(rows) - _ROWS
    more = (f"{left} rows more are in the stored document {document.id}.",) if left > 0 else ()
    return Finding(
        kind=str(document.kind),
        title=title,
        sentence=sentence,
        facts=facts,
        header=header,
        rows=tuple(rows[:_ROWS]),
        bars=bars[:_ROWS],
        notes=(*notes, *more),
        tone=tone,
        saved=document.saved,
        complete=document.complete,
    )


_DRAWN: Mapping[DocumentKind, Callable[[StoredDocument], Finding]] = {
    DocumentKind.COST: _cost,
    DocumentKind.SWEEP: _sweep,
    DocumentKind.CHECK: _check,
    DocumentKind.SCAN: _scan,
}
