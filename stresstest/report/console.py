"""What a person reads on stdout when a run has ended, and where a stored number comes from."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stresstest.model import RunResult
from stresstest.report.curve import survival_lines
from stresstest.report.glyphs import Glyphs, glyphs_for
from stresstest.report.sentences import (
    NOT_SEEN,
    decoding_words,
    ending_counts,
    headline,
    representative,
    sample_words,
    symptom_rows,
)
from stresstest.report.text import (
    NOT_MEASURED,
    SIMULATED_WARNING,
    clean,
    count,
    duration,
    excerpt,
    flat,
    percent,
)
from stresstest.store import StoredThreshold

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SHOWN = 400
"""Characters on either side of an onset."""
_WIDEST = 110
"""Columns: longer lines are hard to read, however wide the terminal is."""


def _say(console: Console, what: RenderableType) -> None:
    console.print(what, width=min(console.width, _WIDEST))


def print_run(console: Console, result: RunResult, *, program: str | None = "stresstest") -> None:
    """The answer first: number, plane, what to do. Then what it stands on: curve, text, symptoms, evidence.

    program: how a command on the same store begins; None where nothing is stored.
    """
    from rich.text import Text

    if result.run.profile.simulated:
        _say(console, Text(SIMULATED_WARNING, style="bold yellow"))
    glyphs = glyphs_for(console)
    _print_answer(console, result)
    _print_curve(console, result, glyphs)
    _print_excerpt(console, result, glyphs)
    _print_symptoms(console, result)
    _print_evidence(console, result)
    for note in result.notes:
        _say(console, Text(f"note: {clean(note)}", style="yellow"))
    _say(console, Text(NOT_SEEN, style="dim"))
    _say(console, Text(f"{count(result.tokens_spent)} tokens in {duration(result.seconds)}", style="dim"))
    if program is not None:
        # On a line of its own and never wrapped: it is there to be copied.
        line = Text(flat(f"{program} report {result.run.id} -o report.html"), style="dim")
        console.print(line, soft_wrap=True)


def _print_answer(console: Console, result: RunResult) -> None:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    certified = result.threshold.certified
    number, colon, grounds = clean(headline(result)).partition(": ")
    answer = Text.assemble((number, "bold green" if certified else "bold yellow"), f"{colon}{grounds}")
    plane = Text(clean(result.verdict.sentence))
    advice = [Text(f"→ {clean(line)}", style="cyan") for line in result.verdict.advice]
    title = "certified" if certified else "inconclusive"
    style = "green" if certified else "yellow"
    _say(console, Panel(Group(answer, plane, *advice), border_style=style, title=title))


def _print_curve(console: Console, result: RunResult, glyphs: Glyphs) -> None:
    from rich.text import Text

    lines = survival_lines(result, console.width, glyphs)
    if not lines:
        return
    _say(console, Text("\nstill coherent, of the answers that run so long (Kaplan–Meier)", style="bold"))
    for line in lines:
        _say(console, Text(line, no_wrap=True, overflow="crop"))


def _print_symptoms(console: Console, result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = symptom_rows(result.generations)
    if rows:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name in ("symptom", "generations", "median onset", "earliest", "latest"):
            table.add_column(name, justify="left" if name == "symptom" else "right")
        for symptom, n, middle, low, high in rows:
            table.add_row(symptom, str(n), count(middle), count(low), count(high))
        _say(console, "")
        _say(console, table)
    said = (
        f"\n{len(result.generations)} generations ({len(result.certifying)} certify, "
        f"{result.distinct_prompts} distinct prompts): {ending_counts(result.generations)}; "
        f"{result.short} short of the units asked for. Decoding: {decoding_words(result)}. "
        f"Rigor {sample_words(result)}."
    )
    _say(console, Text(clean(said)))


def _print_evidence(console: Console, result: RunResult) -> None:
    """For and against each plane, and what nobody measured."""
    from rich.table import Table
    from rich.text import Text

    rows = [
        ("for" if each.supports else "against", str(each.plane), f"{each.fact} [{each.source}]")
        for each in result.verdict.evidence
    ]
    rows += [(NOT_MEASURED, "not measured", f"{m.what}: {m.cost}") for m in result.run.profile.missing]
    if not rows:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    for sign, plane, fact in rows:
        style = "" if sign == "for" else "dim"
        grid.add_row(Text(sign, style=style), Text(plane, style=style), Text(clean(fact), style=style))
    _say(console, Text("\nevidence", style="bold"))
    _say(console, grid)
    _say(console, "")


def _print_excerpt(console: Console, result: RunResult, glyphs: Glyphs) -> None:
    from rich.padding import Padding
    from rich.text import Text

    generation = representative(result.certifying) or representative(result.generations)
    if generation is None:
        return
    before, after = excerpt(generation, before=40, after=60)
    onset = f"{flat(generation.key)} (token {count(generation.verdict.onset)})"
    _say(console, Text(f"\naround the onset of {onset}:", style="bold"))
    text = Text(f"{glyphs.more} {flat(before)[-_SHOWN:]}", style="")
    text.append(f" {glyphs.here} ", style="bold red")
    text.append(flat(after)[:_SHOWN], style="red")
    text.append(f" {glyphs.more}", style="dim")
    _say(console, Padding(text, (0, 2)))


def when(clock_seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(clock_seconds))


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
