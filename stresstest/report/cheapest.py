"""The cheapest caps beside the certified ones. Computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.economics.optimum import Cheapest
from stresstest.report.limits import one_line
from stresstest.report.text import percent
from stresstest.report.what_if import optimum_document

if TYPE_CHECKING:
    from rich.console import Console


def cheapest_documents(found: Sequence[Cheapest]) -> list[dict[str, Any]]:
    """One for each subject, with the curve and the stored cost that it stands on."""
    return [
        {
            "subject": asdict(each.subject),
            "simulated": each.simulated,
            "cost": each.document,
            "optimum": optimum_document(each.optimum),
            "safe_max_tokens": each.safe,
            "above_safe": each.above_safe,
        }
        for each in found
    ]


def print_cheapest(console: Console, found: Sequence[Cheapest]) -> None:
    """A sentence for each subject."""
    from rich.text import Text

    for each in found:
        source = f"(cost {one_line(each.document)}{', simulated' if each.simulated else ''})"
        console.print(Text(f"{one_line(str(each.subject))}: {_sentence(each)} {source}", style="dim"))


def _sentence(each: Cheapest) -> str:
    best = each.optimum
    if best.lacking is not None:
        return best.lacking
    words = (
        f"cheapest max_tokens {best.cap:,} (modelled, 95 % of resamples {best.lo:,}–{best.hi:,}): "
        f"{best.best.tokens:,.0f} tokens for a useful answer, {percent(best.saved, 1)} less than at "
        f"{best.uncapped.cap:,}. It certifies nothing."
    )
    if each.above_safe and each.safe is not None:
        words += f" It is above the certified safe max_tokens: {each.safe:,} stays the limit."
    return words
