"""The plan of a run: for `plan`, as a table or one JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stresstest.ladder import PlanSummary
from stresstest.model import RIGORS, RunSettings
from stresstest.report.text import clean, count, duration, percent

if TYPE_CHECKING:
    from rich.console import Console


def _seconds(tokens: int, tokens_per_second: float | None) -> float | None:
    return None if tokens_per_second is None else tokens / tokens_per_second


def plan_document(
    settings: RunSettings, plan: PlanSummary, tokens_per_second: float | None
) -> dict[str, Any]:
    """The plan's numbers; seconds are null unless a throughput is given."""
    return {
        "subject": {
            "model": settings.subject.model or None,
            "task": settings.subject.task,
            "language": settings.subject.language,
        },
        "rigor": settings.rigor,
        "rungs": [
            {
                "number": r.number,
                "units": r.units,
                "target_tokens": r.target_tokens,
                "max_tokens": r.max_tokens,
            }
            for r in plan.rungs
        ],
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
    """The plan for a person."""
    from rich.table import Table
    from rich.text import Text

    rigor = RIGORS[settings.rigor]
    subject = settings.subject
    model = subject.model or "the model that is served"
    goal = f"risk {percent(rigor.alpha)} at {percent(rigor.confidence)} confidence"
    line = f"{model} · {subject.task} · {subject.language}: rigor {rigor.name} ({goal}, n = {rigor.planned})"
    console.print(Text(clean(line), style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("rung", "units", "target tokens", "cap"):
        table.add_column(name, justify="right")
    for rung in plan.rungs:
        table.add_row(str(rung.number), count(rung.units), count(rung.target_tokens), count(rung.max_tokens))
    console.print(table)
    costs = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    costs.add_column("")
    for name in ("requests", "output tokens", "time"):
        costs.add_column(name, justify="right")
    for name, requests, tokens in (
        ("if nothing fails", plan.expected_requests, plan.expected_tokens),
        ("at the very worst", plan.requests, plan.worst_tokens),
    ):
        time = duration(_seconds(tokens, tokens_per_second))
        costs.add_row(name, count(requests), count(tokens), time)
    console.print()
    console.print(costs)
    console.print()
    unknown = "" if tokens_per_second is not None else " The time needs --tokens-per-second."
    console.print(
        f"Prompts: {count(plan.distinct_prompts)} distinct. The climb stops at the first rungs that "
        "degenerate and certification then asks for no more than it needs, so a model that fails early "
        f"costs far less. The context's room is not known here.{unknown} Nothing was sent.",
        style="dim",
    )
