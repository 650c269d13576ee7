"""What `cost` says of loops, against the scheduler's truth, in virtual time.

    python -m benchmarks.cost_contagion [--experiments 200] [--step-experiments 12] [--world contagion-496]

Worlds: the shipped scenario `contagion` with batches of 496 requests (the source's size) and of 124, and the
same engine built without contagion: a step takes the same time whatever runs and whatever is held, and every
request has a place at once. An experiment is what `cost` measures: eight pairs of batches with requests of
their own, loops let run to the cap and loops capped at matched healthy lengths, durations blurred as a
machine blurs them, through the same functions of `stresstest.economics`. Which requests loop is known here;
finding them is the detectors' part. The truth is the mean log ratio over a pool of pairs without blur: the
schedule computed with loops and without. Experiments draw their pairs from that pool.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from stresstest.economics.modelled import naive_comparison, substitute_loops
from stresstest.economics.paired import complete_pairs, healthy_slowdown, matched_lengths, wall_clock_ratio
from stresstest.economics.steps import (
    StratumCells,
    StratumTotals,
    matched_ratio,
    moment_stratum,
    step_ratio,
    stratum_cells,
)
from stresstest.economics.timeline import (
    MARK_INTERVAL,
    batch_intervals,
    group_spans_by_batch,
    kv_tokens_at,
    output_tokens_at,
)
from stresstest.model.cost import CostArm, CostRatio, RequestSpan
from stresstest.simulation.engine import Engine, Scenario, SimRequest, StepTime, load_scenario, run_virtual
from stresstest.simulation.engine.scheduling.sequence import Sequence as Request

PROMPT = 100
MACHINE, REQUEST = 0.02, 0.03
"""Standard deviations of the blur: log of a batch's speed, log of one request's duration."""


@dataclass(frozen=True, slots=True)
class World:
    """An engine and how it is loaded. concurrency: clients; size: requests of a batch."""

    name: str
    scenario: Scenario
    concurrency: int
    size: int

    @property
    def cap(self) -> int:
        return self.scenario.model.max_model_len - PROMPT


class Stepping(Engine):
    """An engine that takes every step by itself, so that each token's time can be seen."""

    def advance_uniform_steps(self, now: float, until: float) -> float:  # noqa: ARG002
        return 0.0


def worlds() -> list[World]:
    scenario = load_scenario("contagion")
    engine = replace(
        scenario.engine,
        kv_cache_tokens=1 << 22,
        max_num_seqs=1 << 10,
        max_num_batched_tokens=1 << 16,
        step_ms=StepTime(10.0, 0.0, 0.0, 0.0),
    )
    still = replace(scenario, engine=engine)
    return [
        World("contagion-496", scenario, 16, 496),
        World("contagion-124", scenario, 16, 124),
        World("no-contagion", still, 62, 62),
    ]


def batch_pair(world: World, random: Random, number: int, *, stepping: bool = False) -> list[RequestSpan]:
    """Both arms of one pair, without blur."""
    hazard, lengths = world.scenario.hazards[0], world.scenario.model.answer_tokens
    onsets: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for index in range(world.size):
        length, onset = lengths.quantile(random.random()), hazard.onset.quantile(random.random())
        loops = random.random() < hazard.probability and onset < length
        wanted[str(index)] = world.cap if loops else min(world.cap, max(2, round(length)))
        if loops:
            onsets[str(index)] = max(1, round(onset))
    healthy = {name: tokens for name, tokens in wanted.items() if name not in onsets}
    matched = matched_lengths(sorted(onsets), healthy, seed=random.getrandbits(30), fallback=700)
    found = batch(world, wanted, onsets, number, CostArm.LOOPS, stepping=stepping)
    if onsets:
        found += batch(world, wanted | matched, onsets, number, CostArm.CAPPED, stepping=stepping)
    return found


def batch(
    world: World,
    lengths: dict[str, int],
    onsets: dict[str, int],
    pair: int,
    arm: CostArm,
    *,
    stepping: bool = False,
) -> list[RequestSpan]:
    """One batch through the engine. Looping requests are over their onset only if they get that far."""
    requests = [
        SimRequest((index + 1,) * PROMPT, max_tokens=tokens, silent=tokens)
        for index, tokens in enumerate(lengths.values())
    ]
    engine = (Stepping if stepping else Engine)(world.scenario)
    marks: dict[int, list[tuple[int, float]]] = {}

    def note(sequence: Request) -> bool:
        if sequence.written % MARK_INTERVAL == 0 or sequence.written == 1:
            assert sequence.last_token is not None
            marks.setdefault(sequence.id, []).append((sequence.written, sequence.last_token))
        return False

    run = run_virtual(engine, requests, concurrency=world.concurrency, leave=note if stepping else None)
    return [
        _span(s, name, onsets.get(name), pair, arm, tuple(marks.get(s.id, ())))
        for s, name in zip(run.sequences, lengths, strict=True)
    ]


def _span(
    sequence: Request,
    name: str,
    onset: int | None,
    pair: int,
    arm: CostArm,
    marks: tuple[tuple[int, float], ...],
) -> RequestSpan:
    assert sequence.finished is not None
    reached = onset is not None and onset <= sequence.written
    # The first mark at or after the onset: within EVERY tokens of it.
    at = next((seconds for token, seconds in marks if onset is not None and token >= onset), None)
    return RequestSpan(
        id=name,
        submitted=sequence.arrived,
        start=sequence.scheduled,
        first_token=sequence.first_token,
        end=sequence.finished,
        output_tokens=sequence.written,
        prompt_tokens=PROMPT,
        degenerate=onset is not None,
        loops=onset is not None,
        onset=onset if reached else None,
        onset_at=at,
        batch=f"{pair}/{arm}",
        arm=arm,
        pair=pair,
        marks=marks,
    )


def blurred(spans: Sequence[RequestSpan], random: Random) -> list[RequestSpan]:
    """The same with a batch's own speed and each request's own luck."""
    speed = {label: math.exp(random.gauss(0.0, MACHINE)) for label in {s.batch: None for s in spans}}
    result = []
    for span in spans:
        factor = speed[span.batch]
        duration = span.duration * factor * math.exp(random.gauss(0.0, REQUEST))
        begin = span.submitted * factor
        result.append(replace(span, submitted=begin, end=begin + duration))
    return result


Estimator = Callable[[Sequence[RequestSpan]], CostRatio | None]


def total(spans: Sequence[RequestSpan]) -> CostRatio | None:
    return healthy_slowdown(complete_pairs(spans))


def wall(spans: Sequence[RequestSpan]) -> CostRatio | None:
    return wall_clock_ratio(complete_pairs(spans))


def pool(world: World, random: Random, size: int) -> list[list[RequestSpan]]:
    """So many pairs without blur, each with requests of its own."""
    return [batch_pair(world, random, number) for number in range(size)]


def ratios(spans: Sequence[RequestSpan]) -> dict[str, CostRatio]:
    """What the economics say of some pairs."""
    found = {"healthy slowdown": total(spans), "wall clock": wall(spans)}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def truth(schedules: Sequence[Sequence[RequestSpan]]) -> dict[str, float]:
    """The ratios over all of a pool."""
    found = ratios([span for pair in schedules for span in pair])
    return {name: ratio.value for name, ratio in found.items()}


def experiment(schedules: Sequence[Sequence[RequestSpan]], random: Random, size: int) -> dict[str, CostRatio]:
    """What one measurement of `size` pairs says, drawn from a pool and blurred."""
    spans = []
    for number in range(size):
        drawn = [replace(s, pair=number, batch=f"{number}/{s.arm}") for s in random.choice(schedules)]
        spans += blurred(drawn, random)
    return ratios(spans)


def row(world: str, name: str, true: float, found: Sequence[CostRatio]) -> str:
    errors = sorted(abs(r.value / true - 1.0) for r in found)
    excess = [abs((r.value - 1.0) / (true - 1.0) - 1.0) for r in found] if true > 1.02 else []
    covered = sum(r.lo is not None and r.hi is not None and r.lo <= true <= r.hi for r in found)
    one = sum(r.lo is not None and r.hi is not None and r.lo <= 1.0 <= r.hi for r in found)
    middle = f"{100 * statistics.median(excess):.1f} %" if excess else "–"
    return (
        f"| {world} | {name} | {true:.4f} | {100 * statistics.median(errors):.1f} % | {middle} "
        f"| {covered}/{len(found)} | {one}/{len(found)} |"
    )


def contrast(world: World, schedules: Sequence[Sequence[RequestSpan]]) -> str:
    """What the naive comparison and the source's method say of the same pool."""
    spans = [s for pair in schedules for s in pair if s.arm == CostArm.LOOPS]
    # Silent schedules tell no token's time: the onset at the loop's mean pace.
    spans = [
        replace(s, onset_at=_paced(s)) if s.onset is not None and s.onset_at is None else s for s in spans
    ]
    met = naive_comparison(spans)
    models = [
        m for batch in group_spans_by_batch(spans).values() if (m := substitute_loops(batch)) is not None
    ]
    ratio = math.exp(statistics.fmean(math.log(m.wall_clock / m.counterfactual) for m in models))
    said = "–" if met is None else f"{met.ratio:.3f}"
    return (
        f"| {world.name} | naive: × {said} on healthy requests; source's method: wall clock × {ratio:.3f} |"
    )


def _paced(span: RequestSpan) -> float:
    begin = span.submitted if span.first_token is None else span.first_token
    return begin + (span.end - begin) * (span.onset or 0) / span.output_tokens


def step_truth(world: World, spans: Sequence[RequestSpan]) -> float | None:
    """The engine's own step ratio in the strata that the estimate stands on.

    Each moment inside a loop is set against what it would have taken without the loops' tokens in the cache.
    """
    cost = world.scenario.engine.step_ms
    observed: list[StratumCells] = []
    without: list[StratumCells] = []
    for found in group_spans_by_batch(spans).values():
        observed.append(stratum_cells(found))
        inside = {key: StratumTotals() for key in observed[-1] if key[1]}
        for moment in batch_intervals(found):
            writing = [
                s
                for s in moment.running
                if s.healthy and s.first_token is not None and s.first_token <= moment.start
            ]
            tokens = sum(output_tokens_at(s, moment.end) - output_tokens_at(s, moment.start) for s in writing)
            if not moment.looping or tokens <= 0:
                continue
            loops = sum(kv_tokens_at(s, moment.middle) for s in moment.looping) / 1000 * cost.per_1k_kv_tokens
            everyone = (
                sum(kv_tokens_at(s, moment.middle) for s in moment.running) / 1000 * cost.per_1k_kv_tokens
            )
            full = cost.base + cost.per_sequence * len(moment.running) + everyone
            side = inside[moment_stratum(moment), True]
            side.tokens += tokens
            side.seconds += moment.seconds * len(writing) * (full - loops) / full
        without.append(inside)
    strata = {key[0] for part in observed for key in part if not key[1]}
    pairs_ = [
        # Inside as it was, against inside without the loops' tokens: nothing else differs.
        {k: side for k, side in part.items() if k[1] and k[0] in strata}
        | {(k[0], False): side for k, side in other.items() if k[0] in strata}
        for part, other in zip(observed, without, strict=True)
    ]
    found_ = matched_ratio(pairs_)
    return None if found_ is None else found_[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--pool", type=int, default=400, help="pairs that the truth stands on")
    parser.add_argument("--world", help="this one only")
    parser.add_argument("--step-experiments", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("| engine | ratio | truth | median error | of the excess | truth in the interval | 1 in it |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    chosen = [w for w in worlds() if args.world in (None, w.name)]
    for world in chosen:
        schedules = pool(world, Random(f"{world.name} {args.seed}"), args.pool)
        found = [
            experiment(schedules, Random(f"{world.name} {args.seed} {n}"), args.pairs)
            for n in range(args.experiments)
        ]
        for name, value in truth(schedules).items():
            print(row(world.name, name, value, [f[name] for f in found if name in f]), flush=True)
        print(contrast(world, schedules), flush=True)
    if args.step_experiments:
        steps(chosen, args.step_experiments, args.pairs, args.seed)


def steps(chosen: Sequence[World], experiments: int, size: int, seed: int) -> None:
    """The engine's part, in both worlds; every step is taken by itself, so only a few."""
    print("\n| engine | step ratio, truth | median of the estimates | median error | truth in the interval |")
    print("| --- | --- | --- | --- | --- |")
    for world in chosen:
        truths, found = [], []
        for n in range(experiments):
            random = Random(f"steps {world.name} {seed} {n}")
            spans = [s for i in range(size) for s in batch_pair(world, random, i, stepping=True)]
            ratio, true = step_ratio(spans), step_truth(world, spans)
            if ratio is not None and true is not None:
                truths.append(true)
                found.append(ratio)
        errors = [abs(r.value / t - 1.0) for r, t in zip(found, truths, strict=True)]
        covered = sum(
            r.lo is not None and r.hi is not None and r.lo <= t <= r.hi
            for r, t in zip(found, truths, strict=True)
        )
        print(
            f"| {world.name} | {statistics.median(truths):.4f} | "
            f"{statistics.median(r.value for r in found):.4f} | {100 * statistics.median(errors):.1f} % | "
            f"{covered}/{len(found)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
