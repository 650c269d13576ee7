"""One run as an HTML page: verdict, curve, ladder, one generation in depth, planes, findings, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stresstest.diagnosis.depth import depth
from stresstest.diagnosis.gpu_series import GpuSeries
from stresstest.diagnosis.measured import measure
from stresstest.model import Generation, RunResult
from stresstest.report.console import when
from stresstest.report.diagnosis import arm_row, cost_line, details
from stresstest.report.dossier import Dossier
from stresstest.report.html.curves import survival_data
from stresstest.report.html.findings import findings
from stresstest.report.html.ladder import ladder_data
from stresstest.report.html.page import render
from stresstest.report.html.parts import SECOND, parts
from stresstest.report.html.planes import plane_rows
from stresstest.report.html.provenance import provenance
from stresstest.report.html.verdict import told
from stresstest.report.sentences import (
    NOT_SEEN,
    ending_counts,
    representative,
    reproduce_command,
)
from stresstest.report.text import SYMPTOM_WORDS

_IN_DEPTH = 8


def run_html(dossier: Dossier) -> str:
    """The whole page. Opens from disk, asks nothing of any network, runs nothing that a model wrote."""
    result = dossier.result
    chosen = in_depth(result)
    excerpt = parts(chosen[0]) if chosen and chosen[0].verdict.degenerate else []
    page = {
        "told": told(result, dossier.diagnosis),
        "result": result,
        "subject": result.run.settings.subject,
        "symbols": SYMPTOM_WORDS,
        "endings": ending_counts(result.generations),
        "excerpt": excerpt,
        "copies": any(kind == SECOND for kind, _ in excerpt),
        "shown_first": chosen[0] if chosen else None,
        "planes": plane_rows(result, measure(result)),
        "diagnosis": dossier.diagnosis,
        "links": _links(dossier),
        "diagnosis_cost": cost_line(dossier.diagnosis) if dossier.diagnosis is not None else "",
        "findings": findings(dossier.documents),
        "provenance": provenance(result),
        "not_seen": NOT_SEEN,
        "missing": result.run.profile.missing,
        "reproduce": reproduce_command(result),
        "scale": _scale(result),
        "when": when,
    }
    data = _data(dossier, chosen)
    survival = data["survival"]
    page["bound"] = survival is not None and any(sure is not None for sure in survival["sure"])
    return render("run.html", data, **page)


def in_depth(result: RunResult) -> list[Generation]:
    """Those worth a look at every token: the median failure first, each symptom's, a healthy one."""
    pool = result.certifying or result.generations
    everyone = result.generations
    found = [representative(pool), representative(everyone)]
    found += [
        representative(tuple(g for g in everyone if g.verdict.symptom is kind)) for kind in SYMPTOM_WORDS
    ]
    healthy = [g for g in everyone if not g.verdict.degenerate and g.failure is None and g.tokens]
    found.append(max(healthy, key=lambda g: (g.verdict.tokens, g.key), default=None))
    kept = {g.key: g for g in found if g is not None and g.tokens}
    return list(kept.values())[:_IN_DEPTH]


def _data(dossier: Dossier, chosen: Sequence[Generation]) -> dict[str, Any]:
    result = dossier.result
    gpus = GpuSeries.of(dossier.gpu_samples)
    language = result.run.settings.subject.language
    return {
        "survival": survival_data(result),
        "ladder": ladder_data(result, {g.key: place for place, g in enumerate(chosen)}),
        "depths": [
            {
                "key": g.key,
                "onset": g.verdict.onset,
                "zones": [[str(z.kind), z.start, z.end] for z in g.verdict.zones],
                **asdict(depth(g, result.samples, gpus, language)),
            }
            for g in chosen
        ],
    }


def _links(dossier: Dossier) -> list[dict[str, Any]]:
    if dossier.diagnosis is None:
        return []
    return [
        {"link": link, "arms": [arm_row(arm) for arm in link.arms], "details": details(link)}
        for link in dossier.diagnosis.chain
    ]


def _scale(result: RunResult) -> dict[str, float] | None:
    """Places on the whole context window, 0-1000: the certified limit against what the server would allow."""
    window, safe, reach = result.run.profile.max_model_len, result.safe_max_tokens, result.threshold.tokens
    if not window or safe is None or reach is None:
        return None
    longest = max((g.verdict.tokens for g in result.generations), default=0)
    return {
        "safe": 1000 * min(1.0, safe / window),
        "threshold": 1000 * min(1.0, reach / window),
        "seen": 1000 * min(1.0, longest / window),
        "share": safe / window,
    }
