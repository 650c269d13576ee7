"""The truth about a scenario: q(T) by drawing what answers carry, a million at a time and without text.

q(T) = P(onset <= T | not healthily ended by T), the estimand of the tool. What is drawn here is what the
engine draws; only a unit's length is taken at its mean, and a symptom that must wait for a sentence or a
unit to begin (or a failure of load, asked between sentences) is dated where it was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stresstest.model import Plane
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    FixedDistribution,
    LognormalDistribution,
    UniformDistribution,
    WeibullDistribution,
)
from stresstest.simulation.engine.scenario.spec import ConditionValue, Hazard, Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TruthConditions:
    """Under what the truth is asked: prompt, decoding, load.

    units: asked for; None: endless. None for a sampling parameter: the model's default. prompt_tokens: count
    for hazards of plane `context`.
    """

    task: str | None = "narrative"
    language: str = "it"
    units: int | None = None
    structure: str = "rigid"
    language_constraint: bool = False
    repetition_penalty: float | None = None
    temperature: float | None = None
    top_p: float | None = None
    prompt_tokens: int = 100
    tokens_per_unit: float = 70.0
    concurrency: int = 1
    kv_usage: float = 0.0

    def conditions(self, scenario: Scenario) -> dict[str, ConditionValue | None]:
        model = scenario.model
        return {
            "task": self.task,
            "language": self.language,
            "structure": self.structure,
            "language_constraint": self.language_constraint,
            "concurrency": self.concurrency,
            "kv_usage": self.kv_usage,
            "repetition_penalty": _given(self.repetition_penalty, model.repetition_penalty),
            "temperature": _given(self.temperature, model.temperature),
            "top_p": _given(self.top_p, model.top_p),
        }


@dataclass(frozen=True, slots=True)
class ScenarioTruth:
    """Draws of what answers do, in tokens.

    failed: sorted onsets of those that degenerate; ended: sorted lengths of those that end healthily;
    draws: how many in all (the rest never ends).
    """

    failed: NDArray[np.float64]
    ended: NDArray[np.float64]
    draws: int

    def risk_at(self, tokens: float) -> float | None:
        """q(T) at T = `tokens`; None where every answer has ended healthily."""
        import numpy as np

        left = self.draws - int(np.searchsorted(self.ended, tokens, side="right"))
        return int(np.searchsorted(self.failed, tokens, side="right")) / left if left else None

    def quantile(self, alpha: float) -> int | None:
        """The largest T with q(T) <= alpha, None when q never exceeds it."""
        import numpy as np

        points = np.unique(np.concatenate((self.failed, self.ended)))
        down = np.searchsorted(self.failed, points, side="right")
        left = self.draws - np.searchsorted(self.ended, points, side="right")
        over = np.flatnonzero((left > 0) & (down > alpha * left))
        return None if over.size == 0 else math.ceil(points[over[0]]) - 1


def true_onsets(
    scenario: Scenario, setting: TruthConditions | None = None, *, draws: int = 1_000_000, seed: int = 0
) -> ScenarioTruth:
    """Draw `draws` answers of a scenario in a setting."""
    import numpy as np

    setting = setting or TruthConditions()
    given = setting.conditions(scenario)
    rng = np.random.default_rng(seed)
    onset = np.full(draws, np.inf)
    first: NDArray[np.float64] | None = None
    for hazard in scenario.hazards:
        if not hazard.is_text_failure:
            continue
        shares = rng.random(draws)
        first = shares if first is None else first
        carried = rng.random(draws) < hazard.probability
        if _is_armed(hazard, given):
            before = setting.prompt_tokens if hazard.plane is Plane.CONTEXT else 0
            drawn = np.maximum(1.0, np.round(quantiles(hazard.onset, shares)) - before)
            onset = np.where(carried, np.minimum(onset, drawn), onset)
    per_unit = scenario.tokens_per_unit(given, setting.tokens_per_unit)
    end = _natural_ends(scenario, setting, per_unit, first, draws, rng)
    fails = onset <= end
    return ScenarioTruth(
        np.sort(onset[fails & np.isfinite(onset)]), np.sort(end[~fails & np.isfinite(end)]), draws
    )


def true_quantile(
    scenario: Scenario, setting: TruthConditions, alpha: float, *, draws: int = 1_000_000, seed: int = 0
) -> int | None:
    """The largest T with q(T) <= alpha; None when the risk never gets that high."""
    return true_onsets(scenario, setting, draws=draws, seed=seed).quantile(alpha)


def quantiles(distribution: Distribution, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """`distribution.quantile` for an array of shares (0-1)."""
    import numpy as np
    from scipy.special import ndtri

    match distribution:
        case FixedDistribution(tokens):
            return np.full(shares.shape, tokens)
        case UniformDistribution(low, high):
            return low + shares * (high - low)
        case LognormalDistribution(median, sigma):
            return np.asarray(median * np.exp(sigma * ndtri(np.clip(shares, 1e-12, 1 - 1e-12))))
        case WeibullDistribution(scale, shape):
            return np.asarray(scale * (-np.log1p(-np.minimum(shares, 1 - 1e-12))) ** (1 / shape))
    return np.array([distribution.quantile(float(share)) for share in shares])


def _natural_ends(
    scenario: Scenario,
    setting: TruthConditions,
    per_unit: float,
    first: NDArray[np.float64] | None,
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Tokens after which each answer ends by itself in good order; infinite where it never does."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    model = scenario.model
    asked = math.inf if setting.units is None else setting.units * per_unit
    end = np.full(draws, asked)
    if model.early_end is None:
        return end
    own = rng.standard_normal(draws)
    tie = model.early_end_correlation
    if first is not None and tie:
        own = tie * ndtri(first) + math.sqrt(1.0 - tie * tie) * own
    early = quantiles(model.early_end, ndtr(own))
    if setting.units is not None:
        early = np.ceil(early / per_unit) * per_unit
    return np.where(rng.random(draws) < model.early_end_share, np.minimum(end, early), end)


def _is_armed(hazard: Hazard, given: Mapping[str, ConditionValue | None]) -> bool:
    return all(condition.is_met(given.get(condition.key)) for condition in hazard.requires)


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
