"""Whole campaigns at the level of onsets: climb, certifying rung, sample, looks, T against the truth.

    python -m benchmarks.calibrate_campaigns [--campaigns 20000] [--rigor quick standard strict] [--write]

Exits 1 when a cell's coverage is below the stated confidence (exact 99 % interval) or a reach is missed.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.calibrate_worlds import LOSSY, WORLDS, World, draw, true_tokens
from benchmarks.campaigns import Climbs, certify_campaigns, climb, compare
from benchmarks.pages import table, write_section
from stresstest.model import RIGORS, Rigor
from stresstest.statistics import MAX_LOOKS

COMPARED = 12
EQUAL_RUNGS = 8
_FIXED_DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One world at one rigor. safe: campaigns whose T is not above the truth. tightness: median T / true T.

    none: share of campaigns without a threshold. spent: mean tokens, climb included. fixed: tokens of the
    fixed ladder of equal rungs with as many requests a rung as this one aimed to have at risk.
    """

    world: World
    rigor: Rigor
    looks: int
    campaigns: int
    safe: int
    tightness: float
    none: float
    truth: float
    requests: float
    spent: float
    fixed: float

    @property
    def interval(self) -> tuple[float, float]:
        from scipy.stats import binomtest

        found = binomtest(self.safe, self.campaigns).proportion_ci(0.99, method="exact")
        return float(found.low), float(found.high)

    @property
    def holds(self) -> bool:
        return self.interval[1] >= self.rigor.confidence

    @property
    def ratio(self) -> float:
        return self.spent / self.fixed


def fixed_ladder(world: World, rungs: int = EQUAL_RUNGS) -> float:
    """Mean tokens of one request on each of `rungs` equal rungs to the horizon, failing ones never aborted.

    A rung asks for its length and caps there: the cheapest ladder of its kind.
    """
    draws = draw(world, np.random.default_rng(11), (_FIXED_DRAWS,))
    total = 0.0
    for rung in range(1, rungs + 1):
        cap = world.horizon * rung / rungs
        healthy = np.minimum(draws.end, np.ceil(cap * draws.stretch))
        failing = (draws.onset <= healthy) & (not world.ends_anyway)
        tokens = np.minimum(np.where(failing, cap, healthy), cap)
        total += float(np.mean(np.minimum(tokens, draws.lost)))
    return total


def measure(world: World, climbs: Climbs, rigor: Rigor, tighten: bool, seed: int) -> Cell:
    """One cell; a dozen of its campaigns are also played by the product's own code."""
    looks = MAX_LOOKS if tighten else 1
    for campaign in range(min(COMPARED, len(climbs.done))):
        compare(world, climbs, rigor, tighten, campaign, seed)
    found = certify_campaigns(world, climbs, rigor, tighten, seed)
    units, place = np.unique(np.where(found.moved, climbs.other_units, climbs.units), return_inverse=True)
    truth = np.array([true_tokens(world, rigor.alpha, int(u)) if u else 0 for u in units])[place]
    certified = found.tokens > 0
    tightness = found.tokens / np.maximum(truth, 1)
    return Cell(
        world=world,
        rigor=rigor,
        looks=looks,
        campaigns=len(truth),
        safe=int(np.sum(found.tokens <= truth)),
        tightness=float(np.median(tightness)),
        none=float(np.mean(~certified)),
        truth=float(np.median(truth)),
        requests=float(np.mean(found.sampled)),
        spent=float(np.mean(found.spent + climbs.tokens)),
        fixed=fixed_ladder(world) * float(np.mean(rigor.planned * 2.0 ** (found.looks - 1))),
    )


def row(cell: Cell) -> list[str]:
    low, high = cell.interval
    return [
        cell.world.name,
        cell.rigor.name,
        str(cell.looks),
        f"{cell.safe / cell.campaigns:.2%}",
        f"{low:.1%}–{high:.1%}" + ("" if cell.holds else " **below**"),
        f"{cell.rigor.confidence:.0%}",
        f"{cell.truth:,.0f}",
        f"{cell.tightness:.2f}",
        f"{cell.none:.1%}",
        f"{cell.requests:,.0f}",
        f"{cell.spent:,.0f}",
        f"{cell.ratio:.1%}",
    ]


HEAD = [
    "world",
    "rigor",
    "looks",
    "T ≤ true T",
    "99 % interval",
    "stated",
    "true T",
    "median T / true T",
    "no T",
    "requests",
    "tokens",
    "of fixed ladder",
]


def misses(cells: Sequence[Cell]) -> list[str]:
    """What the reach demands and the cells do not give."""
    found = [f"coverage: {c.world.name}, {c.rigor.name}, {c.looks} looks" for c in cells if not c.holds]
    found += [
        f"tightness: {c.world.name} {c.tightness:.2f}"
        for c in cells
        if c.world.narrow and c.rigor.name == "standard" and c.tightness < 0.75
    ]
    if cells and median(c.ratio for c in cells) > 0.5:
        found.append("tokens: more than half of the fixed ladder's")
    return found


def page(cells: Sequence[Cell], campaigns: int, seconds: float) -> str:
    """The section of docs/calibration.md."""
    broken = misses(cells)
    excess = [c.safe / c.campaigns - c.rigor.confidence for c in cells]
    narrow = [c for c in cells if c.world.narrow and c.rigor.name == "standard"]
    once, often = ([c.tightness for c in narrow if (c.looks > 1) is many] for many in (False, True))
    single = [c.ratio for c in cells if c.looks == 1]
    lines = [
        "## Whole campaigns at the level of onsets",
        "",
        f"{campaigns:,} campaigns a cell, {len(cells)} cells, {seconds:.0f} s on one core "
        "(`python -m benchmarks.calibrate_campaigns --write`). The climb is played by "
        "`stresstest.campaign.ladder` "
        "itself on drawn onsets, natural ends, alarm delays and open tails; the certifying sample by a "
        f"vectorised twin, of which {COMPARED} campaigns a cell are compared with `next_step` and "
        "`certified_threshold` on the same draws (T and tokens equal). The truth is computed from the laws, "
        "for the length that the campaign's certifying rung asked for.",
        "",
        f"- Coverage below the stated confidence: {sum(not c.holds for c in cells)} of {len(cells)} cells "
        f"(lowest coverage minus stated: {min(excess):+.2%}).",
    ]
    if once and often:
        lines.append(
            f"- Median T / true T at `standard`, cv ≤ 0.2: {min(once):.2f}–{max(once):.2f}; with `--tighten` "
            f"{min(often):.2f}–{max(often):.2f}."
        )
    lines += [
        f"- Tokens against a fixed ladder of {EQUAL_RUNGS} equal rungs to the horizon, as many requests on "
        "each as the campaign aimed to have at risk at its last look, nothing aborted: median "
        f"{median(c.ratio for c in cells):.0%} over all cells, {median(single):.0%} without `--tighten`, "
        f"at most {max(c.ratio for c in cells):.0%}.",
        f"- Missed: {'; '.join(broken) or 'nothing'}.",
        "",
        "“20 % fail” worlds: a fifth of all requests fails, a third of those before the first token "
        "(tried again), the others cut or stalled at a random place. “True T” is the median over campaigns; "
        "where no T within the horizon is too risky, it is the horizon. “No T”: nothing was certified: "
        "answers failed, or were lost with a candidate open, from the start on.",
        "",
        table(HEAD, [row(c) for c in cells]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=20_000)
    parser.add_argument("--rigor", nargs="+", choices=list(RIGORS), default=list(RIGORS))
    parser.add_argument("--world", default="", help="only worlds whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/calibration.md")
    options = parser.parse_args()
    started = perf_counter()
    cells: list[Cell] = []
    for world in (*WORLDS, *LOSSY):
        if options.world not in world.name:
            continue
        seed = options.seed * 1_000_003 + zlib.crc32(world.name.encode())
        climbs = climb(world, RIGORS["standard"], options.campaigns, seed, kept=COMPARED)
        for name in options.rigor:
            for tighten in (False, True):
                cells.append(measure(world, climbs, RIGORS[name], tighten, seed))
                print(" | ".join(row(cells[-1])), flush=True)
    seconds = perf_counter() - started
    if options.write:
        write_section("calibration.md", "onsets", page(cells, options.campaigns, seconds))
    for missed in misses(cells):
        print("missed:", missed)
    sys.exit(1 if misses(cells) else 0)


if __name__ == "__main__":
    main()
