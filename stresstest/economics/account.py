"""The whole account: from spans to a `Cost`, each number labelled measured or modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from stresstest.economics import modelled, paired, rates
from stresstest.economics.attribution import Attribution, attribute, money, wasted_tokens
from stresstest.economics.steps import step_ratio
from stresstest.economics.timeline import batches, wall_clock
from stresstest.model.cost import Cost, CostArm, Known, Modelled, Span

NO_LOOP = "no request looped in any pair, so what loops cost was not measured: there was nothing to compare"
NO_HEALTHY = (
    "no request was healthy in both batches of a pair, so how much loops slow healthy ones is not known"
)
_ALWAYS_MEASURED = ("requests", "degenerate", "rate", "dharma_rate", "wall_clock_s", "wasted_tokens")


@dataclass(frozen=True, slots=True)
class Prices:
    """gpus: how many serve the model; gpu_hour_price: of one of them, in any currency."""

    gpus: int = 1
    gpu_hour_price: float | None = None


def measured_cost(
    spans: Sequence[Span], *, prices: Prices | None = None, joules: Mapping[str, float] | None = None
) -> Cost:
    """The account of pairs of batches; what no pair tells is modelled from the batches that there are.

    joules: energy by batch label, where power was read.
    """
    prices = prices or Prices()
    seen = {s.pair for s in spans if s.arm == CostArm.LOOPS}
    spans = [s for s in spans if s.arm != CostArm.SCOUT or s.pair not in seen]
    natural = [s for s in spans if s.arm != CostArm.CAPPED]
    found = paired.pairs(spans)
    cost = modelled_cost(natural, gpus=prices.gpus, gpu_hour_price=prices.gpu_hour_price)
    if not found:
        return cost
    if all(pair.quiet for pair in found):
        return _unpriced(replace(cost, pairs=len(found), spans=tuple(spans)))
    cost = replace(
        cost,
        pairs=len(found),
        spans=tuple(spans),
        healthy_slowdown=paired.healthy_slowdown(found),
        wall_clock_ratio=paired.wall_clock_ratio(found),
        step_ratio=step_ratio(spans),
        energy_joules=_energy(found, joules or {}),
    )
    clocks = paired.wall_clocks(found)
    if clocks is not None:
        cost = _priced(cost, *clocks, Known.MEASURED)
    own = {
        "healthy_slowdown": cost.healthy_slowdown,
        "step_ratio": cost.step_ratio,
        "energy_joules": cost.energy_joules,
    }
    labels = dict.fromkeys((key for key, value in own.items() if value is not None), Known.MEASURED)
    return replace(cost, labels={**cost.labels, **labels}, notes=(*cost.notes, *_notes(found)))


def _unpriced(cost: Cost) -> Cost:
    """The account of pairs without any loop: no ratio and no counterfactual, measured or modelled."""
    gone = ("counterfactual_s", "share_of_time", "inflation", "gpu_seconds", "money")
    return replace(
        cost,
        counterfactual=None,
        share_of_time=None,
        inflation=None,
        gpu_seconds=None,
        money=None,
        modelled=(),
        labels={key: label for key, label in cost.labels.items() if key not in gone},
        notes=(*cost.notes, NO_LOOP),
    )


def modelled_cost(spans: Sequence[Span], *, gpus: int = 1, gpu_hour_price: float | None = None) -> Cost:
    """The account of batches without a counterfactual of their own: that is modelled, the rest measured."""
    by_batch = list(batches(spans).values())
    shares = [attribute(batch) for batch in by_batch]
    judged = [s for s in spans if s.degenerate is not None]
    cost = Cost(
        requests=len(spans),
        degenerate=sum(s.degenerate is True and not s.planted for s in judged) if judged else None,
        planted=sum(s.planted for s in spans),
        failed=sum(s.failure is not None for s in spans),
        batches=len(by_batch),
        rate=rates.degeneration_rate(spans),
        dharma_rate=rates.dharma_rate(spans),
        wall_clock=fmean(wall_clock(batch) for batch in by_batch) if by_batch else None,
        output_tokens=sum(s.output_tokens for s in spans),
        wasted_tokens=wasted_tokens(spans),
        gpus=gpus,
        gpu_hour_price=gpu_hour_price,
        gpu_seconds_used=sum(a.used for a in shares) * gpus,
        gpu_seconds_after_onset=sum(a.after_onset for a in shares) * gpus if judged else None,
        naive=modelled.naive(spans),
        labels=dict.fromkeys((*_ALWAYS_MEASURED, "gpu_seconds_used", "gpu_seconds_after_onset"), "measured"),
        spans=tuple(spans),
    )
    cost = _with_kv(cost, spans, shares)
    models = [m for batch in by_batch if (m := modelled.source_method(batch)) is not None]
    if not judged or len(models) < len(by_batch) or not models:
        return cost
    wall, counterfactual = fmean(m.wall_clock for m in models), fmean(m.counterfactual for m in models)
    share, inflation = paired.tax(wall, counterfactual)
    cost = replace(cost, modelled=(Modelled(modelled.METHOD, wall, counterfactual, share, inflation),))
    return _priced(cost, wall, counterfactual, Known.MODELLED)


def _priced(cost: Cost, wall: float, counterfactual: float, known: Known) -> Cost:
    """The account with this pair of wall clocks (seconds) in force, and what follows from it."""
    share, inflation = paired.tax(wall, counterfactual)
    seconds = (wall - counterfactual) * cost.batches * cost.gpus
    keys = ("counterfactual_s", "share_of_time", "inflation", "gpu_seconds", "money")
    return replace(
        cost,
        wall_clock=wall,
        counterfactual=counterfactual,
        share_of_time=share,
        inflation=inflation,
        gpu_seconds=seconds,
        money=money(seconds, cost.gpu_hour_price),
        labels={**cost.labels, **dict.fromkeys(keys, known)},
    )


def _with_kv(cost: Cost, spans: Sequence[Span], shares: Sequence[Attribution]) -> Cost:
    """The loops' share of the resident tokens; not measured where prompts have no known length."""
    total = sum(a.kv_all for a in shares)
    known = all(s.prompt_tokens is not None or s.failure is not None for s in spans)
    if total <= 0 or not known or cost.degenerate is None:
        return cost
    labels = {**cost.labels, "kv_share": Known.MEASURED, "kv_peak": Known.MEASURED}
    share, peak = sum(a.kv_loops for a in shares) / total, max(a.kv_peak for a in shares)
    return replace(cost, kv_share=share, kv_peak=peak, labels=labels)


def _energy(found: Sequence[paired.Pair], joules: Mapping[str, float]) -> float | None:
    """Joules that loops cost over all pairs; None unless every batch has a reading."""
    total = 0.0
    for pair in found:
        one, other = joules.get(pair.loops[0].batch), joules.get(pair.capped[0].batch)
        if one is None or other is None:
            return None
        total += one - other
    return total


def _notes(found: Sequence[paired.Pair]) -> list[str]:
    notes = []
    if not any(pair.healthy for pair in found):
        notes.append(NO_HEALTHY)
    again = sum(_new_loops(pair) for pair in found)
    quiet = sum(p.loops is p.capped for p in found)
    if quiet:
        notes.append(
            f"{quiet} of {len(found)} pairs had no loop: their ratio is 1 without a second batch, "
            "since there was nothing to cap"
        )
    if again:
        notes.append(
            f"{again} requests looped only in the capped batches, where nobody had capped them: the ratios "
            "are a lower bound"
        )
    if len(found) < paired.FEWEST_PAIRS:
        notes.append(f"{len(found)} pairs are too few for an interval; eight are the default")
    return notes


def _new_loops(pair: paired.Pair) -> int:
    """Requests that loop in the capped batch alone: the server does not write the same text twice."""
    if pair.loops is pair.capped:
        return 0
    known = {s.id for s in pair.loops if s.loops or s.planted}
    return sum(s.loops and s.id not in known for s in pair.capped)
