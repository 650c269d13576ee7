"""The pages that the browser's tests look at, and the folder where they are kept."""

from __future__ import annotations

from dataclasses import replace

from stresstest.model import RunStatus
from stresstest.render.html import compared_html, index_html, run_html
from stresstest.render.report_data import ReportData
from stresstest.store import StoredThreshold
from tests.support.generations import whole
from tests.support.paths import ROOT
from tests.support.reported_runs import campaign, dossier, healthy, looping, lost, result

BUILD = ROOT / "build" / "browser"
"""Pages and pictures are kept here for people to look at."""


def texts() -> dict[str, str]:
    full = dossier()
    good = result(tuple(healthy(i, 400) for i in range(30)), run_id="20261122-080000-good", simulated=True)
    bare = result(run_id="20261123-080000-bare")
    silent = tuple(
        replace(g, tokens=tuple(replace(t, entropy=None) for t in g.tokens))
        for g in map(whole, bare.generations)
    )
    unknown = replace(bare.run.profile, max_model_len=None, top_logprobs=0)
    bare = replace(bare, generations=silent, server=None, samples=(), run=replace(bare.run, profile=unknown))
    stopped = result((*campaign(6), lost(40, 120)), status=RunStatus.INTERRUPTED)
    one = looping(0, 6_500, 8_000, period=400)
    many = tuple(replace(looping(i, 300 + 3 * i, 480 + 4 * i), prompt_id=f"p{i}") for i in range(299))
    large = replace(result(), generations=(*many, one))
    return {
        "run": run_html(full),
        "healthy": run_html(ReportData(good, whole)),
        "bare": run_html(ReportData(bare, whole)),
        "interrupted": run_html(ReportData(stopped, whole)),
        "empty": run_html(ReportData(result((), status=RunStatus.RUNNING), whole)),
        "large": run_html(ReportData(large, whole)),
        "compared": compared_html([full, ReportData(good, whole), ReportData(bare, whole)]),
        "index": index_html(thresholds(), "stresstest.sqlite3"),
    }


def thresholds(model: str = "Qwen/Qwen2.5-7B-Instruct-AWQ") -> list[StoredThreshold]:
    """Forty days of one task, a model swap among them, and another language."""
    other = "mistral/24B"
    measured = [
        (model, "it", 473),
        (model, "it", 512),
        (other, "it", 2_400),
        (other, "it", None),
        (model, "fr", 610),
    ]
    return [_stored(number, *what) for number, what in enumerate(measured)]


def _stored(number: int, model: str, language: str, tokens: int | None) -> StoredThreshold:
    base = result()
    settings = base.run.settings
    return StoredThreshold(
        run_id=f"run-{number}",
        subject=replace(settings.subject, model=model, language=language),
        decoding=settings.decoding,
        rigor="quick",
        margin=0.1,
        threshold=replace(base.threshold, tokens=tokens, certified=tokens is not None),
        safe_max_tokens=None if tokens is None else int(tokens * 0.9),
        verdict=base.verdict,
        created=base.run.created + 864_000 * number,
        saved=base.run.created,
        tool_version="0.1.0",
        server_version="0.32.0",
        base_url=settings.base_url,
        concurrency=settings.concurrency,
        simulated=number == 2,
        distinct_prompts=38,
        latest=number in (1, 3, 4),
    )
