"""Whole campaigns through scheduler, text and detectors, in virtual time, against the engine's own truth.

For each simulated model a pool of answers is written by the engine and judged by the suite, once. Then
campaigns are played as the product plays them: `next_step` asks, answers are drawn from the pool (none twice
in a campaign), `certified_threshold` concludes. The truth is q(T) of the true onsets of the whole pool.
Beside each campaign stands its twin, certified from the true onsets of the same answers.

    python -m benchmarks.calibrate_text [--campaigns 1000] [--answers 3000] [--cells loop …] [--write]
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time

import numpy as np

from benchmarks.calibrate_pool import KEPT_AFTER, Found, Pool, make_pool
from benchmarks.calibrate_scenes import CELLS, GUESS, STRUCTURED_CELLS, Scene
from benchmarks.pages import table, write_section
from stresstest.campaign.ladder import ClimbStep, LadderDone, LadderSetup, next_step
from stresstest.model import RIGORS, GenerationRecord, Observation, Phase, Rigor
from stresstest.statistics import certified_threshold, certify

# Of the answers that a pool has, so many where a campaign asks for an unusual length.
_SIDE = 0.2
ALL = CELLS | STRUCTURED_CELLS


@dataclass(slots=True)
class Source:
    """The pools of a scene, one a requested length, each made when it is first asked for."""

    scene: Scene
    answers: int
    pools: dict[int, Pool] = field(default_factory=dict)

    def pool(self, units: int) -> Pool:
        if units not in self.pools:
            answers = self.answers if units == self.scene.units else round(self.answers * _SIDE)
            self.pools[units] = make_pool(self.scene, units, answers)
        return self.pools[units]


@dataclass(frozen=True, slots=True)
class Played:
    """One campaign. tokens: the certified T, 0 for none; knowing: the same from the true onsets.

    truth: the largest T with q(T) <= alpha. never: "≥ C" was the answer. share: of its pool that was drawn.
    """

    tokens: int
    knowing: int
    truth: int
    units: int
    never: bool
    share: float


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole campaign's answers. certifying: of its sample; known: the same by their true onsets."""

    certifying: tuple[GenerationRecord, ...]
    known: tuple[Observation, ...]
    units: int


def answered(source: Source, rigor: Rigor, number: int) -> Answered:
    """One whole campaign, seeded by its number, the rigor and the scene's name."""
    scene = source.scene
    rng = np.random.default_rng([zlib.crc32(scene.name.encode()), rigor.planned, number])
    setup = LadderSetup(
        rigor,
        scene.horizon,
        GUESS,
        max_units=scene.units,
        prompts_fixed=scene.prompts_fixed,
        distinct_prompts=scene.task.distinct(scene.language),
        seed=number,
    )
    places: dict[int, Iterator[int]] = {}
    done: list[GenerationRecord] = []
    known: list[Observation] = []
    units = 0
    while not isinstance(step := next_step(setup, done), LadderDone):
        units = step.rung.units or scene.units
        pool = source.pool(units)
        order = places.setdefault(units, iter(rng.permutation(len(pool.answers)).tolist()))
        for job in step.jobs:
            place = next(order, None)
            if place is None:
                sys.exit(f"{scene.name}: a campaign asks for more than {len(pool.answers)} answers")
            done.append(pool.generation(place, job))
            if not isinstance(step, ClimbStep):
                known.append(pool.known(place, job.max_tokens))
    return Answered(tuple(g for g in done if g.job.phase is Phase.CERTIFY), tuple(known), units)


def campaign(source: Source, rigor: Rigor, number: int) -> Played:
    """What a whole campaign certifies, against the truth."""
    done = answered(source, rigor, number)
    found = certified_threshold(done.certifying, rigor)
    pool = source.pool(done.units)
    return Played(
        tokens=found.tokens or 0,
        knowing=certify(done.known, rigor).tokens or 0,
        truth=pool.truth(rigor.alpha),
        units=done.units,
        never=found.certified and found.censored_at is not None,
        share=len(done.known) / len(pool.answers),
    )


@dataclass(frozen=True, slots=True)
class TextCell:
    """A scene at a rigor. safe: campaigns with T <= true T through the detectors; knowing: by true onsets.

    broken: safe by the true onsets, not through the detectors; mended: the other way round.
    """

    name: str
    rigor: Rigor
    played: tuple[Played, ...]

    @property
    def safe(self) -> int:
        return sum(p.tokens <= p.truth for p in self.played)

    @property
    def knowing(self) -> int:
        return sum(p.knowing <= p.truth for p in self.played)

    @property
    def broken(self) -> int:
        return sum(p.knowing <= p.truth < p.tokens for p in self.played)

    @property
    def mended(self) -> int:
        return sum(p.tokens <= p.truth < p.knowing for p in self.played)

    @property
    def interval(self) -> tuple[float, float]:
        from scipy.stats import binomtest

        found = binomtest(self.safe, len(self.played)).proportion_ci(0.99, method="exact")
        return float(found.low), float(found.high)

    @property
    def holds(self) -> bool:
        return self.interval[1] >= self.rigor.confidence


@dataclass(frozen=True, slots=True)
class Result:
    """Of one scene. again: judged a second time, under a shorter cap. side: answers of its other pools.

    seconds: of one core.
    """

    cells: tuple[TextCell, ...]
    found: Found
    again: int
    side: int
    seconds: float


def measure(name: str, rigors: Sequence[str], campaigns: int, answers: int) -> Result:
    """The pool of a scene, and all campaigns of each rigor drawn from it."""
    started = process_time()
    source = Source(ALL[name], answers)
    cells = [
        TextCell(name, RIGORS[r], tuple(campaign(source, RIGORS[r], n) for n in range(1, campaigns + 1)))
        for r in rigors
    ]
    found = source.pool(source.scene.units).found()
    pools = source.pools.values()
    return Result(
        cells=tuple(cells),
        found=found,
        again=sum(p.judged_again for p in pools),
        side=sum(len(p.answers) for p in pools if p.units != source.scene.units),
        seconds=process_time() - started,
    )


HEAD = [
    "cell",
    "rigor",
    "T ≤ true T",
    "99 % interval",
    "stated",
    "by the true onsets",
    "lost / gained by the detectors",
    "T against theirs: 5 / 50 / 95 %",
    "true T",
    "median T / true T",
    "by the true onsets",
    "safe max_tokens ≤ true T",
    "≥ C",
]
FOUND_HEAD = [
    "cell",
    "answers",
    "failing",
    "missed",
    "in doubt",
    "false",
    "dated late: 5 / 50 / 95 %",
    "alarm after: 5 / 50 / 95 %",
]


def row(cell: TextCell) -> list[str]:
    n = len(cell.played)
    low, high = cell.interval
    return [
        cell.name,
        cell.rigor.name,
        f"{cell.safe / n:.1%}",
        f"{low:.1%}–{high:.1%}" + ("" if cell.holds else " **below**"),
        f"{cell.rigor.confidence:.0%}",
        f"{cell.knowing / n:.1%}",
        f"{cell.broken} / {cell.mended}",
        _spread([p.tokens - p.knowing for p in cell.played]),
        f"{np.median([p.truth for p in cell.played]):,.0f}",
        f"{np.median([p.tokens / max(1, p.truth) for p in cell.played]):.2f}",
        f"{np.median([p.knowing / max(1, p.truth) for p in cell.played]):.2f}",
        f"{sum(0.9 * p.tokens < p.truth + 1 for p in cell.played) / n:.1%}",
        f"{sum(p.never for p in cell.played) / n:.0%}",
    ]


def found_row(result: Result) -> list[str]:
    found = result.found
    return [
        result.cells[0].name,
        f"{found.answers:,}",
        f"{found.failing:,}",
        _share(found.missed, found.failing),
        _share(found.doubtful, found.failing),
        _share(found.false, found.answers - found.failing),
        _spread(found.late),
        _spread(found.delay),
    ]


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if whole else "–"


def _spread(tokens: Sequence[int]) -> str:
    return " / ".join(f"{v:.0f}" for v in np.percentile(tokens, [5, 50, 95])) if tokens else "–"


def structured_page(results: Sequence[Result]) -> str:
    """The section of docs/calibration.md on records, functions and rows."""
    cells = [c for r in results for c in r.cells]
    late = [t for r in results for t in r.found.late]
    lines = [
        "## Records, functions and rows",
        "",
        f"The same for answers of records (`json`), functions (`code`) and rows (`catalogue`): "
        f"{len(cells[0].played):,} campaigns a cell and rigor, {sum(r.found.answers for r in results):,} "
        f"answers, {sum(r.seconds for r in results):,.0f} s of one core "
        "(`python -m benchmarks.calibrate_text --structured --write`). Every prompt asks for more units than "
        "reach the horizon; the ladder has one rung. The forms of failure are those of the scenarios "
        "`units-counted`, `units-renamed`, `units-shuffled`, `endless-blanks`, `endless-value` and "
        "`endless-list`, with onsets at a median of 400 tokens. A failing unit begins where the one before "
        "it ends; the truth is the first token of the first copy, or of the second of what then comes "
        "without end.",
        "",
        f"- Coverage below the stated confidence: {_names(cells)}.",
        f"- Onsets dated {_spread(late)} tokens late (5 / 50 / 95 %).",
        "",
        table(HEAD, [row(c) for c in cells]),
        "",
        table(FOUND_HEAD, [found_row(r) for r in results]),
    ]
    return "\n".join(lines)


def page(results: Sequence[Result]) -> str:
    """The section of docs/calibration.md."""
    cells = [c for r in results for c in r.cells]
    answers = sum(r.found.answers + r.side for r in results)
    again = sum(r.again for r in results)
    share = max(p.share for c in cells for p in c.played)
    odd = sum(p.units != ALL[c.name].units for c in cells for p in c.played)
    lines = [
        "## Through scheduler, text and detectors",
        "",
        f"{len(cells[0].played):,} campaigns a cell and rigor, {sum(r.seconds for r in results):,.0f} s of "
        "one core in all (`python -m benchmarks.calibrate_text --write`). For each cell the simulated engine "
        "writes a pool of answers in virtual time under continuous batching; the suite reads them token by "
        f"token and goes away {KEPT_AFTER} tokens after its alarm, as `run` does: {answers:,} answers. What "
        f"a shorter cap would have shown is judged from the same tokens up to it ({again:,} times). The "
        "campaigns are the product's: `next_step` asks, the pool answers (no answer twice in a campaign), "
        "`certified_threshold` concludes.",
        "",
        "The truth is that of the pool: q(T) counted over the true onsets of all its answers, which the "
        "engine recorded and no detector saw. It has no error of its own, and campaigns are drawn "
        "independently, so the intervals are exact for the promise about these answers; another pool would "
        f"differ by what its answers differ. A campaign takes at most {share:.0%} of its pool, so its share "
        "of failures varies slightly less than in an endless stream. “By the true onsets” has the same "
        f"advantage: it is what to compare with. {odd:,} campaigns certified at another length than the rest "
        "and have a pool and a truth of their own.",
        "",
        "“By the true onsets”: the same answers with the engine's onsets in the place of the verdicts. “Lost "
        "/ gained”: campaigns whose T is above the truth only because of the detectors, or only without "
        "them; then T minus the T by the true onsets, in tokens. “Safe max_tokens”: T minus a margin of "
        "10 %, what `recommend` prints. “Missed”: failing, and counted as healthy at the onset. “In doubt”: "
        "no onset found, but counted as failing after its last healthy token, or not at all from there on. "
        "“False”: an onset where there was none. “Late”: verdict minus true onset in tokens, negative where "
        "dated before it.",
        "",
        f"- Coverage below the stated confidence: {_names(cells)}.",
        f"- Lost to service failures before an onset: {sum(r.found.lost for r in results):,} answers, "
        f"{sum(r.found.lost_as_system for r in results):,} of them told as system.",
        "",
        table(HEAD, [row(c) for c in cells]),
        "",
        "What the suite made of the answers of each pool, under the longest cap:",
        "",
        table(FOUND_HEAD, [found_row(r) for r in results]),
    ]
    return "\n".join(lines)


def _names(cells: Sequence[TextCell]) -> str:
    return ", ".join(f"{c.name} ({c.rigor.name})" for c in cells if not c.holds) or "in no cell"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--answers", type=int, default=3000, help="in the pool of each cell")
    parser.add_argument("--rigor", nargs="+", choices=list(RIGORS), default=["quick", "standard"])
    parser.add_argument("--cells", nargs="+", choices=list(ALL))
    parser.add_argument("--structured", action="store_true", help="answers of records, functions and rows")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/calibration.md")
    options = parser.parse_args()
    names = options.cells or list(STRUCTURED_CELLS if options.structured else CELLS)
    started = perf_counter()
    work = partial(measure, rigors=options.rigor, campaigns=options.campaigns, answers=options.answers)
    results = []
    with ProcessPoolExecutor(options.processes) as workers:
        for result in workers.map(work, names):
            results.append(result)
            for cell in result.cells:
                print(" | ".join(row(cell)))
            print(" | ".join(found_row(result)), f"| {perf_counter() - started:.0f} s", flush=True)
    if options.write:
        name, write = ("structured", structured_page) if options.structured else ("text", page)
        write_section("calibration.md", name, write(results))
    sys.exit(0 if all(c.holds for r in results for c in r.cells) else 1)


if __name__ == "__main__":
    main()
