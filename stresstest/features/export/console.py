"""An export on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.features.export.document import WrittenFiles, subject_counts, symptom_counts
from stresstest.features.export.training import config_text, length_summary, length_unit
from stresstest.features.export.wording import warnings
from stresstest.features.export.workflow import ExportedSet, ExportOptions
from stresstest.render.text import SIMULATED_WARNING, format_count, single_line, subject_name

if TYPE_CHECKING:
    from rich.console import Console


def print_export(
    console: Console,
    found: ExportedSet,
    options: ExportOptions,
    files: WrittenFiles,
    nothing: str | None,
    commands: Sequence[str],
) -> None:
    """Print what was written, or why nothing, and what a trainer needs to know of it."""
    from rich.text import Text

    def say(line: str, style: str = "", *, wrap: bool = True) -> None:
        console.print(Text(single_line(line), style=style), soft_wrap=not wrap)

    if any(run.profile.simulated for run in found.runs):
        say(SIMULATED_WARNING, "bold yellow")
    if nothing is not None:
        say(nothing, "bold yellow")
    if files.output is not None:
        say(f"{_examples(found)} in {files.output}", "bold", wrap=False)
    if files.held_out is not None:
        say(f"{_prompts(len(found.held_out))} held out in {files.held_out}", wrap=False)
        say("measure them before training with run --prompts, and after it with check", "dim")
    if files.unpaired is not None:
        say(f"{_prompts(len(found.unpaired))} without a healthy answer in {files.unpaired}", wrap=False)
    _print_lengths(console, found)
    subjects = Counter({subject_name(subject): n for subject, n in subject_counts(found).items()})
    for name, counts in (("subjects", subjects), ("symptoms", symptom_counts(found))):
        if counts:
            say(f"{name}: " + ", ".join(f"{key} {n}" for key, n in counts.most_common()))
    left_out = [f"{n} {reason}" for reason, n in found.left_out.most_common()]
    left_out += [f"{found.repeated} that repeat another"] if found.repeated else []
    if left_out:
        say("answers left out: " + "; ".join(left_out), "dim")
    for warning in warnings(found):
        say(warning, "yellow")
    if found.examples:
        console.print(Text(config_text(found, options)), soft_wrap=True)
    if commands:
        say("For more pairs:")
    for command in commands:
        console.print(Text(f"  {single_line(command)}"), soft_wrap=True)


def _print_lengths(console: Console, found: ExportedSet) -> None:
    from rich.table import Table

    if not found.examples:
        return
    unit = length_unit(found.examples)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in (f"length, {unit}", "answers", "10 %", "median", "90 %"):
        table.add_column(name, justify="left" if name.startswith("length") else "right")
    for name, degenerate in (("chosen", False), ("rejected", True)):
        side = length_summary([a for a in found.examples if a.degenerate is degenerate], unit)
        if side is not None:
            numbers = (side.n, side.low, side.median, side.high)
            table.add_row(name, *(format_count(number) for number in numbers))
    console.print(table)


def _examples(found: ExportedSet) -> str:
    if found.answers:
        bad = sum(answer.degenerate for answer in found.answers)
        return f"{len(found.answers)} answers, {len(found.answers) - bad} desirable and {bad} not,"
    prompts = len({pair.rejected.prompt.key for pair in found.pairs})
    pairs = "1 pair" if len(found.pairs) == 1 else f"{len(found.pairs)} pairs"
    return f"{pairs} of {_prompts(prompts)}"


def _prompts(n: int) -> str:
    return "1 prompt" if n == 1 else f"{n} prompts"
