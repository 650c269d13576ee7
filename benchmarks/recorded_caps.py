"""What a cap does to a threshold from recorded answers: coverage where the truth is known.

A world draws, for each answer, where it would fail (exponential), where it would end by itself (lognormal),
how long a failure goes unseen (uniform) and, for some of the answers, a cap of their own anywhere in the
text. What `scan` sees of it is an observation as `stresstest.scanning.detect_chunk` makes it; the rule before
(every capped answer in doubt) stands beside it. The truth is q(T) of the same world without caps.

    python benchmarks/recorded_caps.py [--samples 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stresstest.detectors.screening.screen import OPEN_TAIL
from stresstest.model import RIGORS, Observation
from stresstest.statistics import certify

SIZE = 400
"""Answers of a sample."""
CAPS = (200, 1_500)
"""Between which the caps lie that some answers have; the others have none that matters."""
NONE = 1 << 20


@dataclass(frozen=True, slots=True)
class World:
    """capped: share of the answers with a cap of their own. unseen: most tokens until a failure is seen."""

    name: str
    capped: float
    unseen: int
    mean_onset: float = 20_000.0
    median_length: float = 900.0


WORLDS = (
    World("no caps", 0.0, 200),
    World("a fifth capped, quick alarms", 0.2, 200),
    World("half capped, quick alarms", 0.5, 200),
    World("half capped, slow alarms", 0.5, 600),
    World("all capped, slow alarms", 1.0, 600),
    World("half capped, many fail", 0.5, 200, mean_onset=6_000.0),
)


def drawn(world: World, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(the token at which each would fail, the one at which it would end by itself)."""
    onset = np.ceil(rng.exponential(world.mean_onset, size)).astype(int)
    length = np.ceil(rng.lognormal(np.log(world.median_length), 0.5, size)).astype(int) + 30
    return onset, length


def truth(world: World, alpha: float, rng: np.random.Generator) -> int:
    """The largest T with q(T) <= alpha, from two million answers without a cap."""
    onset, length = drawn(world, 2_000_000, rng)
    fails = onset <= length
    failed = np.bincount(np.where(fails, np.minimum(onset, 20_000), 20_000), minlength=20_001)[
        :20_000
    ].cumsum()
    ended = np.bincount(np.where(fails, 20_000, np.minimum(length, 20_000)), minlength=20_001)[
        :20_000
    ].cumsum()
    at_risk = len(onset) - ended
    q = failed / np.maximum(at_risk, 1)
    return int(np.flatnonzero(q > alpha)[0]) - 1


def seen(world: World, rng: np.random.Generator, *, doubt_every_cap: bool) -> Iterator[Observation]:
    """A sample as `scan` would see it; a failing answer goes on until its cap."""
    onset, length = drawn(world, SIZE, rng)
    cap = np.where(rng.random(SIZE) < world.capped, rng.integers(*CAPS, SIZE), NONE)
    unseen = rng.integers(20, world.unseen, SIZE, endpoint=True)
    for fails_at, ends_at, cut, delay in zip(
        onset.tolist(), length.tolist(), cap.tolist(), unseen.tolist(), strict=True
    ):
        if fails_at <= ends_at and fails_at + delay <= cut:
            yield Observation(fails_at, fails_at - 1)
        elif ends_at <= cut and ends_at < fails_at:
            yield Observation(None, ends_at, ended=True)
        else:
            open_from = fails_at if fails_at <= min(ends_at, cut) else cut
            observed = max(min(open_from - 1, cut - OPEN_TAIL), 0)
            doubtful = doubt_every_cap or cut - observed > OPEN_TAIL
            yield Observation(None, observed, unresolved=doubtful)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000)
    samples = parser.parse_args().samples
    rigor = RIGORS["standard"]
    print(f"{samples} samples of {SIZE} answers a cell; T at {rigor.confidence:.0%} for {rigor.alpha:.0%}")
    print(
        "| world | true T | T <= true T: every cap in doubt | now | median T / true T | now "
        "| nothing certified | now |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for n, world in enumerate(WORLDS):
        real = truth(world, rigor.alpha, np.random.default_rng(1_000 + n))
        cells = []
        for every in (True, False):
            rng = np.random.default_rng(n)
            found = [certify(list(seen(world, rng, doubt_every_cap=every)), rigor) for _ in range(samples)]
            told = [each.tokens for each in found if each.tokens is not None]
            right = sum(t <= real for t in told) + samples - len(told)
            ratio = float(np.median(told)) / real if told else float("nan")
            cells.append((f"{right / samples:.1%}", f"{ratio:.2f}", f"{1 - len(told) / samples:.1%}"))
        rows = " | ".join(f"{before} | {now}" for before, now in zip(*cells, strict=True))
        print(f"| {world.name} | {real:,} | {rows} |", flush=True)


if __name__ == "__main__":
    main()
