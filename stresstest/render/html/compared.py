"""The HTML page that compares several runs: a table, their curves in one chart, their onsets on one axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stresstest.clock import format_time
from stresstest.detectors.registry import symptom_info
from stresstest.model import RunResult
from stresstest.model.percent import percent, percent_at_most
from stresstest.render.html.curves import step_values
from stresstest.render.html.findings import finding_sections
from stresstest.render.html.page import render
from stresstest.render.html.verdict import VerdictText, describe_verdict
from stresstest.render.report_data import ReportData
from stresstest.render.sentences import decoding_words
from stresstest.render.text import cause_words, format_threshold, language_name

_ONSETS = 400


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One run of the comparison. letter: its label on the page."""

    letter: str
    result: RunResult
    told: VerdictText


def compared_html(dossiers: Sequence[ReportData]) -> str:
    """The page for two or more runs; the first is the baseline."""
    columns = [
        RunColumn(_letter(i), d.result, describe_verdict(d.result, d.diagnosis))
        for i, d in enumerate(dossiers)
    ]
    documents = {document.id: document for d in dossiers for document in d.documents}
    return render(
        "compared.html",
        _data(columns),
        columns=columns,
        rows=_rows(columns),
        same=len({(s.task, s.language) for s in (c.result.run.settings.subject for c in columns)}) == 1,
        simulated=any(c.result.run.profile.simulated for c in columns),
        findings=sorted(finding_sections(documents.values()), key=lambda f: f.kind != "check"),
        when=format_time,
    )


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"


def _rows(columns: Sequence[RunColumn]) -> list[tuple[str, list[str]]]:
    """The rows of the table: (name, one value per run)."""

    def of(result: RunResult) -> dict[str, str]:
        threshold, settings = result.threshold, result.run.settings
        failing = [g for g in result.certifying if g.verdict.degenerate]
        kv = result.server.kv_peak if result.server else None
        kinds = Counter(symptom_info(s).label for g in failing if (s := g.verdict.symptom) is not None)
        return {
            "model": settings.subject.model,
            "task, language": f"{settings.subject.task}, {language_name(settings.subject.language)}",
            "certified threshold": format_threshold(threshold),
            "risk at confidence": f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}",
            "at risk, degenerate by T": f"{threshold.n}, {threshold.onsets}",
            "failed in the sample": f"{len(failing)} of {len(result.certifying)}",
            "symptoms": ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "none",
            "cause": cause_words(result.verdict),
            "decoding": decoding_words(result),
            "KV cache at most": "–" if kv is None else percent_at_most(kv),
            "server": f"vLLM {result.run.profile.version or 'version not known'}",
            "measured": f"{format_time(result.run.created)} UTC",
            "run": f"{result.run.id} ({result.run.status})",
        }

    each = [of(column.result) for column in columns]
    return [(name, [values[name] for values in each]) for name in each[0]] if each else []


def _data(columns: Sequence[RunColumn]) -> dict[str, Any]:
    axis = sorted({p[0] for c in columns for p in c.result.survival})
    curves = [
        {
            "letter": c.letter,
            "model": c.result.run.settings.subject.model,
            "coherent": step_values([(p[0], p[1]) for p in c.result.survival], axis),
            "safe": c.result.safe_max_tokens,
            "onsets": sorted(g.verdict.onset for g in c.result.generations if g.verdict.onset is not None)[
                :_ONSETS
            ],
            "longest": max((g.verdict.tokens for g in c.result.generations), default=0),
        }
        for c in columns
    ]
    return {"compared": {"x": axis, "runs": curves} if len(axis) > 1 else None}
