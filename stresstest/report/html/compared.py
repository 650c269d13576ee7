"""Several runs on one HTML page: numbers side by side, curves in one chart, onsets on one axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stresstest.model import RunResult
from stresstest.report.console import when
from stresstest.report.dossier import Dossier
from stresstest.report.html.curves import held
from stresstest.report.html.findings import Finding, findings
from stresstest.report.html.page import render
from stresstest.report.html.verdict import Told, told
from stresstest.report.sentences import decoding_words
from stresstest.report.text import SYMPTOM_WORDS, count, percent

_ONSETS = 400


@dataclass(frozen=True, slots=True)
class Column:
    """One run. letter: how the page calls it."""

    letter: str
    result: RunResult
    told: Told


def compared_html(dossiers: Sequence[Dossier]) -> str:
    """The page of two runs or more; the first one is what the others are held against."""
    columns = [Column(_letter(i), d.result, told(d.result, d.diagnosis)) for i, d in enumerate(dossiers)]
    documents = {document.id: document for d in dossiers for document in d.documents}
    return render(
        "compared.html",
        _data(columns),
        columns=columns,
        rows=_rows(columns),
        same=_same(columns),
        simulated=any(c.result.run.profile.simulated for c in columns),
        findings=_shared(findings(documents.values())),
        when=when,
    )


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"


def _shared(found: Sequence[Finding]) -> list[Finding]:
    """Comparisons first: they are what two runs on one page are looked at for."""
    return sorted(found, key=lambda f: f.kind != "check")


def _same(columns: Sequence[Column]) -> bool:
    """Whether all runs are of one task and language, so that their numbers can be held against each other."""
    return (
        len({(c.result.run.settings.subject.task, c.result.run.settings.subject.language) for c in columns})
        == 1
    )


def _rows(columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """(name, one value a run)."""

    def of(result: RunResult) -> dict[str, str]:
        threshold, settings = result.threshold, result.run.settings
        failing = [g for g in result.certifying if g.verdict.degenerate]
        kinds = Counter(SYMPTOM_WORDS[g.verdict.symptom] for g in failing if g.verdict.symptom is not None)
        reach = ("≥ " if threshold.censored_at else "") + count(threshold.tokens)
        return {
            "model": settings.subject.model,
            "task, language": f"{settings.subject.task}, {settings.subject.language or 'not given'}",
            "certified threshold": reach,
            "risk at confidence": f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}",
            "at risk, failed by T": f"{threshold.n}, {threshold.onsets}",
            "failed in the sample": f"{len(failing)} of {len(result.certifying)}",
            "symptoms": ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "none",
            "plane": f"{result.verdict.plane} ({result.verdict.basis})" if result.verdict.plane else "–",
            "decoding": decoding_words(result),
            "KV cache at most": percent(result.server.kv_peak) if result.server else "–",
            "server": f"vLLM {result.run.profile.version or 'version not known'}",
            "measured": f"{when(result.run.created)} UTC",
            "run": f"{result.run.id} ({result.run.status})",
        }

    each = [of(column.result) for column in columns]
    return [(name, [values[name] for values in each]) for name in each[0]] if each else []


def _data(columns: Sequence[Column]) -> dict[str, Any]:
    axis = sorted({p[0] for c in columns for p in c.result.survival})
    curves = [
        {
            "letter": c.letter,
            "model": c.result.run.settings.subject.model,
            "coherent": held([(p[0], p[1]) for p in c.result.survival], axis),
            "safe": c.result.safe_max_tokens,
            "onsets": sorted(g.verdict.onset for g in c.result.generations if g.verdict.onset is not None)[
                :_ONSETS
            ],
            "longest": max((g.verdict.tokens for g in c.result.generations), default=0),
        }
        for c in columns
    ]
    return {"compared": {"x": axis, "runs": curves} if len(axis) > 1 else None}
