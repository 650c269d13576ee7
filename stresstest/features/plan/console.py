"""`plan` on the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stresstest.campaign.ladder import PlanSummary
from stresstest.model import RIGORS, RunSettings
from stresstest.model.percent import percent
from stresstest.render.text import duration, format_count, sanitize, subject_name

if TYPE_CHECKING:
    from rich.console import Console


def _seconds(tokens: int, tokens_per_second: float | None) -> float | None:
    return None if tokens_per_second is None else tokens / tokens_per_second


def plan_document(
    settings: RunSettings, plan: PlanSummary, tokens_per_second: float | None
) -> dict[str, Any]:
    """``plan --json``. Seconds are null unless a throughput (tokens per second) is given."""
    return {
        "subject": asdict(settings.subject) | {"model": settings.subject.model or None},
        "rigor": settings.rigor,
        "rungs": [asdict(rung) for rung in plan.rungs],
        "requests": plan.requests,
        "worst_tokens": plan.worst_tokens,
        "worst_seconds": _seconds(plan.worst_tokens, tokens_per_second),
        "expected_requests": plan.expected_requests,
        "expected_tokens": plan.expected_tokens,
        "expected_seconds": _seconds(plan.expected_tokens, tokens_per_second),
        "planned_at_risk": plan.planned_at_risk,
        "looks": plan.looks,
        "distinct_prompts": plan.distinct_prompts,
    }


def print_plan(
    console: Console, settings: RunSettings, plan: PlanSummary, tokens_per_second: float | None
) -> None:
    """Print the rungs, then requests, tokens and time of the expected and of the worst case."""
    from rich.table import Table
    from rich.text import Text

    rigor = RIGORS[settings.rigor]
    subject = settings.subject
    name = subject_name(replace(subject, model=subject.model or "whichever model is served"))
    goal = f"risk {percent(rigor.alpha)} at {percent(rigor.confidence)} confidence"
    line = f"{name}: rigor {rigor.name} ({goal}, n = {rigor.planned})"
    console.print(Text(sanitize(line), style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("rung", "units", "target tokens", "cap"):
        table.add_column(name, justify="right")
    for rung in plan.rungs:
        table.add_row(
            str(rung.number),
            format_count(rung.units),
            format_count(rung.target_tokens),
            format_count(rung.max_tokens),
        )
    console.print(table)
    costs = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    costs.add_column("")
    for name in ("requests", "output tokens", "time"):
        costs.add_column(name, justify="right")
    for name, requests, tokens in (
        ("if nothing fails", plan.expected_requests, plan.expected_tokens),
        ("at worst", plan.requests, plan.worst_tokens),
    ):
        time = duration(_seconds(tokens, tokens_per_second))
        costs.add_row(name, format_count(requests), format_count(tokens), time)
    console.print()
    console.print(costs)
    console.print()
    longest = format_count(max(rung.max_tokens for rung in plan.rungs))
    unknown = "" if tokens_per_second is not None else " For a time, give --tokens-per-second."
    console.print(
        f"Prompts: {format_count(plan.distinct_prompts)} distinct. A rung is one requested length; its cap "
        f"is the max_tokens of its requests. The climb stops at the first rung that fails, and certification "
        f"then requests only what it needs, so a model that fails early costs far less. `plan` does not ask "
        f"the server: `run` sends less if the model's context is shorter than {longest} tokens.{unknown}",
        style="dim",
    )
