"""The HTML page of one run: verdict, curve, ladder, generations in depth, planes, findings, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stresstest.clock import format_time
from stresstest.detectors.registry import entries
from stresstest.diagnosis.depth import depth_series
from stresstest.diagnosis.evidence.gpu_series import GpuSeries
from stresstest.diagnosis.measured import measure_planes
from stresstest.diagnosis.representative import representative_failure
from stresstest.model import GenerationRecord, RunResult
from stresstest.render.diagnosis import ARM_COLUMNS, arm_row, cost_line, link_details
from stresstest.render.html.curves import survival_data
from stresstest.render.html.findings import finding_sections
from stresstest.render.html.ladder import ladder_data
from stresstest.render.html.page import render
from stresstest.render.html.parts import SECOND, excerpt_parts
from stresstest.render.html.planes import plane_rows
from stresstest.render.html.verdict import describe_verdict
from stresstest.render.report_data import ReportData
from stresstest.render.sentences import (
    BLIND_SPOTS,
    FORK_GLOSS,
    answer_counts,
    decoding_words,
    ending_counts,
    glosses,
    reproduce_command,
    unit_words,
)
from stresstest.render.text import answer_name, duration, format_count, language_name, load_words

_IN_DEPTH = 8


def run_html(dossier: ReportData) -> str:
    """The complete page. It needs no network and cannot execute model output."""
    result = dossier.result
    chosen = generations_in_depth(result)
    excerpt = excerpt_parts(dossier.load(chosen[0])) if chosen and chosen[0].verdict.degenerate else []
    told = describe_verdict(result, dossier.diagnosis)
    page = {
        "told": told,
        "result": result,
        "subject": result.run.settings.subject,
        "language": language_name(result.run.settings.subject.language),
        "symptoms": [entry.symptom for entry in entries()],
        "endings": ending_counts(result.generations),
        "excerpt": excerpt,
        "copies": any(kind == SECOND for kind, _ in excerpt),
        "shown_first": chosen[0] if chosen else None,
        "planes": plane_rows(result, measure_planes(result, dossier.load)),
        "diagnosis": dossier.diagnosis,
        "links": _links(dossier),
        "arm_names": ARM_COLUMNS,
        "diagnosis_cost": cost_line(dossier.diagnosis) if dossier.diagnosis is not None else "",
        "findings": finding_sections(dossier.documents),
        "provenance": provenance(result),
        "gloss": glosses(told.sentence, *told.causes, *told.actions, *result.notes),
        "fork_gloss": FORK_GLOSS,
        "not_seen": BLIND_SPOTS,
        "missing": result.run.profile.missing,
        "reproduce": reproduce_command(result),
        "scale": _scale(result),
        "when": format_time,
    }
    data = _data(dossier, chosen)
    survival = data["survival"]
    page["bound"] = survival is not None and any(sure is not None for sure in survival["sure"])
    return render("run.html", data, **page)


def generations_in_depth(result: RunResult) -> list[GenerationRecord]:
    """The generations shown in depth: the median failure, one of each symptom, and a healthy one."""
    pool = result.certifying or result.generations
    everyone = result.generations
    found = [representative_failure(pool), representative_failure(everyone)]
    found += [
        representative_failure(tuple(g for g in everyone if g.verdict.symptom is kind))
        for kind in (entry.kind for entry in entries())
    ]
    healthy = [
        g for g in everyone if not g.verdict.degenerate and g.failure is None and g.token_summary.count
    ]
    found.append(max(healthy, key=lambda g: (g.verdict.tokens, g.key), default=None))
    kept = {g.key: g for g in found if g is not None and g.token_summary.count}
    return list(kept.values())[:_IN_DEPTH]


def _data(dossier: ReportData, chosen: Sequence[GenerationRecord]) -> dict[str, Any]:
    result = dossier.result
    gpus = GpuSeries.of(dossier.gpu_samples)
    language = result.run.settings.subject.language
    return {
        "survival": survival_data(result),
        "ladder": ladder_data(result, {g.key: place for place, g in enumerate(chosen)}, dossier.load),
        "depths": [
            {
                "key": g.key,
                "name": answer_name(g.job),
                "onset": g.verdict.onset,
                "zones": [[str(z.kind), z.start, z.end] for z in g.verdict.zones],
                **asdict(depth_series(dossier.load(g), result.samples, gpus, language)),
            }
            for g in chosen
        ],
    }


def _links(dossier: ReportData) -> list[dict[str, Any]]:
    if dossier.diagnosis is None:
        return []
    return [
        {
            "link": link,
            "sentence": sentence,
            "arms": [arm_row(arm) for arm in link.arms],
            "details": link_details(link),
        }
        for link, sentence in zip(dossier.diagnosis.chain, dossier.diagnosis.sentences, strict=True)
    ]


def _scale(result: RunResult) -> dict[str, float] | None:
    """Positions of the limits on the context window, scaled to 0-1000; None if either is unknown."""
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


def provenance(result: RunResult) -> list[tuple[str, str]]:
    """(name, value) of everything needed to repeat the measurement."""
    run, profile = result.run, result.run.profile
    settings = run.settings
    source = settings.prompts_file or settings.task_source
    top = profile.top_logprobs
    return [
        ("run", f"{run.id} ({run.status})"),
        ("measured", f"{format_time(run.created)} UTC, {duration(result.seconds)} of work"),
        ("model", settings.subject.model),
        ("model root", profile.root or "not known"),
        ("endpoint", f"{profile.base_url}, vLLM {profile.version or 'version not known'}"),
        ("fingerprint", profile.fingerprint or "none given"),
        ("decoding", decoding_words(result)),
        ("system prompt", settings.decoding.system_prompt or "none sent"),
        ("prompts", f"{source}, digest {run.prompts_digest or 'not kept'}"),
        ("seeds", _seeds(result)),
        ("rigor, concurrency", f"{settings.rigor}, {load_words(settings.in_flight)}"),
        ("sample", f"{answer_counts(result)}, {unit_words(result)}"),
        ("tokens spent", format_count(result.tokens_spent)),
        ("logprobs", f"top {top}, {profile.logprobs_mode or 'mode not known'}" if top else "none"),
        ("stresstest", run.tool_version or "version not stored"),
    ]


def _seeds(result: RunResult) -> str:
    own = f"{result.run.settings.seed} for the run"
    if not result.run.settings.send_seed:
        return f"{own}, none sent with requests"
    seeds = [g.job.seed for g in result.generations]
    return f"{own}, {min(seeds)} to {max(seeds)} for requests" if seeds else own
