"""Which generations next: climb until onsets appear, then one certifying sample whose size was fixed before.

`next_step` is a pure function of the setup and the results so far. Climb generations choose the
certifying rung and are therefore never part of the certifying sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from stresstest.ladder.ascent import Ascent, Sighting, Why, ascend, middle_onset
from stresstest.ladder.plan import (
    ALARM_ROOM,
    CLIMB_PER_RUNG,
    MOST_OVERSAMPLING,
    REACH,
    LadderSetup,
    Rung,
    job,
    look_sizes,
    units_for,
)
from stresstest.model import Generation, Job, Phase
from stresstest.threshold import certify_looks, observations

# Further looks are pointless once a look gains less than this over the best before it.
_LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class Climb:
    """Finish `jobs` of a rung of the climb. total: generations of the rung, done ones included."""

    rung: Rung
    jobs: tuple[Job, ...]
    reason: str
    total: int = CLIMB_PER_RUNG


@dataclass(frozen=True, slots=True)
class Certify:
    """Finish `jobs` of the certifying sample, or of one declared look at it.

    total: generations of this stage, done ones included. look: 1-based, of `looks` declared.
    """

    rung: Rung
    jobs: tuple[Job, ...]
    planned_at_risk: int
    reason: str
    total: int
    look: int = 1
    looks: int = 1


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to send. complete: False when a budget, not the plan, is the reason."""

    reason: str
    complete: bool = True


Step = Climb | Certify | Done


@dataclass(frozen=True, slots=True)
class Choice:
    """The certifying rung and its sample, fixed by the climb. expected: the T that the climb suggests.

    most: generations that the budget leaves room for; looks beyond it are not begun.
    """

    rung: Rung
    requests: int
    expected: int
    share: float
    reason: str
    most: int | None = None


def next_step(setup: LadderSetup, done: Sequence[Generation]) -> Step:
    """The generations to send now. `done`: all finished ones of the run, in any order, lost ones included.

    A lost generation is done: its key is not asked again, and the certifying sample is never topped up,
    because a sample that grows until it pleases certifies nothing.
    """
    by_key = {g.key: g for g in done}
    ascent = ascend(setup, by_key)
    if ascent.rung is not None:
        return Climb(ascent.rung, ascent.pending, _climb_reason(ascent))
    if ascent.why is Why.LOST:
        lost = CLIMB_PER_RUNG * len(ascent.climbed)
        return Done(
            f"all {lost} generations of the climb were lost to service failures; nothing can be certified"
        )
    choice = choose(setup, ascent)
    if setup.budget_tokens is not None:
        spent = sum(g.output_tokens for g in done if g.job.phase is Phase.CLIMB)
        afforded = max(0, setup.budget_tokens - spent) // choice.rung.max_tokens
        needed = ceil(setup.rigor.floor / choice.share)
        if afforded < needed:
            return Done(
                f"the budget leaves room for {afforded} certifying generations of up to "
                f"{choice.rung.max_tokens} tokens; at least {needed} are needed",
                complete=False,
            )
        choice = replace(choice, requests=min(choice.requests, afforded), most=afforded)
    return _certifying(setup, choice, by_key)


def _climb_reason(ascent: Ascent) -> str:
    if not ascent.climbed:
        return "first rung"
    failed = sum(c.failed for c in ascent.climbed)
    longest = max(c.longest for c in ascent.climbed)
    if failed:
        return f"{failed} of {len(ascent.seen)} have degenerated so far, not enough to place the threshold"
    return f"healthy up to {longest} tokens so far"


def choose(setup: LadderSetup, ascent: Ascent) -> Choice:
    """The certifying rung: >= 1.5 x the expected T asked for, no longer than an alarm may need.

    Expected T: the median onset of the climb; without enough onsets the longest health seen sets the
    length, and the shortest healthy answer of the last rung the T whose share at risk counts.
    """
    onset = middle_onset(ascent)
    if ascent.why is Why.ONSETS and onset is not None:
        reach = expected = onset
        failing = [c.rung.target_tokens for c in ascent.climbed if c.failed == len(c.seen) > 0]
        least = min(failing, default=ascent.climbed[0].rung.target_tokens)
        reason = f"the climb degenerated at about {onset} tokens"
    else:
        reach = max((s.length for s in ascent.seen), default=0) or setup.horizon
        expected = _shortest_at_the_top(ascent) or reach
        least = ascent.climbed[0].rung.target_tokens
        reason = _healthy_reason(ascent, reach)
    target = min(setup.horizon, max(ceil(REACH * reach), least))
    delay = max((s.alarm_delay for s in ascent.seen), default=0)
    room = max(ALARM_ROOM, ceil(reach / 2), ceil(REACH * delay))
    cap = setup.horizon if setup.prompts_fixed else min(setup.horizon, ceil(REACH * reach) + room)
    number = ascent.climbed[-1].rung.number + 1
    share = share_at_risk(ascent.seen, expected)
    requests = min(ceil(setup.rigor.planned / share), MOST_OVERSAMPLING * setup.rigor.planned)
    rung = Rung(number, units_for(setup, target, ascent.tokens_per_unit), target, cap)
    return Choice(rung, requests, expected, share, reason)


def _shortest_at_the_top(ascent: Ascent) -> int:
    last = [c for c in ascent.climbed if c.seen][-1]
    return min((s.length for s in last.seen if s.onset is None), default=0)


def _healthy_reason(ascent: Ascent, reach: int) -> str:
    failed = sum(c.failed for c in ascent.climbed)
    if ascent.why is Why.PLATEAU:
        return f"answers end by themselves at up to {reach} tokens however much is asked for"
    if failed:
        return (
            f"{failed} of {len(ascent.seen)} of the climb degenerated; healthy answers reached {reach} tokens"
        )
    return f"no onset in the climb, which reached {reach} tokens"


def share_at_risk(seen: Sequence[Sighting], expected: int) -> float:
    """Share of answers still at risk at the expected T, of those asked for at least as much; 0.25 to 1."""
    if not seen:
        return 1.0
    asked = [s for s in seen if s.target >= min(expected, max(s.target for s in seen))]
    at_risk = sum(1 for s in asked if (s.onset is not None and s.onset <= expected) or s.length >= expected)
    return min(1.0, max(1.0 / MOST_OVERSAMPLING, at_risk / len(asked)))


def _certifying(setup: LadderSetup, choice: Choice, done: Mapping[str, Generation]) -> Step:
    """The first declared look that is not complete. Each look has its own rung number in the jobs' keys."""
    declared = look_sizes(setup, choice.requests)
    sizes = [size for size in declared if choice.most is None or size <= choice.most]
    looks: list[list[Generation]] = []
    start = 0
    for k, size in enumerate(sizes):
        rung = Rung(
            choice.rung.number + k, choice.rung.units, choice.rung.target_tokens, choice.rung.max_tokens
        )
        jobs = [job(setup, Phase.CERTIFY, rung, i) for i in range(start, size)]
        pending = tuple(j for j in jobs if j.key not in done)
        if pending:
            planned = setup.rigor.planned * 2**k
            return Certify(rung, pending, planned, choice.reason, len(jobs), k + 1, len(sizes))
        looks.append([*(looks[-1] if looks else ()), *(done[j.key] for j in jobs)])
        if k + 1 < len(sizes) and _gains_nothing(setup, looks):
            return Done(f"look {k + 1} of {len(sizes)} gained less than 2 %: the declared rule stops here")
        start = size
    return Done("the certifying sample is complete")


def _gains_nothing(setup: LadderSetup, looks: Sequence[Sequence[Generation]]) -> bool:
    """The declared rule for stopping early. Any rule is valid: every look has its own share of the error."""
    if len(looks) < 2:
        return False
    # Without the invalidated windows: server samples may still arrive, and a decision must not change.
    sets = [[replace(o, invalid_from=None) for o in observations(look)] for look in looks]
    before = certify_looks(sets[:-1], setup.rigor).tokens
    now = certify_looks(sets, setup.rigor).tokens
    return before is not None and now is not None and now < _LEAST_GAIN * before
