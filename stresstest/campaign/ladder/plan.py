"""What the ladder may request, known before anything is sent: rungs, requests, worst-case tokens.

A rung is one requested length. Targets are geometric in tokens; the units that a target takes follow
from the tokens that a unit has turned out to take.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import ceil

from stresstest.model import Job, Phase, Rigor
from stresstest.statistics import MAX_LOOKS

CLIMB_PER_RUNG = 2
FIRST_TARGET = 256
FIRST_UNITS = 4
# The certifying rung requests this multiple of the expected threshold.
CERTIFY_FACTOR = 1.5
# Tokens kept beyond what is requested, so that a late onset can still raise its alarm.
ALARM_HEADROOM = 256
# More than this many times the planned sample is never sent to make up for early ends.
MAX_OVERSAMPLING = 4


@dataclass(frozen=True, slots=True)
class LadderSetup:
    """Everything that the ladder's decisions rest on besides results.

    horizon: output tokens a generation may have. tokens_per_unit: first guess. max_units: most units
    a prompt may request (None: no limit). prompts_fixed: the user's own prompts: one rung, its cap
    is the horizon. seed: from which every job's seed is derived. abort: generations are closed after a
    certain onset (changes costs, not decisions). budget_tokens: output tokens for the whole run; the
    certifying sample is made small enough before it starts, because cutting it later would bias it.
    """

    rigor: Rigor
    horizon: int
    tokens_per_unit: float
    max_units: int | None = None
    distinct_prompts: int = 1
    prompts_fixed: bool = False
    tighten: bool = False
    seed: int = 1
    abort: bool = True
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """One requested length. units: None when the prompts are the user's own."""

    number: int
    units: int | None
    target_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What a campaign may take. Tokens are output tokens.

    requests, worst_tokens: no campaign takes more (whole climb, a sample four times the planned one,
    every generation at its cap; retries after service failures come on top).
    expected_requests, expected_tokens: nothing fails, and every answer has the length requested.
    """

    rungs: tuple[Rung, ...]
    requests: int
    worst_tokens: int
    expected_requests: int
    expected_tokens: int
    planned_at_risk: int
    looks: int
    distinct_prompts: int


def rung_targets(setup: LadderSetup) -> list[int]:
    """Rung targets in tokens: from 256 or four units, doubling, the last one the horizon."""
    if setup.prompts_fixed:
        return [setup.horizon]
    target = max(FIRST_TARGET, ceil(FIRST_UNITS * setup.tokens_per_unit))
    found = []
    while target < setup.horizon:
        found.append(target)
        target *= 2
    return [*found, setup.horizon]


def units_for(setup: LadderSetup, target: int, tokens_per_unit: float) -> int | None:
    """Units that make about `target` tokens, within what a prompt may request."""
    if setup.prompts_fixed:
        return None
    units = max(1, ceil(target / max(tokens_per_unit, 1e-9)))
    return units if setup.max_units is None else max(1, min(units, setup.max_units))


def climb_rung(setup: LadderSetup, number: int, target: int, tokens_per_unit: float) -> Rung:
    """A rung of the climb; its cap leaves half as much again for longer units, and room for an alarm."""
    cap = min(setup.horizon, ceil(CERTIFY_FACTOR * target) + ALARM_HEADROOM)
    return Rung(number, units_for(setup, target, tokens_per_unit), target, cap)


def look_sizes(setup: LadderSetup, first: int) -> list[int]:
    """Cumulative sample sizes, one a look: just one without `tighten`, else x 1, 2, 4, 8."""
    return [first * 2**k for k in range(MAX_LOOKS)] if setup.tighten else [first]


def ladder_job(setup: LadderSetup, phase: Phase, rung: Rung, index: int) -> Job:
    """Job `index` of a rung. Its prompt and seed depend on its place alone, never on results.

    Certification takes prompts from the first on, the climb from the last back: they meet only when
    the prompts run out.
    """
    distinct = max(1, setup.distinct_prompts)
    if phase is Phase.CLIMB:
        prompt = distinct - 1 - ((rung.number - 1) * CLIMB_PER_RUNG + index) % distinct
    else:
        prompt = index % distinct
    seed = derive_seed(f"{setup.seed}/{phase}/{rung.number}/{index}")
    return Job(phase, rung.number, index, rung.units, prompt, seed, rung.max_tokens)


def derive_seed(place: str) -> int:
    """The seed of the job at this place of a campaign: 31 bits, which every server accepts."""
    return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=4).digest(), "big") & 0x7FFF_FFFF


def worst_case_plan(setup: LadderSetup) -> PlanSummary:
    """The plan as shown before anything is sent."""
    rungs = tuple(
        climb_rung(setup, i, t, setup.tokens_per_unit) for i, t in enumerate(rung_targets(setup), 1)
    )
    climb = CLIMB_PER_RUNG * len(rungs)
    planned = look_sizes(setup, setup.rigor.planned)[-1]
    most = MAX_OVERSAMPLING * planned
    return PlanSummary(
        rungs=rungs,
        requests=climb + most,
        worst_tokens=CLIMB_PER_RUNG * sum(r.max_tokens for r in rungs) + most * setup.horizon,
        expected_requests=climb + planned,
        expected_tokens=CLIMB_PER_RUNG * sum(r.target_tokens for r in rungs) + planned * setup.horizon,
        planned_at_risk=setup.rigor.planned,
        looks=MAX_LOOKS if setup.tighten else 1,
        distinct_prompts=setup.distinct_prompts,
    )
