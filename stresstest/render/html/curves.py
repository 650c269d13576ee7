"""Data columns for the charts: step curves evaluated on a common axis of tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from stresstest.model import RIGORS, RunResult
from stresstest.statistics.certify import bound_curve

_POINTS = 400

Points = Sequence[tuple[float, float]]


def survival_data(result: RunResult) -> dict[str, Any] | None:
    """The data of the survival chart; None without a sample.

    x: tokens. coherent, low, high: Kaplan–Meier curve with its band. sure: 1 − the certified bound, which
    ends where too few generations are at risk.
    """
    curve = result.survival
    if not curve:
        return None
    threshold, settings = result.threshold, result.run.settings
    bound = bound_curve(
        result.certifying,
        threshold.confidence,
        temperature=settings.decoding.temperature,
        floor=RIGORS[settings.rigor].floor,
    )
    sure = [(float(t), 1.0 - upper) for t, upper in bound]
    axis = _thin_out(sorted({p[0] for p in curve} | {t for t, _ in sure}))
    return {
        "x": axis,
        "coherent": step_values([(p[0], p[1]) for p in curve], axis),
        "low": step_values([(p[0], p[2]) for p in curve], axis),
        "high": step_values([(p[0], p[3]) for p in curve], axis),
        "sure": step_values(sure, axis, backwards=True),
        "threshold": threshold.tokens,
        "open": threshold.censored_at is not None,
        "safe": result.safe_max_tokens,
        "alpha": threshold.alpha,
        "confidence": threshold.confidence,
        "window": result.run.profile.max_model_len,
    }


def step_values(points: Points, axis: Sequence[float], *, backwards: bool = False) -> list[float | None]:
    """The step curve through `points` at each place of `axis`; None outside the points.

    The value is that of the last point at or before the place; backwards: of the next at or after it.
    """
    places = [at for at, _ in points]
    found: list[float | None] = []
    for at in axis:
        if backwards:
            after = bisect_right(places, at - 1e-9)
            found.append(points[after][1] if after < len(points) else None)
        else:
            before = bisect_right(places, at) - 1
            inside = before >= 0 and at <= places[-1]
            found.append(points[before][1] if inside else None)
    return found


def _thin_out(axis: list[float]) -> list[float]:
    if len(axis) <= _POINTS:
        return axis
    step = -(-len(axis) // _POINTS)
    return [*axis[::step], *([axis[-1]] if (len(axis) - 1) % step else [])]
