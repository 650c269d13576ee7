"""What one answer carries: which hazards, with which onsets, and where they fall in what is to come.

An onset is drawn once per answer and stays with it when the answer is continued. Positions: plane
`context` counts tokens in context, prompt included; every other plane counts the answer's own text from
its first token on, whether it stands in the prompt or not.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from stresstest.model import Plane
from stresstest.simulation.engine.scenario.distribution import (
    conditional_quantile,
    normal_cdf,
    normal_quantile,
)
from stresstest.simulation.engine.scenario.spec import ConditionValue, Hazard, Scenario


def stable_hash(*parts: int | str) -> int:
    """A 63-bit number that depends on all parts and their order."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stable_uniform(*parts: int | str) -> float:
    """A number in (0, 1) from the parts."""
    return (stable_hash(*parts) + 0.5) / (1 << 63)


def hash_token_ids(ids: Iterable[int]) -> int:
    """A 63-bit number of token ids."""
    return int.from_bytes(blake2b(array("q", ids).tobytes(), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class LatentAnswer:
    """What an answer carries, drawn before its first token.

    onsets: one a hazard, in the hazard's own count of tokens, None: not carried. end: tokens of text
    after which it ends by itself, None: when all that was asked for is written.
    """

    seed: int
    onsets: tuple[float | None, ...]
    end: float | None = None


@dataclass(frozen=True, slots=True)
class ArmedHazard:
    """A carried hazard whose conditions on prompt and decoding are met. at: 1-based token of this request."""

    hazard: Hazard
    at: int


def draw_answer(scenario: Scenario, seed: int) -> LatentAnswer:
    """The latent draw of a fresh answer, service failures excepted: those are drawn anew at every attempt."""
    shares = [stable_uniform(seed, "onset", i) for i in range(len(scenario.hazards))]
    onsets = tuple(
        hazard.quantile(shares[i])
        if hazard.is_text_failure and stable_uniform(seed, "carried", i) < hazard.probability
        else None
        for i, hazard in enumerate(scenario.hazards)
    )
    return LatentAnswer(seed, onsets, _early_end(scenario, seed, shares))


def _early_end(scenario: Scenario, seed: int, shares: list[float]) -> float | None:
    """An early natural end, tied to the first text hazard's onset by a Gaussian copula."""
    model = scenario.model
    if model.early_end is None or stable_uniform(seed, "ends early") >= model.early_end_share:
        return None
    own = normal_quantile(stable_uniform(seed, "early end"))
    first = next((i for i, hazard in enumerate(scenario.hazards) if hazard.is_text_failure), None)
    tie = model.early_end_correlation
    if first is not None and tie:
        own = tie * normal_quantile(shares[first]) + math.sqrt(1.0 - tie * tie) * own
    return model.early_end.quantile(normal_cdf(own))


def continue_answer(
    scenario: Scenario, latent: LatentAnswer, seed: int, answer_tokens: int, context_tokens: int
) -> LatentAnswer:
    """The same answer's latent draw from a later place on.

    An onset that lies before it never came to be (its hazard was not armed, or an intervention held it
    off); what would have failed already is then drawn anew, later than here.
    """
    onsets = list(latent.onsets)
    for i, hazard in enumerate(scenario.hazards):
        onset = onsets[i]
        passed = context_tokens if hazard.plane is Plane.CONTEXT else answer_tokens
        if onset is not None and onset <= passed:
            onsets[i] = conditional_quantile(
                hazard.onset, passed, stable_uniform(latent.seed, seed, "again", i)
            )
    return replace(latent, onsets=tuple(onsets))


def armed_hazards(
    scenario: Scenario,
    latent: LatentAnswer,
    given: Mapping[str, ConditionValue | None],
    answer_tokens: int,
    context_tokens: int,
) -> list[ArmedHazard]:
    """The hazards that will strike in what is still to be written, first onset first.

    answer_tokens: of this answer written before (or cut away); context_tokens: of the whole prompt.
    """
    found = []
    for hazard, onset in zip(scenario.hazards, latent.onsets, strict=True):
        if onset is not None and hazard.is_armed(given):
            before = context_tokens if hazard.plane is Plane.CONTEXT else answer_tokens
            found.append(ArmedHazard(hazard, max(1, round(onset) - before)))
    return sorted(found, key=lambda each: each.at)


def draw_service_failures(
    scenario: Scenario, seed: int, attempt: int, given: Mapping[str, ConditionValue | None]
) -> list[ArmedHazard]:
    """The service failures of one attempt at a request: a retry draws again."""
    return [
        ArmedHazard(hazard, max(1, round(hazard.quantile(stable_uniform(seed, attempt, "fault at", i)))))
        for i, hazard in enumerate(scenario.hazards)
        if not hazard.is_text_failure
        and stable_uniform(seed, attempt, "fault", i) < hazard.probability
        and hazard.is_armed(given)
    ]
