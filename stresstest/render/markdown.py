"""The Markdown report of a run, for example for a design review."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from stresstest.model import Diagnosis, Evidence, GpuSummary, RunResult
from stresstest.model.percent import percent, percent_at_most
from stresstest.render.sentences import (
    BLIND_SPOTS,
    answer_counts,
    decoding_words,
    ending_counts,
    headline,
    reproduce_command,
    sample_words,
    symptom_rows,
    thinking_words,
    unfinished_notes,
    unit_words,
    what_to_do,
)
from stresstest.render.text import (
    NOT_MEASURED,
    answer_name,
    capital,
    duration,
    excerpt,
    format_count,
    onset_place,
    sanitize,
    subject_name,
)

SIMULATED_NOTE = "> **Simulated.** These numbers come from the simulator; they do not measure a real model."

_SIMULATED_SERVER = (
    "A simulated server's latencies are in seconds of its own clock, which runs faster than the real one. It "
    "writes ahead of what is read, so that it counts more tokens, and more answers that end by themselves, "
    "than arrive."
)


def run_markdown(result: RunResult, *, found: Diagnosis | None = None, diagnosis: str = "") -> str:
    """The complete report of one run. Model output is escaped, so that it cannot become markup.

    found: its diagnosis, if it has one. diagnosis: the Markdown of its section, or empty.
    """
    sections: list[str] = [f"# {escape_inline(subject_name(result.run.settings.subject))}"]
    if result.run.profile.simulated:
        sections.append(SIMULATED_NOTE)
    sections += [f"> **Not complete.** {escape_inline(note)}" for note in unfinished_notes(result, found)]
    sections.append(f"**{escape_inline(headline(result))}**")
    if result.thinking is not None:
        said = thinking_words(result.thinking, result.run.settings.margin)
        sections.append(f"**{escape_inline(said)}**")
    sections.append(escape_inline(result.verdict.sentence))
    sections.append(bullet_list(what_to_do(result)))
    sections += ["## The number", _number_table(result)]
    sections.append(diagnosis)
    sections += ["## What was seen", _symptom_section(result)]
    sections += ["## Evidence", _evidence_section(result.verdict.evidence)]
    sections += ["## The server during the run", _server_section(result), _gpu_section(result.gpus)]
    text = _excerpt_section(result)
    if text:
        sections += ["## The text around an onset", text]
    sections += ["## Provenance", _provenance(result)]
    return "\n\n".join(s for s in sections if s) + "\n"


def _number_table(result: RunResult) -> str:
    threshold = result.threshold
    certified = format_count(threshold.tokens)
    if threshold.censored_at:
        certified = f"≥ {certified} (no onset seen up to there)"
    rows = [
        (
            "safe max_tokens",
            f"{format_count(result.safe_max_tokens)} (margin {percent(result.run.settings.margin)})",
        ),
        ("certified threshold T", certified),
        ("tolerated risk α / confidence", f"{percent(threshold.alpha)} / {percent(threshold.confidence)}"),
        ("at risk for T / degenerate by T", f"{threshold.n} / {threshold.onsets}"),
        ("upper bound of the risk at T", percent(threshold.upper, 1)),
        ("rigor", sample_words(result)),
        ("distinct prompts", str(result.distinct_prompts)),
        ("declared looks", str(threshold.looks)),
        ("context window", format_count(result.run.profile.max_model_len)),
    ]
    if threshold.withheld:
        rows.append(("no cap is recommended", escape_inline(threshold.withheld)))
    if threshold.lacking:
        rows.append(("lacking", escape_inline(threshold.lacking)))
    return markdown_table(("", ""), rows)


def _symptom_section(result: RunResult) -> str:
    seen = f"{answer_counts(result)}: {ending_counts(result.generations)}; {unit_words(result)}."
    rows = symptom_rows(result.generations)
    if not rows:
        return f"{escape_inline(seen)} No onset was seen."
    table = markdown_table(
        ("symptom", "answers", "median onset", "earliest", "latest"),
        [(s, str(n), format_count(m), format_count(lo), format_count(hi)) for s, n, m, lo, hi in rows],
    )
    return f"{escape_inline(seen)}\n\n{table}"


def _evidence_section(evidence: Sequence[Evidence]) -> str:
    if not evidence:
        return "No failure was seen, so there is nothing to attribute."
    rows = [(str(e.plane), e.stance, escape_inline(e.source), escape_inline(e.fact)) for e in evidence]
    return markdown_table(("plane", "", "source", "fact"), rows)


def _server_section(result: RunResult) -> str:
    server = result.server
    if server is None:
        return "Not measured: the server has no /metrics."
    finished = ", ".join(f"{reason} {format_count(n)}" for reason, n in server.finished.items() if n)
    rows = [
        ("readings", f"{server.samples} over {duration(server.seconds)}"),
        ("KV cache, at most", NOT_MEASURED if server.kv_peak is None else percent_at_most(server.kv_peak)),
        (
            "running / waiting, peak",
            f"{format_count(server.running_peak)} / {format_count(server.waiting_peak)}",
        ),
        ("preemptions", format_count(server.preemptions)),
        ("tokens generated (all clients)", format_count(server.generated_tokens)),
        ("requests finished, by reason", escape_inline(finished) or NOT_MEASURED),
    ]
    for name, seconds in server.means.items():
        words = name.removesuffix("_seconds").replace("_", " ")
        rows.append((f"{words}, mean", f"{1000 * seconds:,.1f} ms"))
    table = markdown_table(("", ""), rows)
    return f"{_SIMULATED_SERVER}\n\n{table}" if result.run.profile.simulated else table


def _gpu_section(gpus: Sequence[GpuSummary]) -> str:
    if not gpus:
        return "The GPUs' state was not measured."
    header = ("GPU", "utilisation", "memory, peak", "power", "temperature", "slowed", "errors")
    rows = [
        (
            escape_inline(
                f"{g.gpu} {g.name or ''} ({g.source}, {g.samples} readings over {duration(g.seconds)})"
            ),
            percent(g.utilisation),
            percent(g.memory_peak),
            _of(g.power, g.power_limit, "W"),
            _range(g.temperature_min, g.temperature_max, "°C"),
            _slowed(g),
            escape_inline(_errors(g)),
        )
        for g in gpus
    ]
    gaps = []
    for g in gpus:
        reasons: dict[str, list[str]] = {}
        for what, why in g.missing.items():
            reasons.setdefault(why, []).append(what.replace("_", " "))
        gaps += [f"GPU {g.gpu}, not measured: {', '.join(what)} ({why})" for why, what in reasons.items()]
    return "\n\n".join(part for part in (markdown_table(header, rows), bullet_list(gaps)) if part)


def _of(value: float | None, limit: float | None, unit: str) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:.0f} {unit}" if limit is None else f"{value:.0f} of {limit:.0f} {unit}"


def _range(low: float | None, high: float | None, unit: str) -> str:
    if low is None or high is None:
        return NOT_MEASURED
    return f"{low:.0f} {unit}" if round(low) == round(high) else f"{low:.0f} to {high:.0f} {unit}"


def _slowed(gpu: GpuSummary) -> str:
    if gpu.throttled is None:
        return NOT_MEASURED
    return escape_inline("; ".join(f"{why} {s:.1f} s" for why, s in gpu.throttled.items())) or "never"


def _errors(gpu: GpuSummary) -> str:
    parts = [] if gpu.lost is None else [f"lost: {gpu.lost}"]
    if gpu.xids is not None:
        parts.append(f"XIDs {', '.join(map(str, gpu.xids))}" if gpu.xids else "no XID")
    if gpu.ecc_uncorrected is not None:
        parts.append(f"{gpu.ecc_uncorrected} uncorrected")
    return "; ".join(parts) or NOT_MEASURED


def _excerpt_section(result: RunResult) -> str:
    generation = result.representative
    if generation is None:
        return ""
    before, after = excerpt(generation)
    name, onset = capital(answer_name(generation.job)), onset_place(generation.verdict)
    where = f"{name}, onset at token {onset} (marked ▶)"
    return f"{where}:\n\n<pre>{html.escape(before)}<b>▶{html.escape(after)}</b></pre>"


def _provenance(result: RunResult) -> str:
    run, profile = result.run, result.run.profile
    rows = [
        ("run", f"`{run.id}` ({run.status})"),
        (
            "endpoint",
            f"{escape_inline(profile.base_url)}, {escape_inline(profile.version or 'version not known')}",
        ),
        ("model root", escape_inline(profile.root or "not known")),
        ("decoding", escape_inline(decoding_words(result))),
        ("concurrency", str(run.settings.concurrency)),
        ("tokens spent / time", f"{format_count(result.tokens_spent)} / {duration(result.seconds)}"),
        ("stresstest", run.tool_version),
    ]
    rows += [("not available", escape_inline(f"{m.what}: {m.cost}")) for m in profile.missing]
    rows += [("note", escape_inline(note)) for note in (*result.notes, BLIND_SPOTS)]
    return f"{markdown_table(('', ''), rows)}\n\n{_fenced(sanitize(reproduce_command(result)))}"


def _fenced(text: str) -> str:
    """A code block with a fence longer than any in its content."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def bullet_list(lines: Iterable[str]) -> str:
    """A bullet list; the lines are escaped."""
    return "\n".join(f"- {escape_inline(line)}" for line in lines)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the caller escapes the cells."""
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def escape_inline(text: str) -> str:
    """The text on one line, escaped so that it cannot start markup or leave its table cell."""
    flat = " ".join(sanitize(text).split())
    flat = html.escape(flat, quote=False)
    for character in "\\`*_[]|#~":
        flat = flat.replace(character, f"\\{character}")
    return flat
