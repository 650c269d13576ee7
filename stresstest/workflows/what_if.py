"""`cost --simulate`: the engine fitted to what was measured, asked what it would do otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stresstest.config import parse_share
from stresstest.economics.account import Prices
from stresstest.economics.fit import FLOOR, Fitted, fit_engine
from stresstest.economics.optimum import Optimum, attempts_of, optimum
from stresstest.economics.retry import Delivery, measured_deliveries
from stresstest.economics.whatif import Prediction, WhatIf, predict
from stresstest.errors import UsageError
from stresstest.model.cost import CostArm, Span

EXAMPLE = "--simulate rate=5%,max_tokens=2000"


@dataclass(frozen=True, slots=True)
class Simulated:
    """The fitted engine, what it predicts as measured and for each what-if, and the cheapest cap.

    fitted, baseline: None where nothing was asked, or for the reason in `lacking`. best_cap: None without
    enough healthy answers. deliveries: measured tokens for a delivered answer, loops let run and aborted.
    """

    fitted: Fitted | None = None
    baseline: Prediction | None = None
    predictions: tuple[Prediction, ...] = ()
    best_cap: Optimum | None = None
    lacking: str | None = None
    deliveries: tuple[Delivery, ...] = ()


def parse_what_if(text: str) -> WhatIf:
    """``"rate=5%,max_tokens=2000"`` → the settings of one what-if. Raises UsageError."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        name = name.lstrip("-").replace("-", "_")
        if name not in _READERS or not equals or name in given:
            why = "is named twice" if name in given else f"is not known: {', '.join(_READERS)}"
            raise UsageError(f"--simulate {name!r} {why}.", hint=f"Write for example {EXAMPLE}")
        try:
            given[name] = _READERS[name](value)
        except (ValueError, UsageError):
            raise UsageError(f"--simulate {name}={value!r} is no {_KINDS[name]}.") from None
    if "concurrency" in given and "arrivals" in given:
        raise UsageError("--simulate takes either concurrency or arrivals, not both.")
    return WhatIf(**given)


def _positive(text: str) -> int:
    value = int(text.replace("_", ""))
    if not 0 < value < 1 << 31:
        raise ValueError(text)
    return value


def _pace(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1e6:
        raise ValueError(text)
    return value


_READERS: Mapping[str, Callable[[str], float | int]] = {
    "rate": parse_share,
    "max_tokens": _positive,
    "max_num_seqs": _positive,
    "kv_cache_tokens": _positive,
    "requests": _positive,
    "concurrency": _positive,
    "arrivals": _pace,
}
_KINDS = dict.fromkeys(_READERS, "whole number above zero") | {
    "rate": "share (0.05 or 5%)",
    "arrivals": "number of requests a second",
}


def simulate(
    spans: Sequence[Span],
    what_ifs: Sequence[WhatIf],
    prices: Prices,
    *,
    kv_cache_tokens: int | None = None,
    aborted: bool = False,
) -> Simulated:
    """Fit the engine to measured requests and predict. What these cannot tell is said in `lacking`: the
    requests were paid for, and their account is printed whatever comes of the prediction.

    aborted: loops were aborted in the other arm of the pairs.
    """
    free = [span for span in spans if span.arm != CostArm.CAPPED]
    best = optimum(attempts_of([span for span in free if not span.planted]))
    told = measured_deliveries(spans) if aborted else ()
    if not what_ifs:
        return Simulated(best_cap=best, deliveries=told)
    fitted = fit_engine(spans, kv_cache_tokens=kv_cache_tokens)
    if fitted is None:
        lacking = f"{FLOOR} requests with times and token counts are needed to fit an engine to"
        return Simulated(best_cap=best, lacking=lacking, deliveries=told)
    try:
        baseline, *others = [
            predict(
                fitted,
                free,
                each,
                requests=_one_batch(free),
                gpus=prices.gpus,
                gpu_hour_price=prices.gpu_hour_price,
            )
            for each in (WhatIf(), *what_ifs)
        ]
    except ValueError as error:
        return Simulated(fitted, None, (), best, str(error), told)
    return Simulated(fitted, baseline, tuple(others), best, deliveries=told)


def _one_batch(spans: Sequence[Span]) -> int:
    """How many requests a batch of the measurement had."""
    return max(1, len(spans) // max(1, len({span.batch for span in spans})))
