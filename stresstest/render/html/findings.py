"""Report sections for the stored sweeps, checks, cost analyses and scans of a run.

The documents are the output of ``--json``, possibly of an older version, so any key may be missing; a
missing value is shown as not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stresstest.detectors.registry import symptom_counts
from stresstest.model import DocumentKind
from stresstest.model.comparison import Method
from stresstest.model.percent import percent
from stresstest.render.text import NOT_MEASURED, duration, format_count, language_name

if TYPE_CHECKING:
    from stresstest.store import StoredDocument


_NOTES = 12


def note_lines(body: Mapping[str, Any]) -> list[str]:
    """The sentences of a check's findings, then its notes; at most twelve."""
    sentences = [found.get("sentence") for found in as_mappings(body.get("findings"))]
    return [str(said) for said in (*sentences, *as_list(body.get("notes"))) if said][:_NOTES]


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def as_mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects in the value if it is a list, else an empty list."""
    return [entry for entry in as_list(value) if isinstance(entry, Mapping)]


def as_number(body: Mapping[str, Any], key: str) -> float | None:
    """The number at `key`; None if it is missing or no number."""
    value = body.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def format_count_field(body: Mapping[str, Any], key: str) -> str:
    """A formatted count, or – if missing."""
    return format_count(as_number(body, key))


def format_share(body: Mapping[str, Any], key: str, digits: int = 0) -> str:
    """A share in percent, or – if missing."""
    return percent(as_number(body, key), digits)


def format_interval(value: Any) -> str:
    """An interval of two shares in parentheses, or empty."""
    ends = [v for v in as_list(value) if isinstance(v, int | float)]
    return f" ({percent(ends[0], 1)} to {percent(ends[1], 1)})" if len(ends) == 2 else ""


def format_ratio(value: Any) -> str:
    """A ratio with its interval, or – if missing."""
    found = as_mapping(value)
    ratio = as_number(found, "ratio")
    if ratio is None:
        return NOT_MEASURED
    ends = [v for v in as_list(found.get("ci")) if isinstance(v, int | float)]
    return f"× {ratio:.2f}" + (f" (95 % interval {ends[0]:.2f} to {ends[1]:.2f})" if len(ends) == 2 else "")


def format_durations(body: Mapping[str, Any], one: str, other: str) -> str:
    """The durations at the two keys, separated by a slash."""
    return f"{duration(as_number(body, one))} / {duration(as_number(body, other))}"


def format_money(value: Any) -> str:
    """An amount, or several with their names."""
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{str(k).replace('_', ' ')} {v}" for k, v in value.items() if v is not None)
            or NOT_MEASURED
        )
    return f"{value:,.2f}" if isinstance(value, int | float) else NOT_MEASURED


def side_name(value: Any) -> str:
    """The name of one side of a comparison."""
    if isinstance(value, Mapping):
        return str(value.get("label") or value.get("run_id") or value.get("name") or NOT_MEASURED)
    return NOT_MEASURED if value is None else str(value)


_ROWS = 60
_TONES = {"pass": "good", "regression": "bad"}


@dataclass(frozen=True, slots=True)
class FindingSection:
    """One section of the report.

    facts: (name, value). header, rows: a table. bars: 0-1 for each row, or empty. tone: good, bad, warn or
    empty. saved: clock seconds. complete: whether the document is.
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


def finding_sections(documents: Iterable[StoredDocument]) -> list[FindingSection]:
    """One section per document, ordered by kind (cost, sweep, check, scan), then newest first."""
    order = list(_DRAWN)
    kept = sorted(documents, key=lambda d: (order.index(d.kind), -d.saved))
    return [_DRAWN[document.kind](document) for document in kept]


def _cost(document: StoredDocument) -> FindingSection:
    body = document.body
    slow, step = format_ratio(body.get("healthy_slowdown")), format_ratio(body.get("step_ratio"))
    inflation, share = as_number(body, "inflation"), as_number(body, "share_of_time")
    sentence = "What degenerate requests cost the healthy ones on the same GPU."
    if share is not None:
        sentence = (
            f"{percent(share)} of the observed time went to degenerate requests and the "
            f"requests they delayed."
        )
    money = body.get("money")
    facts = (
        (
            "degenerate requests",
            f"{format_count_field(body, 'degenerate')} of {format_count_field(body, 'requests')}",
        ),
        ("rate", f"{format_share(body, 'rate', 1)}{format_interval(body.get('rate_ci'))}"),
        ("looped to the cap (DharmaOCR's rule)", format_share(body, "dharma_rate", 1)),
        ("share of time lost", percent(share)),
        ("inflation of the wall clock", NOT_MEASURED if inflation is None else f"+{percent(inflation, 1)}"),
        ("healthy requests slowed", slow),
        ("time per token inside loops over outside", step),
        (
            "wall clock, as it was / without loops",
            format_durations(body, "wall_clock_s", "counterfactual_s"),
        ),
        ("wasted tokens", format_count_field(body, "wasted_tokens")),
        ("GPU seconds", format_count_field(body, "gpu_seconds")),
        ("money", format_money(money)),
    )
    labels = as_mapping(body.get("labels"))
    kinds = sorted({str(label) for label in labels.values()})
    told = (f"These numbers are {' and '.join(kinds)}; `cost --json` marks each one.",) if kinds else ()
    return _finding(document, "What it costs", sentence, facts=facts, notes=(*told, *note_lines(body)))


def _sweep(document: StoredDocument) -> FindingSection:
    cells = as_mappings(document.body.get("cells"))
    names = list(dict.fromkeys(name for cell in cells for name in as_mapping(cell.get("values"))))
    columns = ("safe max_tokens", "failed", "median onset", "whole answers", "symptoms")
    header = (*(n.replace("_", " ") for n in names), *columns)
    safes = [as_number(cell, "safe_max_tokens") for cell in cells]
    most = max((s for s in safes if s is not None), default=0.0)
    rows = []
    for cell in cells:
        values, kinds = as_mapping(cell.get("values")), as_mapping(cell.get("symptoms"))
        rows.append(
            (
                *(str(values.get(name, NOT_MEASURED)) for name in names),
                format_count_field(cell, "safe_max_tokens"),
                f"{format_count_field(cell, 'failed')} of {format_count_field(cell, 'generations')}",
                format_count_field(cell, "median_onset"),
                format_share(cell, "completed"),
                symptom_counts(kinds) or NOT_MEASURED,
            )
        )
    bars = tuple(None if s is None or not most else s / most for s in safes)
    sentence = f"{len(cells)} combination{'' if len(cells) == 1 else 's'} of settings, one run each."
    notes = tuple(str(answer) for answer in as_list(document.body.get("answers")))
    return _finding(document, "Parameters swept", sentence, header=header, rows=rows, bars=bars, notes=notes)


def _check(document: StoredDocument) -> FindingSection:
    body = document.body
    verdict = str(body.get("verdict") or "inconclusive")
    tone = _TONES.get(verdict, "warn")
    if "cells" in body:
        return _project(document, tone)
    difference = as_number(body, "difference")
    interval = format_interval(body.get("interval"))
    of_difference = body.get("method") == Method.TANGO  # else of the candidate's own share
    facts = (
        ("baseline", side_name(body.get("baseline"))),
        ("candidate", side_name(body.get("candidate"))),
        ("compared at", f"{format_count_field(body, 'at_tokens')} tokens"),
        ("failed by then, baseline", format_share(body, "p_baseline", 1)),
        (
            "failed by then, candidate",
            format_share(body, "p_candidate", 1) + ("" if of_difference else interval),
        ),
        (
            "difference",
            (NOT_MEASURED if difference is None else f"{100 * difference:+.1f} points")
            + (interval if of_difference else ""),
        ),
        ("tolerated increase", format_share(body, "max_increase", 1)),
    )
    notes = (*((str(body["lacking"]),) if body.get("lacking") else ()), *note_lines(body))
    return _finding(document, "Compared", f"Verdict: {verdict}.", facts=facts, notes=notes, tone=tone)


def _project(document: StoredDocument, tone: str) -> FindingSection:
    """The check of a project file: one row per cell, and notes on those that did not pass."""
    rows, notes = [], []
    for cell in as_mappings(document.body.get("cells")):
        subject = as_mapping(cell.get("subject"))
        words = (
            subject.get("model"),
            subject.get("task"),
            language_name(str(subject["language"])) if subject.get("language") else None,
            cell.get("decoding_name"),
        )
        name = " · ".join(str(word) for word in words if word)
        safe, before = (
            format_count_field(cell, "safe_max_tokens"),
            format_count_field(cell, "baseline_safe_max_tokens"),
        )
        rows.append((name, str(cell.get("outcome") or NOT_MEASURED), safe, before))
        notes += [f"{name}: {cell['trouble']}"] if cell.get("trouble") else []
        broken = (
            b for b in as_mappings(cell.get("budgets")) if b.get("outcome") in ("breach", "inconclusive")
        )
        notes += [f"{name}: {budget.get('name')}: {budget.get('sentence')}" for budget in broken]
    header = ("cell", "outcome", "safe max_tokens", "baseline")
    sentence = f"Verdict: {document.body.get('outcome') or NOT_MEASURED}."
    return _finding(
        document, "Project checked", sentence, header=header, rows=rows, notes=tuple(notes[:_ROWS]), tone=tone
    )


def _scan(document: StoredDocument) -> FindingSection:
    body = document.body
    rows = []
    for group in as_mappings(body.get("groups")):
        key = ", ".join(f"{k} {v}" for k, v in as_mapping(group.get("key")).items()) or "all"
        rows.append(
            (
                key,
                format_count_field(group, "requests"),
                format_count_field(group, "degenerate"),
                format_share(group, "rate", 1) + format_interval(group.get("rate_ci")),
                format_share(group, "dharma_rate", 1),
                format_count_field(as_mapping(group.get("threshold")), "tokens"),
            )
        )
    header = ("group", "answers", "degenerate", "rate", "looped to cap", "threshold")
    whole, damaged = format_count_field(body, "requests"), format_count_field(body, "damaged")
    sentence = f"{whole} recorded answers read, {damaged} damaged lines skipped."
    return _finding(document, "Recorded answers", sentence, header=header, rows=rows)


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
) -> FindingSection:
    left = len(rows) - _ROWS
    more = (f"{left} more rows are in the stored document {document.id}.",) if left > 0 else ()
    return FindingSection(
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


_DRAWN: Mapping[DocumentKind, Callable[[StoredDocument], FindingSection]] = {
    DocumentKind.COST: _cost,
    DocumentKind.SWEEP: _sweep,
    DocumentKind.CHECK: _check,
    DocumentKind.SCAN: _scan,
}
