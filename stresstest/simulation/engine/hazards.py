"""What one answer carries: which hazards, with which onsets, and where they fall in what is to come.

An onset is drawn once per answer and stays with it when the answer is continued. Positions: plane
`context` counts tokens in context, prompt included; every other plane counts the answer's own text from
its first token on, whether it stands in the prompt or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from stresstest.model import Plane
from stresstest.simulation.engine.conditions import Value
from stresstest.simulation.engine.distribution import later_than, normal_cdf, normal_quantile
from stresstest.simulation.engine.draws import uniform
from stresstest.simulation.engine.scenario import Hazard, Scenario


@dataclass(frozen=True, slots=True)
class Latent:
    """What an answer carries, drawn before its first token.

    onsets: one a hazard, in the hazard's own count of tokens, None: not carried. end: tokens of text
    after which it ends by itself, None: when all that was asked for is written.
    """

    seed: int
    onsets: tuple[float | None, ...]
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Armed:
    """A carried hazard whose conditions on prompt and decoding are met. at: 1-based token of this request."""

    hazard: Hazard
    at: int


def draw(scenario: Scenario, seed: int) -> Latent:
    """The latent draw of a fresh answer, service failures excepted: those are drawn anew at every attempt."""
    shares = [uniform(seed, "onset", i) for i in range(len(scenario.hazards))]
    onsets = tuple(
        hazard.quantile(shares[i])
        if hazard.is_text and uniform(seed, "carried", i) < hazard.probability
        else None
        for i, hazard in enumerate(scenario.hazards)
    )
    return Latent(seed, onsets, _early_end(scenario, seed, shares))


def _early_end(scenario: Scenario, seed: int, shares: list[float]) -> float | None:
    """An early natural end, tied to the first text hazard's onset by a Gaussian copula."""
    model = scenario.model
    if model.early_end is None or uniform(seed, "ends early") >= model.early_end_share:
        return None
    own = normal_quantile(uniform(seed, "early end"))
    first = next((i for i, hazard in enumerate(scenario.hazards) if hazard.is_text), None)
    tie = model.early_end_correlation
    if first is not None and tie:
        own = tie * normal_quantile(shares[first]) + math.sqrt(1.0 - tie * tie) * own
    return model.early_end.quantile(normal_cdf(own))


def continued(
    scenario: Scenario, latent: Latent, seed: int, answer_tokens: int, context_tokens: int
) -> Latent:
    """The same answer's latent draw from a later place on.

    An onset that lies before it never came to be (its hazard was not armed, or an intervention held it
    off); what would have failed already is then drawn anew, later than here.
    """
    onsets = list(latent.onsets)
    for i, hazard in enumerate(scenario.hazards):
        onset = onsets[i]
        passed = context_tokens if hazard.plane is Plane.CONTEXT else answer_tokens
        if onset is not None and onset <= passed:
            onsets[i] = later_than(hazard.onset, passed, uniform(latent.seed, seed, "again", i))
    return replace(latent, onsets=tuple(onsets))


def armed(
    scenario: Scenario,
    latent: Latent,
    given: Mapping[str, Value | None],
    answer_tokens: int,
    context_tokens: int,
) -> list[Armed]:
    """The hazards that will strike in what is still to be written, first onset first.

    answer_tokens: of this answer written before (or cut away); context_tokens: of the whole prompt.
    """
    found = []
    for hazard, onset in zip(scenario.hazards, latent.onsets, strict=True):
        if onset is not None and hazard.armed(given):
            before = context_tokens if hazard.plane is Plane.CONTEXT else answer_tokens
            found.append(Armed(hazard, max(1, round(onset) - before)))
    return sorted(found, key=lambda each: each.at)


def service(scenario: Scenario, seed: int, attempt: int, given: Mapping[str, Value | None]) -> list[Armed]:
    """The service failures of one attempt at a request: a retry draws again."""
    return [
        Armed(hazard, max(1, round(hazard.quantile(uniform(seed, attempt, "fault at", i)))))
        for i, hazard in enumerate(scenario.hazards)
        if not hazard.is_text
        and uniform(seed, attempt, "fault", i) < hazard.probability
        and hazard.armed(given)
    ]
