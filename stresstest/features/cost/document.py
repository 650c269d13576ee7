"""``cost --json``: a cost as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from stresstest.model.cost import Cost, CostRatio, ModelledCost, RequestSpan
from stresstest.render.json_text import LazyRows, json_pieces


def cost_document(cost: Cost) -> dict[str, Any]:
    """``cost --json``. Values that were not measured are null, never 0."""
    return {
        "requests": cost.requests,
        "degenerate": cost.degenerate,
        "planted": cost.planted,
        "failed": cost.failed,
        "batches": cost.batches,
        "pairs": cost.pairs,
        "rate": cost.rate and cost.rate.value,
        "rate_ci": _ci(cost.rate),
        "dharma_rate": cost.dharma_rate and cost.dharma_rate.value,
        "dharma_rate_ci": _ci(cost.dharma_rate),
        "wall_clock_s": cost.wall_clock,
        "counterfactual_s": cost.counterfactual,
        "share_of_time": cost.share_of_time,
        "inflation": cost.inflation,
        "wall_clock_ratio": _ratio(cost.wall_clock_ratio),
        "healthy_slowdown": _ratio(cost.healthy_slowdown),
        "step_ratio": _ratio(cost.step_ratio),
        "output_tokens": cost.output_tokens,
        "wasted_tokens": cost.wasted_tokens,
        "gpus": cost.gpus,
        "gpu_seconds": cost.gpu_seconds,
        "gpu_seconds_used": cost.gpu_seconds_used,
        "gpu_seconds_after_onset": cost.gpu_seconds_after_onset,
        "energy_joules": cost.energy_joules,
        "gpu_hour_price": cost.gpu_hour_price,
        "money": cost.money,
        "kv_share": cost.kv_share,
        "kv_peak": cost.kv_peak,
        "kv_cache_tokens": cost.kv_cache_tokens,
        "modelled": [_modelled(each) for each in cost.modelled],
        "naive": None
        if cost.naive is None
        else {
            "inside_s": cost.naive.inside,
            "outside_s": cost.naive.outside,
            "ratio": cost.naive.ratio,
            "n_inside": cost.naive.n_inside,
            "n_outside": cost.naive.n_outside,
            "bias": cost.naive.bias,
        },
        "labels": {key: str(label) for key, label in cost.labels.items()},
        "notes": list(cost.notes),
        "subject": None if cost.subject is None else asdict(cost.subject),
        "decoding": None if cost.decoding is None else cost.decoding.given(),
        "source": cost.source,
        "simulated": cost.simulated,
        "complete": cost.complete,
        "timeline": [_span(span) for span in cost.spans],
    }


def cost_pieces(cost: Cost, added: dict[str, Any]) -> Iterator[str]:
    """The text of ``cost --json``, which is long for a log of many requests. added: more keys."""
    document = cost_document(replace(cost, spans=()))
    return json_pieces(document | {"timeline": LazyRows(_span, cost.spans)} | added)


def empty_cost_document() -> dict[str, Any]:
    """``cost --json`` after an interruption before the end of the first batch: all keys, without values."""
    document = cost_document(Cost(requests=0, complete=False, batches=0))
    return document | {"output_tokens": None}


def _ci(ratio: CostRatio | None) -> list[float | None] | None:
    return None if ratio is None or ratio.lo is None else [ratio.lo, ratio.hi]


def _ratio(ratio: CostRatio | None) -> dict[str, Any]:
    if ratio is None:
        return {"ratio": None, "ci": None, "n": None, "method": None}
    return {"ratio": ratio.value, "ci": _ci(ratio), "n": ratio.n, "method": ratio.method}


def _modelled(each: ModelledCost) -> dict[str, Any]:
    return {
        "method": each.method,
        "wall_clock_s": each.wall_clock,
        "counterfactual_s": each.counterfactual,
        "share_of_time": each.share_of_time,
        "inflation": each.inflation,
        "healthy_slowdown": each.healthy_slowdown,
    }


def _span(span: RequestSpan) -> dict[str, Any]:
    return {
        "id": span.id,
        "batch": span.batch or None,
        "arm": span.arm or None,
        "cluster": span.cluster or None,
        "submitted": span.submitted,
        "first_token": span.first_token,
        "end": span.end,
        "prompt_tokens": span.prompt_tokens,
        "output_tokens": span.output_tokens,
        "degenerate": span.degenerate,
        "planted": span.planted,
        "onset": span.onset,
        "onset_at": span.onset_at,
        "capped": span.capped,
        "failure": span.failure,
    }
