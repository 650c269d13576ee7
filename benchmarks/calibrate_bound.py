"""Does the certified threshold keep its word? Simulated campaigns of known truth, at the level of onsets.

Each cell draws campaigns of the planned size (natural ends make fewer at risk), certifies them as
`stresstest.threshold.certify` does, and counts how often the certified T exceeds the true one, the
largest T with q(T) <= alpha. That share must not exceed 1 - confidence. The vectorised rule is
compared with `certify` itself on a subset of every cell; a difference ends the program.

    python benchmarks/calibrate_bound.py [--campaigns 20000] [--rigor quick standard strict]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from stresstest.model import RIGORS, Observation, Rigor
from stresstest.threshold import LOOKS, certify, certify_looks, upper_bound

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], tuple[Floats, Floats]]
NEVER = 1e12
CAP = 4000.0
TRUTH_DRAWS = 4_000_000
CHUNK_CELLS = 8_000_000  # campaigns x generations held in memory at once
COMPARED = 60


@dataclass(frozen=True, slots=True)
class Case:
    """A joint distribution of onset and natural end, in tokens."""

    name: str
    draw: Draw


def _plain(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    return 900 * np.exp(0.35 * rng.normal(size=shape)), np.full(shape, NEVER)


def _weibull(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    return 1200 * rng.weibull(1.3, size=shape), np.full(shape, NEVER)


def _mixture(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    onset = 900 * np.exp(0.35 * rng.normal(size=shape))
    return np.where(rng.random(shape) < 0.3, onset, NEVER), np.full(shape, NEVER)


def _rare_early(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    early = rng.uniform(20, 400, size=shape)
    late = 1500 * np.exp(0.3 * rng.normal(size=shape))
    return np.where(rng.random(shape) < 0.008, early, late), np.full(shape, NEVER)


def _heavy_ends(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    onset = 900 * np.exp(0.35 * rng.normal(size=shape))
    return onset, 700 * np.exp(0.6 * rng.normal(size=shape))


def _correlated(sign: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        common = rng.normal(size=shape)
        onset = 900 * np.exp(0.35 * (0.8 * common + 0.6 * rng.normal(size=shape)))
        return onset, 900 * np.exp(0.5 * (sign * 0.8 * common + 0.6 * rng.normal(size=shape)))

    return draw


def _healthy(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    return np.full(shape, NEVER), 700 * np.exp(0.6 * rng.normal(size=shape))


CASES = (
    Case("lognormal", _plain),
    Case("weibull", _weibull),
    Case("mixture, 70 % never", _mixture),
    Case("rare early onsets", _rare_early),
    Case("heavy natural ends", _heavy_ends),
    Case("ends with failure", _correlated(1.0)),
    Case("ends against failure", _correlated(-1.0)),
    Case("never fails, ends", _healthy),
)


def observed(
    case: Case, rng: np.random.Generator, shape: tuple[int, ...]
) -> tuple[Floats, NDArray[np.bool_]]:
    """reach (last healthy moment) and whether it is an onset that ended it, after ends and cap."""
    onset, end = case.draw(rng, shape)
    stop = np.minimum(end, CAP)
    failed = onset <= stop
    return np.where(failed, onset, stop), failed


def true_tokens(case: Case, alpha: float) -> float:
    """Largest T with q(T) <= alpha, from four million draws (its own error is far below a campaign's)."""
    reach, failed = observed(case, np.random.default_rng(2026), (TRUTH_DRAWS,))
    order = np.argsort(reach, kind="stable")
    bad = np.cumsum(failed[order])
    at_risk = bad + np.arange(TRUTH_DRAWS - 1, -1, -1)
    admissible = np.flatnonzero(bad <= alpha * at_risk)
    return float(reach[order][admissible[-1]]) if len(admissible) else 0.0


def most_onsets(size: int, rigor: Rigor, confidence: float) -> NDArray[np.int64]:
    """For n = 0..size, the most onsets whose bound is still <= alpha; -1 when none is."""
    most = np.full(size + 1, -1, dtype=np.int64)
    allowed = -1
    for n in range(rigor.floor, size + 1):
        while upper_bound(allowed + 1, n, confidence) <= rigor.alpha:
            allowed += 1
        most[n] = allowed
    return most


def certified(reach: Floats, failed: NDArray[np.bool_], most: NDArray[np.int64]) -> Floats:
    """T of each campaign (row); 0 when nothing is certified. Times are continuous: no ties."""
    order = np.argsort(reach, axis=1)
    bad = np.take_along_axis(failed, order, axis=1)
    sorted_reach = np.take_along_axis(reach, order, axis=1)
    before: NDArray[np.int64] = np.cumsum(bad, axis=1) - bad
    size = reach.shape[1]
    at_risk = before + np.arange(size, 0, -1)
    passes = before <= most[at_risk]
    last = size - 1 - np.argmax(passes[:, ::-1], axis=1)
    tokens = np.take_along_axis(sorted_reach, last[:, None], axis=1)[:, 0]
    return np.where(passes.any(axis=1), tokens, 0.0)


def compare(reach: Floats, failed: NDArray[np.bool_], tokens: Floats, rigor: Rigor, sizes: list[int]) -> None:
    """The same campaigns through the product's own rule, in thousandths of a token to keep the order."""
    for row in range(min(COMPARED, len(reach))):
        sample = [
            Observation(int(r * 1000) + 1, int(r * 1000)) if bad else Observation(None, int(r * 1000))
            for r, bad in zip(reach[row], failed[row], strict=True)
        ]
        looks = [sample[:size] for size in sizes]
        found = certify_looks(looks, rigor) if len(sizes) > 1 else certify(sample, rigor)
        if (found.tokens or 0) != int(tokens[row] * 1000):
            sys.exit(f"the simulation and certify() disagree: {tokens[row]} against {found}")


def cell(case: Case, rigor: Rigor, tighten: bool, campaigns: int, seed: int) -> tuple[float, float, float]:
    """Share of campaigns above the truth, share uncertified, and median certified T over true T."""
    truth = true_tokens(case, rigor.alpha)
    sizes = [rigor.planned * 2**k for k in range(LOOKS if tighten else 1)]
    confidence = 1.0 - (1.0 - rigor.confidence) / len(sizes)
    tables = [most_onsets(size, rigor, confidence) for size in sizes]
    rng = np.random.default_rng(seed)
    found: list[Floats] = []
    left = campaigns
    while left > 0:
        rows = min(left, max(COMPARED, CHUNK_CELLS // sizes[-1]))
        reach, failed = observed(case, rng, (rows, sizes[-1]))
        looks = [certified(reach[:, :n], failed[:, :n], t) for n, t in zip(sizes, tables, strict=True)]
        tokens = np.max(looks, axis=0)
        if not found:
            compare(reach, failed, tokens, rigor, sizes)
        found.append(tokens)
        left -= rows
    every = np.concatenate(found)
    return float(np.mean(every > truth)), float(np.mean(every == 0)), float(np.median(every) / truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=20_000)
    parser.add_argument("--rigor", nargs="+", choices=list(RIGORS), default=list(RIGORS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = perf_counter()
    print(f"{options.campaigns} campaigns a cell; 'too high' must not exceed 1 - confidence")
    print("| rigor | looks | case | allowed | too high | ± (99 %) | uncertified | median T / true T |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    broken = 0
    for name in options.rigor:
        rigor = RIGORS[name]
        for tighten in (False, True):
            for case in CASES:
                high, none, ratio = cell(case, rigor, tighten, options.campaigns, options.seed)
                allowed = 1.0 - rigor.confidence
                margin = 2.576 * (max(allowed, high) * (1 - allowed) / options.campaigns) ** 0.5
                broken += high > allowed + margin
                print(
                    f"| {name} | {LOOKS if tighten else 1} | {case.name} | {allowed:.1%} | {high:.2%} "
                    f"| {margin:.2%} | {none:.1%} | {ratio:.2f} |",
                    flush=True,
                )
    print(f"{perf_counter() - started:.0f} s; cells beyond their error: {broken}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
