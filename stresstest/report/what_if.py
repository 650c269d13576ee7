"""Predictions and the cheapest cap, on the terminal and as JSON. Computes nothing."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from stresstest.economics.fit import Fitted
from stresstest.economics.optimum import Optimum, Point
from stresstest.economics.replay import UNBOUNDED
from stresstest.economics.whatif import DRAWS, Draws, Prediction, WhatIf
from stresstest.report.glyphs import BLOCKS, Glyphs, glyphs_for, strip
from stresstest.report.text import NOT_MEASURED, count, percent

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 48
POOR = 0.2
"""Error of a typical replayed duration from which on a fit is poor; of the wall clock, half of it."""
NARROW = (
    "Every request met about the same number of others: what fewer or more of them at once take is guessed "
    "from a typical card. A log with lonely moments too would tell."
)
POOR_FIT = (
    "The engine does not even replay what was measured: the server's speed changed meanwhile, or a client "
    "short of processor time took the times. Do not rely on these predictions."
)


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """One prediction: every number with its mean and range over the draws; None where there is none."""
    return {
        "settings": {k: v for k, v in asdict(prediction.what_if).items() if v is not None},
        "requests": prediction.requests,
        "loops": prediction.loops,
        "max_tokens": prediction.cap,
        "wall_clock_s": _draws(prediction.wall_clock),
        "healthy_p50_s": _draws(prediction.p50),
        "healthy_p95_s": _draws(prediction.p95),
        "healthy_cut": _draws(prediction.cut),
        "output_tokens": _draws(prediction.tokens),
        "kv_peak": _draws(prediction.peak_kv),
        "money": _draws(prediction.money),
        "known": "modelled",
    }


def fitted_document(fitted: Fitted) -> dict[str, Any]:
    """The engine that predicts, and how well it replays what it was fitted to."""
    step = fitted.spec.step_ms
    seats, kv = fitted.spec.max_num_seqs, fitted.spec.kv_cache_tokens
    return {
        "step_ms": asdict(step),
        "max_num_seqs": None if seats == UNBOUNDED else seats,
        "kv_cache_tokens": kv if fitted.kv_known else None,
        "concurrency": fitted.concurrency,
        "requests": fitted.n,
        "duration_error": fitted.error,
        "wall_clock_error": fitted.wall_error,
        "poor": is_poor(fitted),
        "narrow": fitted.narrow,
    }


def optimum_document(best: Optimum | None) -> dict[str, Any] | None:
    """The cheapest cap with its curve; `max_tokens` is null where none is recommended, `lacking` says why."""
    if best is None:
        return None
    return {
        "max_tokens": best.cap if best.lacking is None else None,
        "lacking": best.lacking,
        "interval": [best.lo, best.hi] if best.lacking is None else None,
        "tokens_per_useful_answer": best.best.tokens,
        "useful_share": best.best.useful,
        "at_largest": _point(best.uncapped),
        "saved": best.saved,
        "requests": best.n,
        "useful": best.useful,
        "endless": best.endless,
        "curve": [_point(point) for point in best.curve],
        "known": "modelled",
    }


def _point(point: Point) -> dict[str, float]:
    return {
        "max_tokens": point.cap,
        "tokens_per_useful_answer": point.tokens,
        "useful_share": point.useful,
    }


def _draws(draws: Draws | None) -> dict[str, float] | None:
    return None if draws is None else {"mean": draws.mean, "low": draws.low, "high": draws.high}


def print_predictions(
    console: Console, fitted: Fitted, baseline: Prediction, predictions: tuple[Prediction, ...]
) -> None:
    """A table, one column a what-if, the measured workload first."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text("What if (modelled: the virtual engine fitted to this server)", style="bold"))
    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("")
    columns = [("as measured", baseline), *((what_if_words(p.what_if), p) for p in predictions)]
    for name, _ in columns:
        table.add_column(Text(name), justify="right")
    for label, cells in _rows([prediction for _, prediction in columns]):
        table.add_row(Text(label), *(Text(cell) for cell in cells))
    console.print(table)
    console.print(
        Text(
            f"Fitted to {fitted.n} requests: the replay of those is off by {percent(fitted.error, 1)} in a "
            f"typical duration, by {100 * fitted.wall_error:+.1f} % in the wall clock. Ranges are of "
            f"up to {DRAWS} workloads drawn again, not of the model's own error.",
            style="dim",
        )
    )
    if is_poor(fitted):
        console.print(Text(POOR_FIT, style="yellow"))
    if fitted.narrow:
        console.print(Text(NARROW, style="yellow"))


def is_poor(fitted: Fitted) -> bool:
    """Whether the engine cannot even replay what it was fitted to."""
    return fitted.error > POOR or abs(fitted.wall_error) > POOR / 2


def what_if_words(what_if: WhatIf) -> str:
    """``rate 5 %, max_tokens 2,000``."""
    words = []
    for each in fields(what_if):
        value = getattr(what_if, each.name)
        if value is not None:
            shown = percent(value, 1) if each.name == "rate" else f"{value:,g}"
            words.append(f"{each.name} {shown}")
    return ", ".join(words)


def _rows(found: list[Prediction]) -> list[tuple[str, list[str]]]:
    rows = [
        ("requests / looping", [f"{p.requests:,} / {p.loops:,}" for p in found]),
        ("max_tokens", [count(p.cap) for p in found]),
        ("wall clock, s", [_shown(p.wall_clock) for p in found]),
        ("healthy median, s", [_shown(p.p50, 2) for p in found]),
        ("healthy p95, s", [_shown(p.p95, 2) for p in found]),
        ("healthy answers cut", [_shown(p.cut, 0) for p in found]),
        ("output tokens", [_shown(p.tokens, 0) for p in found]),
        ("KV cache in use, peak", [percent(None if p.peak_kv is None else p.peak_kv.mean) for p in found]),
    ]
    if any(p.money is not None for p in found):
        rows.append(("money", [_shown(p.money, 4) for p in found]))
    return rows


def _shown(draws: Draws | None, digits: int = 1) -> str:
    if draws is None:
        return NOT_MEASURED
    mean = f"{draws.mean:,.{digits}f}"
    low, high = f"{draws.low:,.{digits}f}", f"{draws.high:,.{digits}f}"
    return mean if low == high else f"{mean} ({low}–{high})"


def print_optimum(console: Console, best: Optimum) -> None:
    """The cheapest cap and the curve around it."""
    from rich.text import Text

    if best.lacking is not None:
        console.print(Text(best.lacking, style="dim"))
        return
    console.print(Text(f"Cheapest max_tokens (modelled): {best.cap:,}", style="bold"))
    for line in optimum_lines(best, glyphs_for(console)):
        console.print(Text(line))


def optimum_lines(best: Optimum, glyphs: Glyphs = BLOCKS) -> list[str]:
    """The sentences and the curve, without markup."""
    ends = f"{best.curve[0].cap:,} … {best.curve[-1].cap:,} tokens"
    least, largest = best.best, best.uncapped
    more = f"at {largest.cap:,} it is {largest.tokens:,.0f}: the cap saves {percent(best.saved, 1)}"
    return [
        f"{least.tokens:,.0f} tokens for a useful answer, {percent(least.useful, 1)} useful at once; {more}",
        f"cost by cap  {_curve(best, glyphs)} {ends}",
        f"95 % of resamples: {best.lo:,} to {best.hi:,}. From {best.n} answers, {best.useful} useful, "
        f"{best.endless} without end.",
        "Too low cuts healthy answers that are asked again, too high lets loops burn. It certifies nothing.",
    ]


def _curve(best: Optimum, glyphs: Glyphs) -> str:
    """Cost at evenly spaced caps, drawn from its least to four times as much."""
    first, last = best.curve[0].cap, best.curve[-1].cap
    costs = []
    for n in range(_WIDTH):
        cap = first + (last - first) * n / (_WIDTH - 1)
        costs.append(max((p for p in best.curve if p.cap <= cap), key=lambda p: p.cap).tokens)
    least = best.best.tokens
    return strip([each - 0.9 * least for each in costs], glyphs, top=min(max(costs), 4 * least) - 0.9 * least)
