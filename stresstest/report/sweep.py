"""A sweep on the terminal and as JSON. Computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.model.sweep import Cell, Sweep
from stresstest.report.text import NOT_MEASURED, clean, count, percent

if TYPE_CHECKING:
    from rich.console import Console


def sweep_document(found: Sweep) -> dict[str, Any]:
    """``sweep --json``: one entry a cell, the answers, the ratios."""
    return {
        "simulated": found.simulated,
        "complete": found.complete,
        "cells": [_cell(each) for each in found.cells],
        "answers": list(found.answers),
        "ratios": [asdict(ratio) for ratio in found.ratios],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    threshold = cell.threshold
    return {
        "values": dict(cell.values),
        "run_id": cell.run_id,
        "subject": asdict(cell.subject),
        "threshold": {
            "tokens": threshold.tokens,
            "certified": threshold.certified,
            "censored_at": threshold.censored_at,
            "lacking": threshold.lacking,
        },
        "safe_max_tokens": cell.safe_max_tokens,
        "generations": cell.generations,
        "failed": cell.failed,
        "symptoms": dict(cell.kinds),
        "median_onset": cell.median_onset,
        "first_foreign_sentence": cell.first_foreign,
        "completed": cell.completed,
        "lexical_diversity": cell.diversity,
        "recurring_terms": cell.terms,
        "tokens_spent": cell.tokens,
    }


def print_sweep(console: Console, found: Sweep) -> None:
    """The table of cells, then the answers."""
    from rich.table import Table
    from rich.text import Text

    if found.simulated:
        console.print(Text("SIMULATED: these numbers are no measurement of a model", style="bold yellow"))
    rows = Table(box=None, padding=(0, 1), header_style="bold")
    params = list(found.cells[0].values) if found.cells else []
    for name in params:
        rows.add_column(clean(name.replace("_", " ")), overflow="fold")
    names = ("T", "safe", "failed", "onset", "foreign", "whole", "diversity", "terms")
    for name in names:
        rows.add_column(name, justify="right")
    rows.add_column("symptoms", overflow="fold")
    for each in found.cells:
        rows.add_row(*(Text(clean(part)) for part in (*each.values.values(), *_row(each))))
    console.print(rows)
    for answer in found.answers:
        console.print(Text(f" → {clean(answer)}", style="cyan"))
    for ratio in found.ratios:
        words = f"{ratio.of} fails {ratio.ratio:.1f} times as late as {ratio.over}"
        console.print(Text(clean(f" → {words} (90 % interval {ratio.lo:.1f}-{ratio.hi:.1f})"), style="cyan"))
    if not found.complete:
        console.print(Text("The sweep is not complete: cells are missing.", style="yellow"))


def _row(cell: Cell) -> tuple[str, ...]:
    threshold = cell.threshold
    reach = f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)
    kinds = ", ".join(f"{kind.replace('_', ' ')} {n}" for kind, n in cell.kinds.items())
    return (
        reach,
        count(cell.safe_max_tokens),
        f"{cell.failed}/{cell.generations}",
        count(cell.median_onset),
        count(cell.first_foreign),
        percent(cell.completed),
        NOT_MEASURED if cell.diversity is None else f"{cell.diversity:.2f}",
        NOT_MEASURED if cell.terms is None else f"{cell.terms:.1f}",
        kinds or NOT_MEASURED,
    )
