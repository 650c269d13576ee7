"""A diagnosis on the terminal and as Markdown. Computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.diagnosis.planes import TO_TEST, UNTESTABLE
from stresstest.model import CauseLink, Diagnosis, RunResult
from stresstest.render.diagnosis import ARM_COLUMNS, arm_row, cost_line, link_details
from stresstest.render.markdown import bullet_list, escape_inline, markdown_table
from stresstest.render.run_summary import print_next
from stresstest.render.sentences import FORK_GLOSS, what_to_do
from stresstest.render.text import SIMULATED_WARNING, sanitize

if TYPE_CHECKING:
    from rich.console import Console


def print_diagnosis(
    console: Console, found: Diagnosis, result: RunResult, *, program: str | None = None
) -> None:
    """Print the arms and the explanation of each link, and then the chain, what to do and the next commands.

    program: the beginning of a command on the same store; None if nothing was stored, or the chain is not the
    last thing to be read.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    if result.run.profile.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    good = found.conclusive and bool(found.chain)
    title = "diagnosis" if found.complete else "diagnosis, not complete"
    chain = "\n".join(found.sentences) or found.sentence
    if any(link.arms for link in found.chain):
        console.print(Text(f"\n{FORK_GLOSS}", style="dim"))
    for number, (link, sentence) in enumerate(zip(found.chain, found.sentences, strict=True), 1):
        _print_link(console, f"{number}. {sentence}", link)
    console.print()
    for note in found.notes:
        console.print(Text(f"note: {sanitize(note)}", style="yellow"))
    if program is None:
        return
    # What is lacking stands above; to name this command again, without it, would lead in a circle.
    lines = [line for line in what_to_do(result) if not _asks_for_diagnosis(line)]
    advice = [Text(f"→ {sanitize(line)}", style="cyan") for line in lines]
    body = Group(Text(sanitize(chain), style="bold"), *advice)
    console.print(Panel(body, title=title, border_style="green" if good else "yellow"))
    if found.chain:
        console.print(Text(cost_line(found), style="dim"))
    limited = found.safe_run if found.safe_max_tokens else result.safe_max_tokens and result.run.id
    flags = (f"{program} recommend --format vllm --like {limited}", "the limit as server flags")
    report = (f"{program} report {result.run.id} -o report.html", "a page to share")
    print_next(console, report, *([flags] if limited else []))


def _print_link(console: Console, title: str, link: CauseLink) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(f"\n{sanitize(title)}", style="bold"))
    if link.arms:
        rows = Table(box=None, padding=(0, 1), header_style="bold")
        for name in ARM_COLUMNS:
            rows.add_column(name, justify="right" if name in ("n", "failed", "p") else "left")
        for arm in link.arms:
            rows.add_row(
                *(Text(sanitize(cell)) for cell in arm_row(arm)), style="green" if arm.clears else ""
            )
        console.print(rows)
    for line in link_details(link):
        console.print(Text(f"   {sanitize(line)}", style="dim"))


def diagnosis_markdown(found: Diagnosis) -> str:
    """The diagnosis as a section of a run's report."""
    parts = ["## Diagnosis", f"**{escape_inline(found.sentence)}**"]
    if not found.complete:
        parts.append("The diagnosis is not complete; `stresstest diagnose` continues it.")
    for number, (link, sentence) in enumerate(zip(found.chain, found.sentences, strict=True), 1):
        parts.append(f"### {number}. {escape_inline(sentence)}")
        if link.arms:
            parts.append(
                markdown_table(
                    ARM_COLUMNS, [tuple(escape_inline(cell) for cell in arm_row(arm)) for arm in link.arms]
                )
            )
        parts.append(bullet_list(link_details(link)))
    if found.chain:
        parts.append(escape_inline(cost_line(found)))
    return "\n\n".join(part for part in parts if part)


def _asks_for_diagnosis(line: str) -> bool:
    """Whether a line of advice is on testing the cause: a diagnosis has done that, or says why not."""
    return line.startswith(UNTESTABLE) or (line.startswith(TO_TEST) and " diagnose " in line)
