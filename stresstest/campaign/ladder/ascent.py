"""The climb, read back from the finished generations: rungs climbed so far, and why it stopped, if it did.

Recomputed from scratch each time, from results alone: in whatever order they arrived, and however
often the run was interrupted, the same results give the same climb.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from stresstest.campaign.ladder.plan import (
    CLIMB_PER_RUNG,
    LadderSetup,
    Rung,
    climb_rung,
    ladder_job,
    rung_targets,
)
from stresstest.model import GenerationRecord, Job, Phase
from stresstest.statistics import observations
from stresstest.statistics.sample import censor

# A rung whose longest healthy answer is not this much longer than any before did not grow.
_GROWTH = 1.1
_FLAT_RUNGS = 2


class StopReason(StrEnum):
    """Why a climb ended."""

    ONSETS = "onsets"
    PLATEAU = "plateau"
    TOP = "top"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ClimbObservation:
    """What one generation of the climb shows. length: tokens seen in health; ended: by itself, in health."""

    target: int
    onset: int | None
    length: int
    ended: bool
    alarm_delay: int
    units: int | None


@dataclass(frozen=True, slots=True)
class ClimbedRung:
    """One rung with all its generations done. `seen` leaves out those lost to service failures."""

    rung: Rung
    seen: tuple[ClimbObservation, ...]

    @property
    def failed(self) -> int:
        return sum(1 for s in self.seen if s.onset is not None)

    @property
    def longest(self) -> int:
        return max((s.length for s in self.seen if s.onset is None), default=0)


@dataclass(frozen=True, slots=True)
class ClimbState:
    """The climb so far. pending: jobs of `rung` still to do; stop_reason: why it ended, if it did."""

    climbed: tuple[ClimbedRung, ...]
    tokens_per_unit: float
    rung: Rung | None = None
    pending: tuple[Job, ...] = ()
    stop_reason: StopReason | None = None

    @property
    def seen(self) -> tuple[ClimbObservation, ...]:
        return tuple(s for c in self.climbed for s in c.seen)


def read_climb(setup: LadderSetup, done: Mapping[str, GenerationRecord]) -> ClimbState:
    """Walk the rungs as far as `done` (by job key) reaches."""
    climbed: list[ClimbedRung] = []
    per_unit = setup.tokens_per_unit
    for number, target in enumerate(rung_targets(setup), 1):
        rung = climb_rung(setup, number, target, per_unit)
        if climbed and _requests_no_more(rung, climbed[-1].rung):
            continue
        jobs = [ladder_job(setup, Phase.CLIMB, rung, i) for i in range(CLIMB_PER_RUNG)]
        pending = tuple(j for j in jobs if j.key not in done)
        if pending:
            return ClimbState(tuple(climbed), per_unit, rung, pending)
        climbed.append(ClimbedRung(rung, _observe(target, [done[j.key] for j in jobs])))
        per_unit = _tokens_per_unit(climbed, setup.tokens_per_unit)
        why = _stop(climbed)
        if why is not None:
            return ClimbState(tuple(climbed), per_unit, stop_reason=why)
    nothing = not any(c.seen for c in climbed)
    return ClimbState(tuple(climbed), per_unit, stop_reason=StopReason.LOST if nothing else StopReason.TOP)


def _requests_no_more(rung: Rung, before: Rung) -> bool:
    return rung.units is not None and before.units is not None and rung.units <= before.units


def _observe(target: int, generations: Sequence[GenerationRecord]) -> tuple[ClimbObservation, ...]:
    seen = []
    for generation, observation in zip(generations, observations(generations), strict=True):
        # Without the invalidated windows: server samples may still arrive, and a decision must not change.
        found = censor(replace(observation, invalid_from=None))
        if found.onset is None and generation.failure is not None:
            continue
        verdict = generation.verdict
        delay = verdict.alarm - found.onset if found.onset is not None and verdict.alarm is not None else 0
        length = verdict.tokens if found.ended else found.reach
        seen.append(ClimbObservation(target, found.onset, length, found.ended, max(0, delay), verdict.units))
    return tuple(seen)


def _tokens_per_unit(climbed: Sequence[ClimbedRung], guess: float) -> float:
    """Tokens a unit takes in healthy answers; whole answers count first, cut ones only without any."""
    healthy = [s for c in climbed for s in c.seen if s.onset is None and s.units]
    whole = [s for s in healthy if s.ended] or [s for s in healthy if (s.units or 0) >= 2]
    units = sum(s.units or 0 for s in whole)
    tokens = sum(s.length for s in whole)
    return tokens / units if units and tokens else guess


def _stop(climbed: Sequence[ClimbedRung]) -> StopReason | None:
    last = climbed[-1]
    recent = climbed[-2:]
    if last.failed == CLIMB_PER_RUNG or (last.failed and _mostly_failing(recent)):
        return StopReason.ONSETS
    if len(recent) == 2 and not any(c.seen for c in recent):
        return StopReason.TOP if any(c.seen for c in climbed) else StopReason.LOST
    return StopReason.PLATEAU if _is_plateau(climbed) else None


def _mostly_failing(recent: Sequence[ClimbedRung]) -> bool:
    """Two onsets, and more failed than stayed healthy that long; what had ended before was not at risk."""
    seen = [s for c in recent for s in c.seen]
    onsets = [s.onset for s in seen if s.onset is not None]
    if len(onsets) < 2:
        return False
    healthy = sum(1 for s in seen if s.onset is None and s.length >= max(onsets))
    return len(onsets) > healthy


def _is_plateau(climbed: Sequence[ClimbedRung]) -> bool:
    """Two rungs in a row requested more and got no more, all answers healthy and ended by themselves."""
    useful = [c for c in climbed if c.seen]
    if len(useful) <= _FLAT_RUNGS:
        return False
    for index in range(len(useful) - _FLAT_RUNGS, len(useful)):
        rung = useful[index]
        before = max(c.longest for c in useful[:index])
        if not all(s.ended for s in rung.seen) or rung.longest >= _GROWTH * before:
            return False
    return True


def median_onset(onsets: Iterable[int | None]) -> int | None:
    """Median of the onsets there are, in tokens; None without any."""
    found = [onset for onset in onsets if onset is not None]
    return int(median(found)) if found else None
