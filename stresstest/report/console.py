"""What a person reads on stdout when a run has ended, and the tables of runs and recommendations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.model import RunResult
from stresstest.report.sentences import (
    NOT_SEEN,
    decoding_words,
    ending_counts,
    headline,
    representative,
    symptom_rows,
)
from stresstest.report.text import NOT_MEASURED, clean, count, duration, excerpt, percent
from stresstest.store import RunSummary, StoredThreshold

if TYPE_CHECKING:
    from rich.console import Console


def print_run(console: Console, result: RunResult, *, program: str | None = "stresstest") -> None:
    """The verdict: number, symptoms, plane with evidence, the text around an onset, what to do.

    program: how a command on the same store begins; None where nothing is stored.
    """
    from rich.panel import Panel
    from rich.text import Text

    if result.run.profile.simulated:
        console.print(Text("SIMULATED: these numbers are no measurement of a model", style="bold yellow"))
    certified = result.threshold.certified
    body = Text(clean(headline(result)), style="bold")
    console.print(Panel(body, border_style="green" if certified else "yellow", title=_title(result)))
    _print_symptoms(console, result)
    _print_plane(console, result)
    _print_excerpt(console, result)
    for note in result.notes:
        console.print(Text(f"note: {clean(note)}", style="yellow"))
    console.print(Text(NOT_SEEN, style="dim"))
    console.print(Text(f"{count(result.tokens_spent)} tokens in {duration(result.seconds)}", style="dim"))
    if program is not None:
        # On a line of its own and never wrapped: it is there to be copied.
        line = Text(f"{program} report {result.run.id} -o report.md", style="dim")
        console.print(line, soft_wrap=True)


def _title(result: RunResult) -> str:
    return "certified" if result.threshold.certified else "inconclusive"


def _print_symptoms(console: Console, result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(
        Text(
            clean(
                f"{len(result.generations)} generations ({len(result.certifying)} certify, "
                f"{result.distinct_prompts} distinct prompts): {ending_counts(result.generations)}; "
                f"{result.short} short of the units asked for. Decoding: {decoding_words(result)}."
            )
        )
    )
    rows = symptom_rows(result.generations)
    if not rows:
        return
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for name in ("symptom", "generations", "median onset", "earliest", "latest"):
        table.add_column(name, justify="left" if name == "symptom" else "right")
    for symptom, n, middle, low, high in rows:
        table.add_row(symptom, str(n), count(middle), count(low), count(high))
    console.print(table)


def _print_plane(console: Console, result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(clean(result.verdict.sentence)))
    lines = Table.grid(padding=(0, 1))
    for evidence in result.verdict.evidence:
        text = clean(f"{evidence.plane}: {evidence.fact} [{evidence.source}]")
        sign = "+" if evidence.supports else "−"
        lines.add_row(f" {sign}", Text(text, style="" if evidence.supports else "dim"))
    for advice in result.verdict.advice:
        lines.add_row(" →", Text(clean(advice), style="cyan"))
    console.print(lines)


def _print_excerpt(console: Console, result: RunResult) -> None:
    from rich.text import Text

    generation = representative(result.certifying) or representative(result.generations)
    if generation is None:
        return
    before, after = excerpt(generation, before=40, after=60)
    text = Text(
        f"around the onset of {generation.key} (token {count(generation.verdict.onset)}): … ", style="dim"
    )
    text.append(" ".join(before.split()), style="")
    text.append(" ▶ ", style="bold red")
    text.append(" ".join(after.split()), style="red")
    text.append(" …", style="dim")
    console.print(text)


def when(clock_seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(clock_seconds))


def print_runs(console: Console, runs: Sequence[RunSummary]) -> None:
    """``runs list``."""
    from rich.table import Table
    from rich.text import Text

    if not runs:
        console.print("No runs are stored yet. Start one with: stresstest run --model M --lang it")
        return
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("run (UTC)", no_wrap=True)
    table.add_column("subject", overflow="fold")
    table.add_column("status", no_wrap=True)
    for name in ("n", "onsets", "safe"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        numbers = (str(run.generations), str(run.degenerate), count(run.safe_max_tokens))
        table.add_row(run.id, Text(f"{_subject(run)}, {run.rigor}"), str(run.status), *numbers)
    console.print(table)


def print_recommendations(console: Console, rows: Sequence[StoredThreshold]) -> None:
    """``recommend``: subject, limit, and what the number stands on."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("subject", overflow="fold")
    for name in ("safe max_tokens", "T", "risk", "n", "onsets"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        threshold = row.threshold
        reach = f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)
        risk = f"≤ {percent(threshold.alpha)} at {percent(threshold.confidence)}"
        safe = Text(count(row.safe_max_tokens), style="bold")
        table.add_row(Text(_subject(row)), safe, reach, risk, str(threshold.n), str(threshold.onsets))
    console.print(table)
    for row in rows:
        console.print(Text(f"{_subject(row)}: {provenance(row)}", style="dim"))
        if row.certified_before:
            earlier = f"  run {row.certified_before} was certified before; this newer one does not support it"
            console.print(Text(earlier, style="yellow"))
        if row.threshold.lacking:
            console.print(Text(f"  {clean(row.threshold.lacking)}", style="yellow"))


def _subject(row: RunSummary | StoredThreshold) -> str:
    return clean(str(row.subject)) + (" (simulated)" if row.simulated else "")


def provenance(row: StoredThreshold) -> str:
    """Where a stored number comes from, on one line."""
    sent = ", ".join(f"{k} {v}" for k, v in row.decoding.sent().items()) or "the server's default decoding"
    system = ", with a system prompt" if row.decoding.system_prompt is not None else ""
    verdict = row.verdict
    facts = (
        f"measured {when(row.created)} UTC",
        f"run {row.run_id}",
        f"rigor {row.rigor}",
        sent + system,
        f"{count(row.distinct_prompts)} distinct prompts",
        f"margin {percent(row.margin)}",
        f"{verdict.plane} plane ({verdict.basis})" if verdict.plane else "nothing failed",
        f"vLLM {row.server_version or NOT_MEASURED}",
        row.base_url,
    )
    return clean(", ".join(facts))
