"""Outputs of `stresstest cost` beside the account: picture, cheapest cap, tokens per answer, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.options.common import stdout_console

if TYPE_CHECKING:
    from stresstest.economics.optimum import CapOptimum
    from stresstest.economics.retry import DeliveryCost
    from stresstest.model.cost import Cost


@dataclass(frozen=True, slots=True)
class CostExtras:
    """The additional files to write. aborted: the other arm of the pairs aborts loops."""

    picture: Path | None = None
    openmetrics: Path | None = None
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class Derived:
    """Results computed from the requests of an account.

    best_cap: None without enough healthy answers. deliveries: measured tokens per delivered answer, with
    loops left running and with loops aborted.
    """

    best_cap: CapOptimum | None = None
    deliveries: tuple[DeliveryCost, ...] = ()


def parse_extras(picture: str | None, openmetrics: str | None, *, aborted: bool) -> CostExtras:
    """The additional files. Raises UsageError for one that cannot be written."""
    from stresstest.features.cost.pictures import require_picture_support
    from stresstest.render.openmetrics import require_metrics_file

    return CostExtras(
        picture=None if picture is None else require_picture_support(picture),
        openmetrics=None if openmetrics is None else require_metrics_file(openmetrics),
        aborted=aborted,
    )


def derived(cost: Cost, extras: CostExtras) -> Derived:
    """The cheapest cap and, if loops were aborted, the tokens per delivered answer."""
    from stresstest.economics.optimum import attempts_from_spans, find_cheapest_cap
    from stresstest.economics.retry import measured_delivery_costs
    from stresstest.model.cost import CostArm

    natural = [span for span in cost.spans if span.arm != CostArm.CAPPED and not span.planted]
    return Derived(
        find_cheapest_cap(attempts_from_spans(natural)),
        measured_delivery_costs(cost.spans) if extras.aborted else (),
    )


def write_extras(cost: Cost, extras: CostExtras) -> None:
    """Write the requested files."""
    if extras.picture is not None:
        from stresstest.features.cost.pictures import write_picture

        write_picture(cost, extras.picture)
    if extras.openmetrics is not None:
        from stresstest.render.openmetrics import cost_samples, write_metrics

        write_metrics(cost_samples(cost), extras.openmetrics)


def extras_document(found: Derived) -> dict[str, Any]:
    """The keys that `cost --json` adds to those of the account."""
    from stresstest.render.cap_cost import delivery_document, optimum_document

    return {
        "optimum": optimum_document(found.best_cap),
        "tokens_per_delivered_answer": [delivery_document(each) for each in found.deliveries],
    }


def print_extras(found: Derived) -> None:
    """Print the tokens per delivered answer and the cheapest cap."""
    from stresstest.render.cap_cost import print_deliveries, print_optimum

    console = stdout_console()
    print_deliveries(console, found.deliveries)
    if found.best_cap is not None:
        print_optimum(console, found.best_cap)
