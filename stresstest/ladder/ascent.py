"""The climb, read back from what is done: rungs climbed so far, and why it goes on or stops.

Recomputed from scratch each time, from results alone: in whatever order they arrived, and however
often the run was interrupted, the same results give the same climb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from stresstest.ladder.plan import CLIMB_PER_RUNG, LadderSetup, Rung, climb_rung, job, targets
from stresstest.model import Generation, Job, Phase
from stresstest.threshold import observations, outcome

# A rung whose longest healthy answer is not this much longer than any before did not grow.
_GROWTH = 1.1
_FLAT_RUNGS = 2


class Why(StrEnum):
    """Why a climb ended."""

    ONSETS = "onsets"
    PLATEAU = "plateau"
    TOP = "top"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one climb generation tells. length: tokens seen in health; ended: by itself, in health."""

    target: int
    onset: int | None
    length: int
    ended: bool
    alarm_delay: int
    units: int | None


@dataclass(frozen=True, slots=True)
class Climbed:
    """One rung with all its generations done. `seen` leaves out those lost to service failures."""

    rung: Rung
    seen: tuple[Sighting, ...]

    @property
    def failed(self) -> int:
        return sum(1 for s in self.seen if s.onset is not None)

    @property
    def longest(self) -> int:
        return max((s.length for s in self.seen if s.onset is None), default=0)


@dataclass(frozen=True, slots=True)
class Ascent:
    """The climb so far. pending: jobs of `rung` still to do, when the climb goes on; else `why` it ended."""

    climbed: tuple[Climbed, ...]
    tokens_per_unit: float
    rung: Rung | None = None
    pending: tuple[Job, ...] = ()
    why: Why | None = None

    @property
    def seen(self) -> tuple[Sighting, ...]:
        return tuple(s for c in self.climbed for s in c.seen)


def ascend(setup: LadderSetup, done: Mapping[str, Generation]) -> Ascent:
    """Walk the rungs as far as `done` (by job key) reaches."""
    climbed: list[Climbed] = []
    per_unit = setup.tokens_per_unit
    for number, target in enumerate(targets(setup), 1):
        rung = climb_rung(setup, number, target, per_unit)
        if climbed and _asks_no_more(rung, climbed[-1].rung):
            continue
        jobs = [job(setup, Phase.CLIMB, rung, i) for i in range(CLIMB_PER_RUNG)]
        pending = tuple(j for j in jobs if j.key not in done)
        if pending:
            return Ascent(tuple(climbed), per_unit, rung, pending)
        climbed.append(Climbed(rung, _sightings(target, [done[j.key] for j in jobs])))
        per_unit = _tokens_per_unit(climbed, setup.tokens_per_unit)
        why = _stop(climbed)
        if why is not None:
            return Ascent(tuple(climbed), per_unit, why=why)
    nothing = not any(c.seen for c in climbed)
    return Ascent(tuple(climbed), per_unit, why=Why.LOST if nothing else Why.TOP)


def _asks_no_more(rung: Rung, before: Rung) -> bool:
    return rung.units is not None and before.units is not None and rung.units <= before.units


def _sightings(target: int, generations: Sequence[Generation]) -> tuple[Sighting, ...]:
    seen = []
    for generation, observation in zip(generations, observations(generations), strict=True):
        # Without the invalidated windows: server samples may still arrive, and a decision must not change.
        found = outcome(replace(observation, invalid_from=None))
        if found.onset is None and generation.failure is not None:
            continue
        verdict = generation.verdict
        delay = verdict.alarm - found.onset if found.onset is not None and verdict.alarm is not None else 0
        length = verdict.tokens if found.ended else found.reach
        seen.append(Sighting(target, found.onset, length, found.ended, max(0, delay), verdict.units))
    return tuple(seen)


def _tokens_per_unit(climbed: Sequence[Climbed], guess: float) -> float:
    """Tokens a unit takes in healthy answers; whole answers count first, cut ones only without any."""
    healthy = [s for c in climbed for s in c.seen if s.onset is None and s.units]
    whole = [s for s in healthy if s.ended] or [s for s in healthy if (s.units or 0) >= 2]
    units = sum(s.units or 0 for s in whole)
    tokens = sum(s.length for s in whole)
    return tokens / units if units and tokens else guess


def _stop(climbed: Sequence[Climbed]) -> Why | None:
    last = climbed[-1]
    recent = climbed[-2:]
    if last.failed == CLIMB_PER_RUNG or (last.failed and _mostly_failing(recent)):
        return Why.ONSETS
    if len(recent) == 2 and not any(c.seen for c in recent):
        return Why.TOP if any(c.seen for c in climbed) else Why.LOST
    return Why.PLATEAU if _flat(climbed) else None


def _mostly_failing(recent: Sequence[Climbed]) -> bool:
    """Two onsets, and more failed than stayed healthy that long; what had ended before was not at risk."""
    seen = [s for c in recent for s in c.seen]
    onsets = [s.onset for s in seen if s.onset is not None]
    if len(onsets) < 2:
        return False
    healthy = sum(1 for s in seen if s.onset is None and s.length >= max(onsets))
    return len(onsets) > healthy


def _flat(climbed: Sequence[Climbed]) -> bool:
    """Two rungs in a row asked for more and got no more, everything ending in health by itself."""
    useful = [c for c in climbed if c.seen]
    if len(useful) <= _FLAT_RUNGS:
        return False
    for index in range(len(useful) - _FLAT_RUNGS, len(useful)):
        rung = useful[index]
        before = max(c.longest for c in useful[:index])
        if not all(s.ended for s in rung.seen) or rung.longest >= _GROWTH * before:
            return False
    return True


def middle_onset(ascent: Ascent) -> int | None:
    """Median onset of the climb, in tokens; None without any."""
    onsets = [s.onset for s in ascent.seen if s.onset is not None]
    return int(median(onsets)) if onsets else None
