"""The cost-optimal max_tokens and the token cost of a delivered answer, for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.economics.optimum import CapOptimum, CostPoint
from stresstest.economics.retry import DeliveryCost
from stresstest.model.percent import percent
from stresstest.render.glyphs import BLOCK_GLYPHS, Glyphs, glyphs_for, sparkline

if TYPE_CHECKING:
    from rich.console import Console


_WIDTH = 48
MIN_PROMPTS = 30
"""Prompts from which on about 95 % of the intervals hold the cheapest cap of all prompts, where lengths are
lognormal; with 12 prompts 79 % do."""


def optimum_document(best: CapOptimum | None) -> dict[str, Any] | None:
    """The cheapest cap and its cost curve. If none is recommended, `max_tokens` is null and `lacking` gives
    the reason."""
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
        "prompts": best.prompts,
        "curve": [_point(point) for point in best.curve],
        "known": "modelled",
    }


def _point(point: CostPoint) -> dict[str, float]:
    return {
        "max_tokens": point.cap,
        "tokens_per_useful_answer": point.tokens,
        "useful_share": point.useful,
    }


def print_optimum(console: Console, best: CapOptimum) -> None:
    """Print the cheapest cap and its cost curve."""
    from rich.text import Text

    if best.lacking is not None:
        console.print(Text(best.lacking, style="dim"))
        return
    console.print(Text(f"Cheapest max_tokens (modelled): {best.cap:,}", style="bold"))
    for line in optimum_lines(best, glyphs_for(console)):
        console.print(Text(line))


def optimum_lines(best: CapOptimum, glyphs: Glyphs = BLOCK_GLYPHS) -> list[str]:
    """The lines below the cheapest cap: sentences and the cost curve, without markup."""
    prompts = f" to {best.prompts:,} prompts" if best.prompts < best.n else ""
    few = " So few prompts say little about others." if best.prompts < MIN_PROMPTS else ""
    ends = f"{best.curve[0].cap:,} … {best.curve[-1].cap:,} tokens"
    least, largest = best.best, best.uncapped
    more = f"at {largest.cap:,} it is {largest.tokens:,.0f}: the cap saves {percent(best.saved, 1)}"
    return [
        f"{least.tokens:,.0f} tokens per useful answer, {percent(least.useful, 1)} useful at the first "
        f"attempt; {more}",
        f"cost by cap  {_curve(best, glyphs)} {ends}",
        f"{best.lo:,} to {best.hi:,} in 95 % of resamples. Based on {best.n} answers{prompts}: "
        f"{best.useful} useful, {best.endless} without an end.{few}",
        "A lower cap cuts healthy answers, which are then requested again; a higher one lets loops run "
        "on. This cap is modelled, not certified.",
    ]


def _curve(best: CapOptimum, glyphs: Glyphs) -> str:
    """A sparkline of the cost at evenly spaced caps, clipped at four times the minimum."""
    first, last = best.curve[0].cap, best.curve[-1].cap
    costs = []
    for n in range(_WIDTH):
        cap = first + (last - first) * n / (_WIDTH - 1)
        costs.append(max((p for p in best.curve if p.cap <= cap), key=lambda p: p.cap).tokens)
    least = best.best.tokens
    return sparkline(
        [each - 0.9 * least for each in costs], glyphs, top=min(max(costs), 4 * least) - 0.9 * least
    )


def delivery_document(each: DeliveryCost) -> dict[str, Any]:
    """The token cost of a delivered answer under one policy, with its interval."""
    return asdict(each) | {"ci": [each.lo, each.hi]}


def print_deliveries(console: Console, found: Sequence[DeliveryCost]) -> None:
    """Print one line for each policy."""
    from rich.text import Text

    for each in found:
        interval = f"({each.lo:,.0f}–{each.hi:,.0f})"
        console.print(Text(f"{each.tokens:,.0f} tokens per delivered answer {interval}: {each.policy}"))
