"""A sweep on the terminal and as JSON. Computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.model.sweep import Cell, Ratio, Sweep
from stresstest.report.text import NOT_MEASURED, SIMULATED_WARNING, clean, count, percent

if TYPE_CHECKING:
    from rich.console import Console

_FAILS = ("T", "safe", "failed", "onset", "unit", "symptoms")
_READS = ("foreign", "whole", "end", "diversity", "terms")
_LEGEND = (
    "T, safe, onset, foreign: tokens. unit: where failures begin. whole: ended in health with all the units "
    "asked for; end: in health or not. diversity: distinct words in 50. terms: recurring ones per 100 words."
)


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
        "onset_unit": cell.onset_unit,
        "completed": cell.completed,
        "finished": cell.finished,
        "lexical_diversity": cell.diversity,
        "recurring_terms": cell.terms,
        "tokens_spent": cell.tokens,
    }


def print_sweep(console: Console, found: Sweep) -> None:
    """The table of cells, then the answers."""
    from rich.table import Table
    from rich.text import Text

    if found.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    for columns, row in ((_FAILS, _fails), (_READS, _reads)):
        rows = Table(box=None, padding=(0, 1), header_style="bold")
        rows.add_column(_label_header(found), overflow="fold")
        for name in columns:
            words = name == "symptoms"
            rows.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
        for each in found.cells:
            rows.add_row(*(Text(clean(part)) for part in (_label(each), *row(each))))
        console.print(rows)
    console.print(Text(_LEGEND, style="dim"))
    for answer in found.answers:
        console.print(Text(f" → {clean(answer)}", style="cyan"))
    for ratio in found.ratios:
        console.print(Text(clean(f" → {ratio_words(ratio)}"), style="cyan"))
    if not found.complete:
        console.print(Text("The sweep is not complete: cells are missing.", style="yellow"))


def ratio_words(ratio: Ratio) -> str:
    """ "Qwen narrative it reaches 25.4 times as far as Mistral narrative it (90 % interval 21.9-27.8)"."""
    least = "at least " if ratio.at_least else ""
    lo = NOT_MEASURED if ratio.lo is None else f"{ratio.lo:.1f}"
    hi = "no end" if ratio.hi is None else f"{ratio.hi:.1f}"
    words = f"{ratio.of} reaches {least}{ratio.ratio:.1f} times as far as {ratio.over}"
    words += f" (90 % interval {lo} to {hi})"
    if ratio.onsets is not None:
        words += f"; median onsets {ratio.onsets:.1f} ({ratio.onsets_lo:.1f} to {ratio.onsets_hi:.1f})"
    return words


def _label_header(found: Sweep) -> str:
    return ", ".join(name.replace("_", " ") for name in found.cells[0].values) if found.cells else ""


def _label(cell: Cell) -> str:
    """A cell's values; an address without what all addresses share."""
    return ", ".join(value.removeprefix("http://").removesuffix("/v1") for value in cell.values.values())


def _fails(cell: Cell) -> tuple[str, ...]:
    threshold = cell.threshold
    reach = f"≥ {count(threshold.tokens)}" if threshold.censored_at else count(threshold.tokens)
    kinds = ", ".join(f"{kind.replace('_', ' ')} {n}" for kind, n in cell.kinds.items())
    return (
        reach,
        count(cell.safe_max_tokens),
        f"{cell.failed}/{cell.generations}",
        count(cell.median_onset),
        count(cell.onset_unit),
        kinds or NOT_MEASURED,
    )


def _reads(cell: Cell) -> tuple[str, ...]:
    return (
        count(cell.first_foreign),
        percent(cell.completed),
        percent(cell.finished),
        NOT_MEASURED if cell.diversity is None else f"{cell.diversity:.2f}",
        NOT_MEASURED if cell.terms is None else f"{cell.terms:.1f}",
    )
