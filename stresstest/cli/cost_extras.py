"""What `stresstest cost` adds to the account: pictures, what-ifs, the cheapest cap, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.cli.options import stdout_console

if TYPE_CHECKING:
    from stresstest.economics.account import Prices
    from stresstest.economics.whatif import WhatIf
    from stresstest.model.cost import Cost
    from stresstest.workflows.what_if import Simulated


@dataclass(frozen=True, slots=True)
class Extras:
    """What was asked for beside the account, checked before anything is sent."""

    picture: Path | None = None
    what_ifs: tuple[WhatIf, ...] = ()
    openmetrics: Path | None = None
    aborted: bool = False


def checked_extras(
    picture: str | None, simulate: list[str] | None, openmetrics: str | None, *, aborted: bool
) -> Extras:
    """Raises UsageError for what cannot be meant or written. aborted: loops are aborted in the other arm."""
    from stresstest.report.openmetrics import require_metrics_file
    from stresstest.report.pictures import require_pictures
    from stresstest.workflows.what_if import parse_what_if

    return Extras(
        picture=None if picture is None else require_pictures(picture),
        what_ifs=tuple(parse_what_if(text) for text in simulate or ()),
        openmetrics=None if openmetrics is None else require_metrics_file(openmetrics),
        aborted=aborted,
    )


def simulated(cost: Cost, extras: Extras, prices: Prices) -> Simulated:
    """The what-ifs answered, and the cheapest cap."""
    from stresstest.workflows.what_if import simulate

    kv = cost.kv_cache_tokens
    return simulate(cost.spans, extras.what_ifs, prices, kv_cache_tokens=kv, aborted=extras.aborted)


def write_extras(cost: Cost, extras: Extras) -> None:
    """The files that were asked for."""
    if extras.picture is not None:
        from stresstest.report.pictures import write_picture

        write_picture(cost, extras.picture)
    if extras.openmetrics is not None:
        from stresstest.report.openmetrics import cost_samples, write_metrics

        write_metrics(cost_samples(cost), extras.openmetrics)


def extras_document(found: Simulated) -> dict[str, Any]:
    """What `cost --json` has beside the account."""
    from stresstest.report.audit import delivery_document
    from stresstest.report.what_if import fitted_document, optimum_document, prediction_document

    return {
        "optimum": optimum_document(found.best_cap),
        "engine": None if found.fitted is None else fitted_document(found.fitted),
        "as_measured": None if found.baseline is None else prediction_document(found.baseline),
        "what_if": [prediction_document(each) for each in found.predictions],
        "what_if_lacking": found.lacking,
        "tokens_per_delivered_answer": [delivery_document(each) for each in found.deliveries],
    }


def print_extras(found: Simulated) -> None:
    """The what-ifs and the cheapest cap on the terminal."""
    from stresstest.report.audit import print_deliveries
    from stresstest.report.what_if import print_optimum, print_predictions

    console = stdout_console()
    print_deliveries(console, found.deliveries)
    if found.best_cap is not None:
        print_optimum(console, found.best_cap)
    if found.fitted is not None and found.baseline is not None:
        print_predictions(console, found.fitted, found.baseline, found.predictions)
    if found.lacking is not None:
        console.print(f"What if: not to be told, since {found.lacking}.", markup=False, highlight=False)
