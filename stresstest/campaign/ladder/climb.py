"""Which generations next: climb until onsets appear, then one certifying sample whose size was fixed before.

`next_step` is a pure function of the setup and the results so far. Climb generations choose the
certifying rung and are therefore never part of the certifying sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from stresstest.campaign.ladder.ascent import (
    ClimbObservation,
    ClimbState,
    StopReason,
    median_onset,
    read_climb,
)
from stresstest.campaign.ladder.plan import (
    ALARM_HEADROOM,
    CERTIFY_FACTOR,
    CLIMB_PER_RUNG,
    MAX_OVERSAMPLING,
    LadderSetup,
    Rung,
    ladder_job,
    look_sizes,
    units_for,
)
from stresstest.campaign.ladder.reach import sample_reach
from stresstest.model import GenerationRecord, Job, Phase
from stresstest.statistics import MAX_LOOKS, observations
from stresstest.statistics.certify import certify_looks

# Further looks are pointless once a look gains less than this over the best before it.
_LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class ClimbStep:
    """Finish `jobs` of a rung of the climb. total: generations of the rung, done ones included."""

    rung: Rung
    jobs: tuple[Job, ...]
    reason: str
    total: int = CLIMB_PER_RUNG


@dataclass(frozen=True, slots=True)
class CertifyStep:
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
class LadderDone:
    """Nothing more to send. complete: False when a budget, not the plan, is the reason."""

    reason: str
    complete: bool = True


LadderStep = ClimbStep | CertifyStep | LadderDone


@dataclass(frozen=True, slots=True)
class CertifyingChoice:
    """A certifying rung and its sample, fixed before it starts. expected: the T that the climb suggests.

    suspected: median onset of the climb, None without any. most: generations that the budget leaves room for;
    looks beyond it are not begun.
    """

    rung: Rung
    requests: int
    expected: int
    share: float
    reason: str
    suspected: int | None = None
    most: int | None = None


def next_step(setup: LadderSetup, done: Sequence[GenerationRecord]) -> LadderStep:
    """The generations to send now. `done`: all finished ones of the run, in any order, lost ones included.

    A lost generation is done: its key is not requested again, and the certifying sample is never topped up,
    because a sample that grows until it pleases certifies nothing.
    """
    by_key = {g.key: g for g in done}
    ascent = read_climb(setup, by_key)
    if ascent.rung is not None:
        return ClimbStep(ascent.rung, ascent.pending, _climb_reason(ascent))
    if ascent.stop_reason is StopReason.LOST:
        lost = CLIMB_PER_RUNG * len(ascent.climbed)
        return LadderDone(
            f"all {lost} answers of the climb were lost to service failures; nothing can be certified"
        )
    choice = _fit_budget(setup, choose_certifying_rung(setup, ascent), done)
    if isinstance(choice, LadderDone):
        return choice
    other = choose_other_rung(setup, ascent, choice, by_key)
    if other is not None:
        affordable = _fit_budget(setup, other, done)
        choice = choice if isinstance(affordable, LadderDone) else affordable
    return _certifying(setup, choice, by_key)


def _fit_budget(
    setup: LadderSetup, choice: CertifyingChoice, done: Sequence[GenerationRecord]
) -> CertifyingChoice | LadderDone:
    """The sample, no larger than the budget allows; done where that is less than the floor needs."""
    if setup.budget_tokens is None:
        return choice
    spent = sum(g.output_tokens for g in done if g.job.rung < choice.rung.number)
    afforded = max(0, setup.budget_tokens - spent) // choice.rung.max_tokens
    needed = ceil(setup.rigor.floor / choice.share)
    if afforded < needed:
        return LadderDone(
            f"the budget leaves room for {afforded} certifying answers of up to "
            f"{choice.rung.max_tokens:,} tokens; at least {needed} are needed",
            complete=False,
        )
    return replace(choice, requests=min(choice.requests, afforded), most=afforded)


def _climb_reason(ascent: ClimbState) -> str:
    if not ascent.climbed:
        return "first rung"
    failed = sum(c.failed for c in ascent.climbed)
    longest = max(c.longest for c in ascent.climbed)
    if failed:
        return f"{failed} of {len(ascent.seen)} have degenerated so far, not enough to place the threshold"
    return f"healthy up to {longest:,} tokens so far"


def choose_certifying_rung(setup: LadderSetup, ascent: ClimbState) -> CertifyingChoice:
    """The certifying rung: requests >= 1.5 x the expected T, no longer than an alarm may need.

    Expected T: the median onset of the climb; without enough onsets the longest health seen sets the
    length, and the shortest healthy answer of the last rung the T whose share at risk counts.
    """
    onset = median_onset(s.onset for s in ascent.seen)
    if ascent.stop_reason is StopReason.ONSETS and onset is not None:
        reach = expected = onset
        failing = [c.rung.target_tokens for c in ascent.climbed if c.failed == len(c.seen) > 0]
        least = min(failing, default=ascent.climbed[0].rung.target_tokens)
        reason = f"the climb's answers degenerated at about {onset:,} tokens"
    else:
        reach = max((s.length for s in ascent.seen), default=0) or setup.horizon
        expected = _shortest_at_the_top(ascent) or reach
        least = ascent.climbed[0].rung.target_tokens
        reason = _healthy_reason(ascent, reach)
    target = min(setup.horizon, max(ceil(CERTIFY_FACTOR * reach), least))
    delay = max((s.alarm_delay for s in ascent.seen), default=0)
    room = max(ALARM_HEADROOM, ceil(reach / 2), ceil(CERTIFY_FACTOR * delay))
    cap = setup.horizon if setup.prompts_fixed else min(setup.horizon, ceil(CERTIFY_FACTOR * reach) + room)
    number = ascent.climbed[-1].rung.number + 1
    share = share_at_risk(ascent.seen, expected)
    requests = min(ceil(setup.rigor.planned / share), MAX_OVERSAMPLING * setup.rigor.planned)
    rung = Rung(number, units_for(setup, target, ascent.tokens_per_unit), target, cap)
    return CertifyingChoice(rung, requests, expected, share, reason, onset)


def choose_other_rung(
    setup: LadderSetup,
    ascent: ClimbState,
    choice: CertifyingChoice,
    done: Mapping[str, GenerationRecord],
) -> CertifyingChoice | None:
    """The climbed rung whose answers got to the suspected onset most often, where the chosen one's do not.

    Models that are asked for more may write less. Decided once the first sample (with `tighten` its first
    look) is complete, from lengths and endings alone. The other sample is a new one; both together are no
    more than the plan said. None: the first sample is the one that certifies.
    """
    jobs = [ladder_job(setup, Phase.CERTIFY, choice.rung, i) for i in range(choice.requests)]
    if choice.suspected is None or any(job.key not in done for job in jobs):
        return None
    sample = [done[job.key] for job in jobs]
    first = sample_reach(sample, choice.suspected, setup.rigor)
    found = find_reaching_rung(ascent, choice)
    if first.enough or found is None or found[1] <= 1.0 - first.ended / first.size:
        return None
    rung, share = found[0], max(1.0 / MAX_OVERSAMPLING, found[1])
    room = MAX_OVERSAMPLING * setup.rigor.planned - choice.requests
    if room < ceil(setup.rigor.floor / share):
        return None
    reason = (
        f"{first.ended} of {first.size} answers ended on their own before the {first.tokens:,} tokens at "
        f"which the climb's answers degenerated; the next sample requests {rung.units} units, "
        f"as the climb did"
    )
    rung = Rung(choice.rung.number + MAX_LOOKS, rung.units, rung.target_tokens, choice.rung.max_tokens)
    requests = min(ceil(setup.rigor.planned / share), room)
    return replace(choice, rung=rung, requests=requests, share=share, reason=reason, most=None)


def find_reaching_rung(ascent: ClimbState, choice: CertifyingChoice) -> tuple[Rung, float] | None:
    """The rung of the climb, of another length than the chosen one, of whose answers the largest share failed
    or reached the suspected onset, and that share; of equal ones the longest. None without any."""
    suspected = choice.suspected or 0
    shares = [
        (sum(1 for s in c.seen if s.onset is not None or s.length >= suspected) / len(c.seen), c.rung)
        for c in ascent.climbed
        if c.seen and c.rung.units != choice.rung.units
    ]
    share, rung = max(shares, key=lambda each: (each[0], each[1].target_tokens), default=(0.0, choice.rung))
    return (rung, share) if share else None


def certified_length(setup: LadderSetup, done: Sequence[GenerationRecord]) -> int | None:
    """Tokens that the certifying prompts of a finished campaign asked for; None without a complete climb."""
    by_key = {g.key: g for g in done}
    ascent = read_climb(setup, by_key)
    if ascent.rung is not None or ascent.stop_reason is StopReason.LOST:
        return None
    choice = choose_certifying_rung(setup, ascent)
    return (choose_other_rung(setup, ascent, choice, by_key) or choice).rung.target_tokens


def _shortest_at_the_top(ascent: ClimbState) -> int:
    last = [c for c in ascent.climbed if c.seen][-1]
    return min((s.length for s in last.seen if s.onset is None), default=0)


def _healthy_reason(ascent: ClimbState, reach: int) -> str:
    failed = sum(c.failed for c in ascent.climbed)
    if ascent.stop_reason is StopReason.PLATEAU:
        return f"answers end on their own at up to {reach:,} tokens, whatever length is requested"
    if failed:
        share = f"{failed} of {len(ascent.seen)} answers of the climb degenerated"
        return f"{share}; healthy answers reached {reach:,} tokens"
    return f"no onset in the climb, which reached {reach:,} tokens"


def share_at_risk(seen: Sequence[ClimbObservation], expected: int) -> float:
    """Share of answers still at risk at the expected T, of those requested at least as long; 0.25 to 1."""
    if not seen:
        return 1.0
    long = [s for s in seen if s.target >= min(expected, max(s.target for s in seen))]
    at_risk = sum(1 for s in long if (s.onset is not None and s.onset <= expected) or s.length >= expected)
    return min(1.0, max(1.0 / MAX_OVERSAMPLING, at_risk / len(long)))


def _certifying(
    setup: LadderSetup, choice: CertifyingChoice, done: Mapping[str, GenerationRecord]
) -> LadderStep:
    """The first declared look that is not complete. Each look has its own rung number in the jobs' keys."""
    declared = look_sizes(setup, choice.requests)
    sizes = [size for size in declared if choice.most is None or size <= choice.most]
    looks: list[list[GenerationRecord]] = []
    start = 0
    for k, size in enumerate(sizes):
        rung = Rung(
            choice.rung.number + k, choice.rung.units, choice.rung.target_tokens, choice.rung.max_tokens
        )
        jobs = [ladder_job(setup, Phase.CERTIFY, rung, i) for i in range(start, size)]
        pending = tuple(j for j in jobs if j.key not in done)
        if pending:
            planned = setup.rigor.planned * 2**k
            return CertifyStep(rung, pending, planned, choice.reason, len(jobs), k + 1, len(sizes))
        looks.append([*(looks[-1] if looks else ()), *(done[j.key] for j in jobs)])
        if k + 1 < len(sizes) and _cannot_improve(setup, looks):
            return LadderDone(
                f"look {k + 1} of {len(sizes)} gained less than 2 %: the declared rule stops here"
            )
        start = size
    return LadderDone("the certifying sample is complete")


def _cannot_improve(setup: LadderSetup, looks: Sequence[Sequence[GenerationRecord]]) -> bool:
    """The declared rule for stopping early. Any rule is valid: every look has its own share of the error."""
    if len(looks) < 2:
        return False
    # Without the invalidated windows: server samples may still arrive, and a decision must not change.
    sets = [[replace(o, invalid_from=None) for o in observations(look)] for look in looks]
    before = certify_looks(sets[:-1], setup.rigor).tokens
    now = certify_looks(sets, setup.rigor).tokens
    return before is not None and now is not None and now < _LEAST_GAIN * before
