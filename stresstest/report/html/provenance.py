"""Where a run's numbers come from, line by line."""

from __future__ import annotations

from stresstest.model import EndpointProfile, RunResult
from stresstest.report.console import when
from stresstest.report.sentences import decoding_words
from stresstest.report.text import count, duration


def provenance(result: RunResult) -> list[tuple[str, str]]:
    """(name, value): everything needed to measure the same again."""
    run, profile = result.run, result.run.profile
    settings = run.settings
    source = settings.prompts_file or settings.task_source
    total, certify = len(result.generations), len(result.certifying)
    return [
        ("run", f"{run.id} ({run.status})"),
        ("measured", f"{when(run.created)} UTC, {duration(result.seconds)} of work"),
        ("model", settings.subject.model),
        ("model root", profile.root or "not known"),
        ("endpoint", f"{profile.base_url}, vLLM {profile.version or 'version not known'}"),
        ("fingerprint", profile.fingerprint or "none given"),
        ("decoding", decoding_words(result)),
        ("system prompt", settings.decoding.system_prompt or "none sent"),
        ("prompts", f"{source}, digest {run.prompts_digest or 'not kept'}"),
        ("seeds", _seeds(result)),
        ("rigor, concurrency", f"{settings.rigor}, {settings.concurrency} requests in flight"),
        ("generations", f"{total:,} ({certify:,} certify), {result.short:,} short"),
        ("tokens spent", count(result.tokens_spent)),
        ("logprobs", _logprobs(profile)),
        ("stresstest", run.tool_version or "version not kept"),
    ]


def _seeds(result: RunResult) -> str:
    own = f"{result.run.settings.seed} for the run"
    seeds = [g.job.seed for g in result.generations]
    return f"{own}, {min(seeds)} to {max(seeds)} for requests" if seeds else own


def _logprobs(profile: EndpointProfile) -> str:
    if not profile.top_logprobs:
        return "none"
    return f"top {profile.top_logprobs}, {profile.logprobs_mode or 'mode not known'}"
