"""A cost on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stresstest.economics.load import batch_profile, most_at_once
from stresstest.economics.optimum import CapOptimum
from stresstest.economics.timeline import group_spans_by_batch
from stresstest.features.cost.wording import conclusion, cost_rows, precise_time, remarks
from stresstest.model.cost import Cost, CostArm
from stresstest.render.glyphs import BLOCK_GLYPHS, Glyphs, glyphs_for, sparkline
from stresstest.render.text import SIMULATED_WARNING, sanitize, subject_name

if TYPE_CHECKING:
    from rich.console import Console


_WIDTH = 48


def print_cost(console: Console, cost: Cost) -> None:
    """Print the account, the timeline of the first batch, and the remarks."""
    from rich.table import Table
    from rich.text import Text

    if cost.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    subject = "" if cost.subject is None else f"{subject_name(cost.subject)} · "
    console.print(Text(sanitize(f"{subject}{cost.source}"), style="bold"))
    rows = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, words, known in cost_rows(cost):
        style = "bold" if known == "measured" else ""
        rows.add_row(Text(name), Text(sanitize(words), style=style), Text(str(known), style="dim"))
    console.print(rows)
    for line, style in timeline(cost, glyphs_for(console)):
        console.print(Text(line, style=style))
    for remark in remarks(cost):
        console.print(Text(sanitize(remark), style="dim"))
    if not cost.complete:
        console.print(Text("Not complete: pairs of batches are missing.", style="yellow"))


def print_conclusion(console: Console, cost: Cost, best_cap: CapOptimum | None) -> None:
    """Print what the figures come to, last."""
    from rich.text import Text

    console.print(Text(conclusion(cost, best_cap), style="bold"))


def timeline(cost: Cost, glyphs: Glyphs = BLOCK_GLYPHS) -> list[tuple[str, str]]:
    """Lines with their style: sparklines of the first batch with loops and, if any, of its capped arm."""
    by_batch = group_spans_by_batch(cost.spans)
    first = next((b for b in by_batch.values() if b[0].arm != CostArm.CAPPED), None)
    if first is None:
        return []
    whole = batch_profile(first, _WIDTH)
    if not whole.running:
        return []
    top = max(whole.running)
    size = f"{precise_time(whole.seconds)}, at most {most_at_once(first)} at once"
    lines = [
        (f"running  {_timeline_sparkline(whole.running, glyphs, top)} {size}", ""),
        (f"in loops {_timeline_sparkline(whole.looping, glyphs, top)}", "red"),
    ]
    pair = first[0].pair
    other = next((b for b in by_batch.values() if b[0].arm == CostArm.CAPPED and b[0].pair == pair), None)
    if other is not None and pair is not None:
        capped = batch_profile(other, _WIDTH, whole.seconds)
        lines.append((f"capped   {_timeline_sparkline(capped.running, glyphs, top)}", "green"))
    return lines


def _timeline_sparkline(values: tuple[float, ...], glyphs: Glyphs, top: float) -> str:
    """A sparkline in which 0 is blank."""
    return sparkline([value or None for value in values], glyphs, top=top)
