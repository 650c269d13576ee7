"""The summary of a run on the terminal, and the provenance line of a stored threshold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from stresstest.clock import format_time
from stresstest.diagnosis.planes import UNTESTABLE
from stresstest.model import Basis, RunResult, RunStatus
from stresstest.model.generation import UNSEEN
from stresstest.model.percent import percent
from stresstest.render.glyphs import Glyphs, glyphs_for
from stresstest.render.sentences import (
    BLIND_SPOTS,
    answer_counts,
    condition,
    decoding_words,
    ending_counts,
    glosses,
    headline,
    sample_words,
    symptom_rows,
    thinking_words,
    unit_words,
    what_to_do,
)
from stresstest.render.text import (
    NOT_MEASURED,
    SIMULATED_WARNING,
    answer_name,
    cause_words,
    duration,
    excerpt,
    format_count,
    load_words,
    onset_place,
    sanitize,
    single_line,
)
from stresstest.store import StoredThreshold

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_SHOWN = 400
"""Maximum characters shown on either side of an onset."""
_WIDEST = 110
"""Maximum columns; longer lines are hard to read."""


def _say(console: Console, what: RenderableType) -> None:
    console.print(what, width=min(console.width, _WIDEST))


def print_run(
    console: Console,
    result: RunResult,
    *,
    program: str | None = "stresstest",
    better_run: str | None = None,
    stored_in: str | None = None,
) -> None:
    """Print the basis of the result (curve, excerpt, symptoms, evidence) and then the result itself, which so
    stays on the screen: number, plane, what to do, and the next commands.

    program: the beginning of a command on the same store; None where the caller prints what comes after the
    result: the cost and the next commands. better_run: the run of the setting that a diagnosis found.
    stored_in: the store, as it is shown to people; None where they know it.
    """
    from rich.text import Text

    if result.run.profile.simulated:
        _say(console, Text(SIMULATED_WARNING, style="bold yellow"))
    glyphs = glyphs_for(console)
    _print_curve(console, result, glyphs)
    _print_excerpt(console, result, glyphs)
    _print_symptoms(console, result)
    _print_evidence(console, result)
    for note in result.notes:
        _say(console, Text(f"note: {sanitize(note)}", style="yellow"))
    advice = what_to_do(result)
    if program is not None:
        advice = [line.replace("stresstest diagnose", f"{program} diagnose") for line in advice]
    for line in filter(None, (BLIND_SPOTS, glosses(*_said(result, advice)))):
        _say(console, Text(line, style="dim"))
    _print_answer(console, result, advice)
    if program is not None:
        kept = "" if stored_in is None else f" It is stored as {result.run.id} in {single_line(stored_in)}."
        _say(console, Text(cost_sentence(result) + kept, style="dim"))
        print_next(console, *_next_commands(result, program, better_run))


def _next_commands(result: RunResult, program: str, better_run: str | None) -> list[tuple[str, str]]:
    """What to do with a run, in the order of use; one that is not done is continued first."""
    run = result.run
    report = (f"{program} report {run.id} -o report.html", "a page to share")
    if run.profile.replaced is not None:
        return [report]
    if run.status is not RunStatus.DONE:
        return [
            (f"{program} run --resume {run.id}{larger_budget(result)}", "measures what is missing"),
            report,
        ]
    untestable = any(line.startswith(UNTESTABLE) for line in result.verdict.advice)
    observed = result.verdict.basis is Basis.OBSERVED and not untestable
    limited = better_run or (None if result.safe_max_tokens is None else run.id)
    return [
        *([(f"{program} diagnose {run.id}", "tests the cause")] if observed else []),
        report,
        *(
            [(f"{program} recommend --format vllm --like {limited}", "the limit as server flags")]
            if limited
            else []
        ),
    ]


def larger_budget(result: RunResult) -> str:
    """Twice what was spent of the budget that has ended a run, as an option; empty where none has."""
    settings = result.run.settings
    if settings.budget_tokens is not None and result.tokens_spent >= settings.budget_tokens:
        return f" --budget-tokens {2 * result.tokens_spent}"
    if settings.budget_seconds is not None and result.seconds >= settings.budget_seconds:
        return f" --budget-time {2 * ceil(result.seconds)}s"
    return ""


def _said(result: RunResult, advice: Sequence[str]) -> list[str]:
    """What is shown with terms that may need a gloss."""
    facts = [each.fact for each in result.verdict.evidence]
    return [headline(result), result.verdict.sentence, *advice, *facts]


def cost_sentence(result: RunResult) -> str:
    """What the run took, in tokens and time."""
    return f"The run used {format_count(result.tokens_spent)} output tokens in {duration(result.seconds)}."


def print_next(console: Console, *commands: tuple[str, str]) -> None:
    """Print the next commands, each on a line of its own that is never wrapped, so that it can be copied.

    commands: each with what it is for, which follows as a comment if the terminal is wide enough.
    """
    from rich.text import Text

    width = max(len(single_line(command)) for command, _ in commands)
    longest = max(len(purpose) for _, purpose in commands)
    commented = 6 + width + 4 + longest <= console.width
    for number, (command, purpose) in enumerate(commands):
        line = f"{'' if number else 'Next:':<6}{single_line(command):<{width}}"
        comment = f"  # {purpose}" if commented else ""
        console.print(Text(f"{line}{comment}".rstrip()), soft_wrap=True)


def _print_answer(console: Console, result: RunResult, actions: Sequence[str]) -> None:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    certified, withheld = result.threshold.certified, result.threshold.withheld
    number, colon, grounds = sanitize(headline(result)).partition(": ")
    style = "green" if certified and not withheld else "yellow"
    answer = Text.assemble((number, f"bold {style}"), f"{colon}{grounds}")
    thinking = result.thinking
    margin = result.run.settings.margin
    reasoning = [] if thinking is None else [Text(sanitize(thinking_words(thinking, margin)))]
    plane = Text(sanitize(result.verdict.sentence))
    advice = [Text(f"→ {sanitize(line)}", style="cyan") for line in actions]
    title = f"certified{condition(result)}" if certified else "inconclusive"
    if result.threshold.unfit:
        title = "unfit"
    elif withheld:
        title += ", no cap recommended"
    _say(console, Panel(Group(answer, *reasoning, plane, *advice), border_style=style, title=title))


def _print_curve(console: Console, result: RunResult, glyphs: Glyphs) -> None:
    from rich.text import Text

    lines = survival_lines(result, console.width, glyphs)
    if not lines:
        return
    _say(console, Text("\nshare of answers still coherent after so many tokens (Kaplan–Meier)", style="bold"))
    for line in lines:
        _say(console, Text(line, no_wrap=True, overflow="crop"))


def _print_symptoms(console: Console, result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = symptom_rows(result.generations)
    if rows:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name in ("symptom", "answers", "median onset", "earliest", "latest"):
            table.add_column(name, justify="left" if name == "symptom" else "right")
        for symptom, n, middle, low, high in rows:
            table.add_row(symptom, str(n), format_count(middle), format_count(low), format_count(high))
        _say(console, "")
        _say(console, table)
    said = (
        f"\n{answer_counts(result)}, {result.distinct_prompts} distinct prompts in the sample: "
        f"{ending_counts(result.generations)}; "
        f"{unit_words(result)}. Decoding: {decoding_words(result)}. "
        f"Rigor {sample_words(result)}."
    )
    _say(console, Text(sanitize(said)))


def _print_evidence(console: Console, result: RunResult) -> None:
    """Print the evidence for and against each plane, and what was not measured."""
    from rich.table import Table
    from rich.text import Text

    rows = [
        (each.stance, str(each.plane), f"{each.fact} [{each.source}]")
        for each in result.verdict.evidence
        if each.stance != UNSEEN
    ]
    rows += [
        (NOT_MEASURED, UNSEEN, f"{each.fact} [{each.source}]")
        for each in result.verdict.evidence
        if each.stance == UNSEEN
    ]
    rows += [(NOT_MEASURED, UNSEEN, f"{m.what}: {m.cost}") for m in result.run.profile.missing]
    if not rows:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    for sign, plane, fact in rows:
        style = "" if sign == "for" else "dim"
        grid.add_row(Text(sign, style=style), Text(plane, style=style), Text(sanitize(fact), style=style))
    _say(console, Text("\nevidence for and against each plane (where the cause can lie)", style="bold"))
    _say(console, grid)
    _say(console, "")


def _print_excerpt(console: Console, result: RunResult, glyphs: Glyphs) -> None:
    from rich.padding import Padding
    from rich.text import Text

    generation = result.representative
    if generation is None:
        return
    before, after = excerpt(generation, before=40, after=60)
    where = f"{answer_name(generation.job)}, at token {onset_place(generation.verdict)}"
    _say(console, Text(f"\naround the onset in {where}:", style="bold"))
    text = Text(f"{glyphs.more} {single_line(before)[-_SHOWN:]}", style="")
    text.append(f" {glyphs.here} ", style="bold red")
    text.append(single_line(after)[:_SHOWN], style="red")
    text.append(f" {glyphs.more}", style="dim")
    _say(console, Padding(text, (0, 2)))


def provenance(row: StoredThreshold) -> str:
    """How, when and on which server a stored threshold was measured, on one line."""
    words = [f"{k} {v}" for k, v in row.decoding.sent().items()] + row.decoding.extra_words()
    sent = ", ".join(words) or "the server's default decoding"
    system = ", with a system prompt" if row.decoding.system_prompt is not None else ""
    facts = (
        f"measured {format_time(row.created)} UTC",
        f"run {row.run_id}",
        f"rigor {row.rigor}",
        sent + system,
        f"{format_count(row.distinct_prompts)} distinct prompts",
        f"margin {percent(row.margin)}",
        f"cause {cause_words(row.verdict)}" if row.verdict.plane else cause_words(row.verdict),
        f"vLLM {row.server_version or NOT_MEASURED}",
        f"{row.base_url}, {load_words(row.concurrency)}",
    )
    return sanitize(", ".join(facts))


HEIGHT = 5
_GUTTER = 7
"""Columns left of the plot, for labels such as " 100 % "."""


def survival_lines(result: RunResult, width: int, glyphs: Glyphs) -> list[str]:
    """The Kaplan–Meier curve of the certifying sample, with an axis that shows T and the safe limit.

    Empty if no onset was observed, as the curve would be flat. width: columns of the terminal.
    """
    points = [(tokens, coherent) for tokens, coherent, _, _ in result.survival]
    if not points or points[-1][1] >= 1.0:
        return []
    columns = max(20, min(width - _GUTTER - 1, 72))
    end = points[-1][0]
    heights = [_coherent(points, end * (column + 0.5) / columns) for column in range(columns)]
    rows = _area(heights, glyphs)
    labels = {0: " 100 % ", HEIGHT // 2: "  50 % "}
    picture = [f"{labels.get(n, ' ' * _GUTTER)}{row}".rstrip() for n, row in enumerate(rows)]
    return [*picture, *_axis(result, end, columns, glyphs)]


def _coherent(points: Sequence[tuple[float, float]], tokens: float) -> float:
    """The curve's value at `tokens`."""
    at = bisect_right(points, tokens, key=lambda point: point[0])
    return points[max(at - 1, 0)][1]


def _area(heights: Sequence[float], glyphs: Glyphs) -> list[str]:
    """The area under the curve, top row first, at a resolution below the height of a character."""
    steps = len(glyphs.levels) - 1
    rows = []
    for row in range(HEIGHT - 1, -1, -1):
        filled = [round(height * HEIGHT * steps) - row * steps for height in heights]
        rows.append("".join(glyphs.levels[min(max(n, 0), steps)] for n in filled))
    return rows


def _axis(result: RunResult, end: float, columns: int, glyphs: Glyphs) -> list[str]:
    """The axis with the limit marked on it, and its legend."""
    line = [glyphs.line] * columns
    says = f"0 to {format_count(end)} tokens"
    safe = result.safe_max_tokens
    if safe is not None and safe <= end:
        line[min(columns - 1, int(safe / end * columns))] = glyphs.limit
        says += f"; {glyphs.limit} safe max_tokens {format_count(safe)}"
    limit = result.threshold.tokens
    if limit is not None:
        says += f", T {format_count(limit)}"
    return [f"   0 % {''.join(line)}", f"{' ' * _GUTTER}{says}"]
