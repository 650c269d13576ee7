"""Whole campaigns over a world of known truth, thousands at a time.

The climb is the real one: `stresstest.campaign.ladder` is driven with generations made from drawn onsets,
ends and delays, and chooses the certifying rung and its size. The certifying sample is a vectorised twin of
`next_step` and `certified_threshold`; `compare` plays campaigns of every cell through the originals, on
the same draws, and a difference ends the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibrate_worlds import Draws, Floats, World, draw
from stresstest.campaign.ladder import CertifyStep, LadderDone, LadderSetup, next_step
from stresstest.campaign.ladder.ascent import read_climb
from stresstest.campaign.ladder.climb import choose_certifying_rung, find_reaching_rung
from stresstest.campaign.ladder.plan import CLIMB_PER_RUNG
from stresstest.model import (
    FailureKind,
    Generation,
    GenerationVerdict,
    Job,
    Rigor,
    ServiceFailure,
    SymptomKind,
)
from stresstest.model.result import certifying_sample
from stresstest.statistics import MAX_LOOKS, certified_threshold, upper_bound
from stresstest.statistics.sample import HEALTHY_TAIL_TOKENS

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
GUESS = 70.0  # tokens a unit takes, before anything is measured
KEPT_AFTER = 256  # tokens observed after an alarm, as the product does
MOST_RUNGS = 9
CHUNK_CELLS = 4_000_000  # campaigns x generations held in memory at once
_LEAST_GAIN = 1.02  # of the ladder's declared rule for stopping early


@dataclass(frozen=True, slots=True)
class Seen:
    """What a campaign sees of its answers.

    reach: last token known healthy. failed: an alarm about an onset at reach + 1. doubtful: stopped there
    with a candidate open. ended: by itself, in health; closed: by itself, failing or not. lost: to the
    service. tokens: received.
    """

    reach: Floats
    failed: Flags
    doubtful: Flags
    ended: Flags
    closed: Flags
    lost: Flags
    tokens: Floats


def see(world: World, draws: Draws, units: Floats, cap: Floats) -> Seen:
    """Answers asked for `units` (each its own) and cut at `cap`, aborted after an alarm."""
    healthy_end = np.minimum(draws.end, np.ceil(units * world.per_unit * draws.stretch))
    if world.shy is not None:
        healthy_end = np.where(units > world.shy[0], np.minimum(healthy_end, draws.shy), healthy_end)
    failing = draws.onset <= healthy_end
    end = np.where(failing & (not world.ends_anyway), np.inf, healthy_end)
    stop = np.minimum(np.minimum(end, cap), draws.lost)
    ended = stop == end
    lost = ~ended & (draws.lost < cap)
    alarm = draws.onset + draws.delay
    failed = failing & (alarm <= stop)
    begun = failing & (draws.onset <= stop)
    tail = np.where(ended, 0.0, draws.tail)
    reach = np.where(begun, draws.onset - 1.0, np.maximum(stop - tail, 0.0))
    unsettled = stop - reach
    doubtful = ~failed & np.where(lost, unsettled >= HEALTHY_TAIL_TOKENS, unsettled > 0)
    unseen = doubtful & ended & (draws.unseen > 0)
    doubtful, reach = doubtful & ~unseen, np.where(unseen, stop, reach)
    tokens = np.where(failed, np.minimum(alarm + KEPT_AFTER, stop), stop)
    lost &= tokens == stop
    return Seen(reach, failed, doubtful, ended & ~failed, ended & (tokens == stop), lost, tokens)


def generation(job: Job, seen: Seen, draws: Draws, at: tuple[int, ...], per_unit: float) -> Generation:
    """The same answer as the product would store it, without its text."""
    tokens, reach = int(seen.tokens[at]), int(seen.reach[at])
    failed, lost = bool(seen.failed[at]), bool(seen.lost[at])
    onset = reach + 1 if failed else None
    verdict = GenerationVerdict(
        tokens=tokens,
        observed=reach,
        onset=onset,
        alarm=onset + int(draws.delay[at]) if onset is not None else None,
        symptom=SymptomKind.LOOP if failed else None,
        units=max(1, round(reach / per_unit)) if seen.ended[at] else int(reach / per_unit),
    )
    capped = not seen.closed[at] and not lost and tokens == job.max_tokens
    return Generation(
        job=job,
        prompt_id=f"p{job.prompt_index}",
        prompt_text="",
        tokens=(),
        verdict=verdict,
        finish_reason="stop" if seen.closed[at] else "length" if capped else None,
        failure=ServiceFailure(FailureKind.CUT, "cut", at_token=tokens) if lost else None,
        output_tokens=tokens,
    )


@dataclass(frozen=True, slots=True)
class Climbs:
    """What each campaign's climb decided, one entry a campaign, as the ladder's `CertifyingChoice`.

    suspected, other_units, other_share: 0 where there is none. done: the generations of the first climbs, for
    comparison with `next_step`.
    """

    units: Ints
    cap: Ints
    share: Floats
    suspected: Ints
    other_units: Ints
    other_share: Floats
    tokens: Floats
    done: tuple[tuple[Generation, ...], ...]
    setup: LadderSetup

    def requests(self, rigor: Rigor) -> Ints:
        """Size of the first look, as `choose_certifying_rung` has it."""
        planned = np.ceil(rigor.planned / self.share).astype(np.int64)
        return np.minimum(planned, 4 * rigor.planned)


def climb(world: World, rigor: Rigor, campaigns: int, seed: int, kept: int = 0) -> Climbs:
    """Climbs in lock-step: rung by rung the ladder is asked, and all answers of a rung are seen at once.

    The rung that certifies does not depend on the rigor. Campaigns whose climb was lost whole have cap 0.
    """
    rng = np.random.default_rng([seed, 1])
    setup = LadderSetup(rigor, world.horizon, GUESS, distinct_prompts=1000, seed=1)
    done: list[dict[str, Generation]] = [{} for _ in range(campaigns)]
    units, cap = np.zeros(campaigns, np.int64), np.zeros(campaigns, np.int64)
    share, tokens = np.ones(campaigns), np.zeros(campaigns)
    suspected, other_units = np.zeros(campaigns, np.int64), np.zeros(campaigns, np.int64)
    other_share = np.zeros(campaigns)
    climbing = list(range(campaigns))
    for _ in range(MOST_RUNGS + 1):
        asked: list[tuple[int, tuple[Job, ...]]] = []
        for c in climbing:
            ascent = read_climb(setup, done[c])
            if ascent.rung is not None:
                asked.append((c, ascent.pending))
            elif any(rung.seen for rung in ascent.climbed):
                choice = choose_certifying_rung(setup, ascent)
                units[c], cap[c] = choice.rung.units or 0, choice.rung.max_tokens
                share[c], suspected[c] = choice.share, choice.suspected or 0
                other = find_reaching_rung(ascent, choice)
                if choice.suspected is not None and other is not None:
                    other_units[c], other_share[c] = other[0].units or 0, other[1]
        if not asked:
            break
        draws = draw(world, rng, (len(asked), CLIMB_PER_RUNG))
        rows = np.array([[(j.units or 0, j.max_tokens) for j in jobs] for _, jobs in asked], float)
        seen = see(world, draws, rows[..., 0], rows[..., 1])
        for row, (c, jobs) in enumerate(asked):
            tokens[c] += seen.tokens[row].sum()
            for i, job in enumerate(jobs):
                done[c][job.key] = generation(job, seen, draws, (row, i), world.per_unit)
        climbing = [c for c, _ in asked]
    else:
        raise RuntimeError("a climb does not end")
    chosen = (units, cap, share, suspected, other_units, other_share)
    return Climbs(*chosen, tokens, tuple(tuple(d.values()) for d in done[:kept]), setup)


@dataclass(frozen=True, slots=True)
class Certified:
    """Results, one entry a campaign. tokens: the certified T, 0 when none. spent: tokens of the sample.

    looks: looks used. sampled: requests sent for certification. moved: certified at the other length.
    """

    tokens: Ints
    spent: Floats
    looks: Ints
    sampled: Ints
    moved: Flags

    @classmethod
    def nothing(cls, campaigns: int) -> Certified:
        count = np.zeros(campaigns, np.int64)
        return cls(count, np.zeros(campaigns), count.copy(), count.copy(), count > 0)

    def put(self, rows: Ints, found: Certified) -> None:
        for name in ("tokens", "spent", "looks", "sampled", "moved"):
            getattr(self, name)[rows] = getattr(found, name)


@dataclass(frozen=True, slots=True)
class Sample:
    """Answers of some campaigns (rows). Those that fill a row up have reach -1, no flag and no tokens."""

    reach: Floats
    failed: Flags
    doubtful: Flags
    closed: Flags
    lost: Flags
    tokens: Floats

    @classmethod
    def of(cls, seen: Seen, exists: Flags) -> Sample:
        return cls(
            np.where(exists, seen.reach, -1.0),
            seen.failed & exists,
            seen.doubtful & exists,
            seen.closed & exists,
            seen.lost & exists,
            np.where(exists, seen.tokens, 0.0),
        )

    @classmethod
    def joined(cls, parts: Sequence[Sample]) -> Sample:
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(p, n) for p in parts], axis=1) for n in names))

    def rows(self, which: Flags) -> Sample:
        return Sample(*(getattr(self, n)[which] for n in self.__dataclass_fields__))


def most_bad(size: int, rigor: Rigor, confidence: float) -> Ints:
    """For n = 0..size at risk, the most failures (or doubtful ones) whose bound is <= alpha; -1: none."""
    most = np.full(size + 1, -1, dtype=np.int64)
    allowed = -1
    for n in range(1, size + 1):
        while allowed + 1 <= n and upper_bound(allowed + 1, n, confidence) <= rigor.alpha:
            allowed += 1
        most[n] = allowed
    return most


def thresholds(sample: Sample, floor: int, most: Ints) -> Ints:
    """`certify` for each row; 0: nothing certified.

    Going up through the last healthy tokens, everything before has failed, is in doubt or is gone. Among
    equal ones the first has the true counts and the others worse ones, so the last that passes is right.
    """
    order = np.argsort(sample.reach, axis=1)
    sorted_reach = np.take_along_axis(sample.reach, order, axis=1)
    bad = np.take_along_axis(sample.failed, order, axis=1)
    doubt = np.take_along_axis(sample.doubtful, order, axis=1)
    d: Ints = np.cumsum(bad, axis=1) - bad
    in_doubt: Ints = np.cumsum(doubt, axis=1) - doubt
    width = sample.reach.shape[1]
    n = d + np.arange(width, 0, -1)
    passes = (n >= floor) & (d + in_doubt <= most[n + in_doubt]) & (sorted_reach >= 1)
    last = width - 1 - np.argmax(passes[:, ::-1], axis=1)
    tokens = np.take_along_axis(sorted_reach, last[:, None], axis=1)[:, 0]
    return np.where(passes.any(axis=1), tokens, 0.0).astype(np.int64)


def certify_campaigns(world: World, climbs: Climbs, rigor: Rigor, tighten: bool, seed: int) -> Certified:
    """The certifying samples of all climbs."""
    looks = MAX_LOOKS if tighten else 1
    requests = climbs.requests(rigor)
    widest = max(int(requests.max()), int(Asked.of(climbs, rigor, slice(None)).other_requests.max()))
    most = most_bad(widest * 2 ** (looks - 1), rigor, 1.0 - (1.0 - rigor.confidence) / looks)
    rng = np.random.default_rng([seed, 2, rigor.planned, looks])
    total = Certified.nothing(len(requests))
    order = np.argsort(requests, kind="stable")
    start = 0
    while start < len(order):
        widest = int(requests[order[min(len(order) - 1, start + 4000)]]) * 2 ** (looks - 1)
        rows = order[start : start + max(1, min(4000, CHUNK_CELLS // widest))]
        found = play_looks(
            world,
            Asked.of(climbs, rigor, rows),
            rigor,
            looks,
            most,
            lambda *given: draw(world, rng, given[-1]),
        )
        total.put(rows, found)
        start += len(rows)
    return total


@dataclass(frozen=True, slots=True)
class Asked:
    """What the certifying samples of some campaigns ask for; one entry a campaign.

    other_requests: of the sample at the other length, 0 where there is none.
    """

    units: Ints
    cap: Ints
    requests: Ints
    suspected: Ints
    other_units: Ints
    other_share: Floats
    other_requests: Ints

    @classmethod
    def of(cls, climbs: Climbs, rigor: Rigor, rows: Ints | slice) -> Asked:
        requests = climbs.requests(rigor)
        share = np.maximum(0.25, climbs.other_share)
        room = 4 * rigor.planned - requests
        wanted = np.minimum(np.ceil(rigor.planned / share).astype(np.int64), room)
        fits = (climbs.other_share > 0) & (room >= np.ceil(rigor.floor / share))
        return cls(
            climbs.units[rows],
            climbs.cap[rows],
            requests[rows],
            climbs.suspected[rows],
            climbs.other_units[rows],
            climbs.other_share[rows],
            np.where(fits, wanted, 0)[rows],
        )

    def moved(self, sample: Sample, rigor: Rigor) -> Flags:
        """Which campaigns take another sample, as `choose_other_rung` does after the first one."""
        ended = (sample.closed & (sample.tokens < self.suspected[:, None])).sum(axis=1)
        better = self.other_share > 1.0 - ended / np.maximum(1, self.requests)
        found: Flags = (self.other_requests > 0) & (self.requests - ended < rigor.floor) & better
        return found

    def others(self, rows: Flags) -> Asked:
        """The samples at the other length; there is no third."""
        none = np.zeros(int(rows.sum()), np.int64)
        requests = self.other_requests[rows]
        return Asked(self.other_units[rows], self.cap[rows], requests, none, none, none.astype(float), none)


def play_looks(
    world: World,
    asked: Asked,
    rigor: Rigor,
    looks: int,
    most: Ints,
    source: Callable[[bool, int, tuple[int, int]], Draws],
    *,
    other: bool = False,
) -> Certified:
    """Look after look, as `next_step` declares them, and at another length where the first does not reach.

    source: draws for a look (other: at the other length), of the shape wanted.
    """
    total = Certified.nothing(len(asked.requests))
    active = np.arange(len(asked.requests))
    best = np.zeros(len(active), np.int64)
    sample: list[Sample] = []
    for look in range(looks):
        fresh = asked.requests[active] * (2**look - 2 ** (look - 1) if look else 1)
        width = int(fresh.max())
        draws = source(other, look, (len(active), width))
        cap = asked.cap[active].astype(float)[:, None]
        seen = see(world, draws, asked.units[active].astype(float)[:, None], cap)
        sample.append(Sample.of(seen, np.arange(width)[None, :] < fresh[:, None]))
        whole = Sample.joined(sample)
        total.spent[active] += sample[-1].tokens.sum(axis=1)
        total.sampled[active] += fresh
        total.looks[active] += 1
        before = best[active].copy()
        best[active] = np.maximum(before, thresholds(whole, rigor.floor, most))
        unusable = 2 * whole.lost.sum(axis=1) > asked.requests[active] * 2**look
        total.tokens[active] = np.where(unusable, 0, best[active])
        stays = ~((before > 0) & (best[active] < _LEAST_GAIN * before))
        if look == 0:
            total.moved[:] = asked.moved(whole, rigor)
            stays &= ~total.moved
        sample = [whole.rows(stays)]
        active = active[stays]
        if not len(active):
            break
    if total.moved.any():
        again = play_looks(world, asked.others(total.moved), rigor, looks, most, source, other=True)
        total.tokens[total.moved] = again.tokens
        total.looks[total.moved] = again.looks
        total.spent[total.moved] += again.spent
        total.sampled[total.moved] += again.sampled
    return total


def compare(world: World, climbs: Climbs, rigor: Rigor, tighten: bool, campaign: int, seed: int) -> None:
    """One campaign through `next_step` and `certified_threshold`, on the same draws. Exits if they differ."""
    looks = MAX_LOOKS if tighten else 1
    setup = replace(climbs.setup, rigor=rigor, tighten=tighten)
    one = slice(campaign, campaign + 1)
    asked = Asked.of(climbs, rigor, one)
    width = int(max(asked.requests[0], asked.other_requests[0])) * 2 ** (looks - 1)
    draws = draw(world, np.random.default_rng([seed, 3, campaign]), (2, width))
    done, climbed = list(climbs.done[campaign]), len(climbs.done[campaign])
    first = None
    if climbs.cap[campaign] > 0:
        while not isinstance(step := next_step(setup, done), LadderDone):
            if not isinstance(step, CertifyStep):
                sys.exit(f"{world.name}: the climb of campaign {campaign} goes on in the product: {step}")
            first = first or step.rung.units
            row = int(step.rung.units != first)
            cap = np.full((1, 1), float(step.rung.max_tokens))
            seen = see(world, draws, np.full((1, 1), float(step.rung.units or 0)), cap)
            done += [generation(j, seen, draws, (row, j.index), world.per_unit) for j in step.jobs]
    certify = done[climbed:]
    expected = certified_threshold(certifying_sample(certify), rigor, tighten=tighten)

    def source(other: bool, look: int, shape: tuple[int, int]) -> Draws:
        size = int(asked.other_requests[0] if other else asked.requests[0])
        start = size * 2 ** (look - 1) if look else 0
        return draws[int(other) : int(other) + 1, start : start + shape[1]]

    most = most_bad(width, rigor, 1.0 - (1.0 - rigor.confidence) / looks)
    found = play_looks(world, asked, rigor, looks, most, source)
    spent = sum(g.output_tokens for g in certify)
    if (int(found.tokens[0]), int(found.spent[0])) != (expected.tokens or 0, spent):
        sys.exit(
            f"{world.name}, {rigor.name}, {looks} looks, campaign {campaign}: the twin has "
            f"T = {found.tokens[0]} for {found.spent[0]:.0f} tokens, the product {expected} for {spent}"
        )
