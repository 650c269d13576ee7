"""Whole campaigns through scheduler, text and detectors, in virtual time, against the engine's own truth.

Each campaign is the product's: `next_step` asks, the simulated engine writes under continuous batching, the
panel judges token by token and a generation is closed after its alarm, `certified_threshold` concludes.
Nothing is resampled: every generation of every campaign is written and judged. The truth comes from answers
that no detector has seen: q(T) of the onsets that the engine recorded. Beside it stands what the same
campaigns would have certified had the detectors known the true onsets.

    python -m benchmarks.calibrate_text [--campaigns 200] [--cells loop …] [--processes 1] [--write]
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import numpy as np

from benchmarks.calibrate_page import table, write_section
from benchmarks.calibrate_scenes import CELLS, Scene, Written, play
from stresstest.ladder import Climb, Done, LadderSetup, next_step
from stresstest.model import RIGORS, Generation, Observation, Phase, Plane, Rigor
from stresstest.threshold import certified_threshold, certify

TRUTH_ANSWERS = 20_000
_TRUTH_BATCH = 500


@dataclass(slots=True)
class Tally:
    """What the detectors made of the answers, against the truth. late: verdict - true onset, in tokens."""

    answers: int = 0
    failing: int = 0
    missed: int = 0
    false: int = 0
    lost: int = 0
    lost_as_system: int = 0
    late: list[int] = field(default_factory=list)
    delay: list[int] = field(default_factory=list)

    def take(self, written: Written) -> None:
        verdict, onset = written.generation.verdict, written.onset
        self.answers += 1
        self.failing += onset is not None
        if written.generation.failure is not None and verdict.onset is None:
            self.lost += 1
            self.lost_as_system += written.generation.plane is Plane.SYSTEM
        if onset is None:
            self.false += verdict.onset is not None
        elif verdict.onset is None:
            # With its candidate open it is counted as doubtful, not as healthy.
            self.missed += verdict.observed >= onset and written.generation.failure is None
        else:
            self.late.append(verdict.onset - onset)
            self.delay.append((verdict.alarm or onset) - onset)

    def add(self, other: Tally) -> None:
        for name in ("answers", "failing", "missed", "false", "lost", "lost_as_system"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.late += other.late
        self.delay += other.delay


@dataclass(frozen=True, slots=True)
class Played:
    """One campaign. tokens: the certified T, 0 for none; knowing: the same from the true onsets.

    never: "≥ C" was the answer. output: tokens received.
    """

    tokens: int
    knowing: int
    never: bool
    units: int
    output: int
    tally: Tally


def campaign(scene: Scene, rigor: Rigor, number: int) -> Played:
    """One whole campaign of a scene, seeded by its number and the scene's name."""
    seed = zlib.crc32(scene.name.encode()) + number
    setup = LadderSetup(
        rigor,
        scene.horizon,
        scene.tokens_per_unit,
        distinct_prompts=scene.task.distinct(scene.language),
        seed=seed,
    )
    engine = scene.engine(seed)
    done: list[Generation] = []
    written: list[Written] = []
    units = 0
    while not isinstance(step := next_step(setup, done), Done):
        stage = play(scene, engine, step.jobs)
        done += [w.generation for w in stage]
        if not isinstance(step, Climb):
            written += stage
            units = step.rung.units or 0
    found = certified_threshold([g for g in done if g.job.phase is Phase.CERTIFY], rigor)
    tally = Tally()
    for each in written:
        tally.take(each)
    knowing = certify([_known(w) for w in written], rigor)
    output = sum(g.output_tokens for g in done)
    never = found.certified and found.censored_at is not None
    return Played(found.tokens or 0, knowing.tokens or 0, never, units, output, tally)


def _known(written: Written) -> Observation:
    """The observation that a detector without error would have made of what was received."""
    if written.onset is not None:
        return Observation(written.onset, written.onset - 1)
    return Observation(None, min(written.generation.verdict.tokens, written.generation.job.max_tokens))


def true_threshold(scene: Scene, alpha: float, units: int, answers: int = TRUTH_ANSWERS) -> int:
    """The largest T with q(T) <= alpha, from answers to the certifying rung's prompts that nobody judges.

    The horizon when q never gets that high. Answers are written only as far as T may lie.
    """
    limit = min(scene.horizon, scene.truth_limit)
    onsets: list[int] = []
    ends: list[int] = []
    for start in range(0, answers, _TRUTH_BATCH):
        engine = scene.engine(10_000_000 + start)
        found = scene.unjudged(engine, units, range(start, start + _TRUTH_BATCH), limit)
        onsets += [o for o, _ in found if o is not None]
        ends += [e for o, e in found if o is None and e < limit]
    failed, ended = np.sort(onsets), np.sort(ends)
    grid = np.arange(1, limit + 1)
    bad = np.searchsorted(failed, grid, side="right")
    good = answers - len(failed) - np.searchsorted(ended, grid, side="left")
    good = good + len(failed) - bad
    over = np.flatnonzero(bad > alpha * (bad + good))
    return int(grid[over[0]]) - 1 if len(over) else scene.horizon


@dataclass(frozen=True, slots=True)
class TextCell:
    """A scene at a rigor. safe: campaigns with T <= true T through the detectors; knowing: by true onsets."""

    scene: Scene
    rigor: Rigor
    truth: int
    played: tuple[Played, ...]
    tally: Tally

    @property
    def safe(self) -> int:
        return sum(p.tokens <= self.truth for p in self.played)

    @property
    def knowing(self) -> int:
        return sum(p.knowing <= self.truth for p in self.played)

    @property
    def holds(self) -> bool:
        return _interval(self.safe, len(self.played))[1] >= self.rigor.confidence


def _interval(k: int, n: int) -> tuple[float, float]:
    from scipy.stats import binomtest

    found = binomtest(k, n).proportion_ci(0.99, method="exact")
    return float(found.low), float(found.high)


def measure(scene: Scene, rigor: Rigor, campaigns: int, answers: int, processes: int) -> TextCell:
    """All campaigns of a cell, then the truth for the length that most of them asked for."""
    numbers = range(1, campaigns + 1)
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            played = list(pool.map(partial(campaign, scene, rigor), numbers, chunksize=4))
    else:
        played = [campaign(scene, rigor, number) for number in numbers]
    tally = Tally()
    for each in played:
        tally.add(each.tally)
    units = int(np.median([p.units for p in played]))
    truth = true_threshold(scene, rigor.alpha, units, answers)
    return TextCell(scene, rigor, truth, tuple(played), tally)


HEAD = [
    "cell",
    "rigor",
    "campaigns",
    "T ≤ true T",
    "99 % interval",
    "knowing the onsets",
    "true T",
    "median T / true T",
    "knowing",
    "≥ C",
    "late: 5 / 50 / 95 %",
    "alarm after",
    "missed",
    "false",
]


def row(cell: TextCell) -> list[str]:
    n, tally = len(cell.played), cell.tally
    low, high = _interval(cell.safe, n)
    late = "–"
    if tally.late:
        late = " / ".join(f"{v:.0f}" for v in np.percentile(tally.late, [5, 50, 95]))
    return [
        cell.scene.name,
        cell.rigor.name,
        f"{n:,}",
        f"{cell.safe / n:.1%}",
        f"{low:.1%}–{high:.1%}" + ("" if cell.holds else " **below**"),
        f"{cell.knowing / n:.1%}",
        f"{cell.truth:,}",
        f"{np.median([p.tokens for p in cell.played]) / max(1, cell.truth):.2f}",
        f"{np.median([p.knowing for p in cell.played]) / max(1, cell.truth):.2f}",
        f"{sum(p.never for p in cell.played) / n:.0%}",
        late,
        f"{np.median(tally.delay):.0f}" if tally.delay else "–",
        f"{tally.missed} of {tally.failing}",
        f"{tally.false} of {tally.answers - tally.failing}",
    ]


def page(cells: Sequence[TextCell], truths: int, seconds: float) -> str:
    """The section of docs/calibration.md."""
    broken = [c.scene.name for c in cells if not c.holds]
    answers = sum(c.tally.answers for c in cells)
    lost = sum(c.tally.lost for c in cells)
    system = sum(c.tally.lost_as_system for c in cells)
    lines = [
        "## Through scheduler, text and detectors",
        "",
        f"{answers:,} certifying answers in {sum(len(c.played) for c in cells):,} campaigns, written by the "
        f"simulated engine in virtual time and judged token by token, {seconds:.0f} s "
        "(`python -m benchmarks.calibrate_text --write`). Nothing is resampled. The truth: "
        f"{truths:,} further answers a cell, onsets as the engine recorded them. “Knowing the "
        "onsets”: the same campaigns with the true onsets in the place of the verdicts; the difference is "
        "what the detectors add. “Late”: verdict minus true onset in tokens (negative: dated before it). "
        "“Missed”: failing and counted healthy at its onset; “false”: an onset where there was none so far.",
        "",
        f"- Coverage below the stated confidence: {', '.join(broken) or 'in no cell'}.",
        f"- Lost to service failures before an onset: {lost:,} answers, {system:,} of them told as system.",
        "",
        table(HEAD, [row(c) for c in cells]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--answers", type=int, default=TRUTH_ANSWERS, help="for the truth of each cell")
    parser.add_argument("--rigor", choices=list(RIGORS), default="quick")
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/calibration.md")
    options = parser.parse_args()
    started = perf_counter()
    cells = []
    print(" | ".join(HEAD))
    for name in options.cells:
        began = perf_counter()
        scene, rigor = CELLS[name], RIGORS[options.rigor]
        cells.append(measure(scene, rigor, options.campaigns, options.answers, options.processes))
        output = sum(p.output for p in cells[-1].played)
        print(" | ".join(row(cells[-1])), f"| {output:,} tokens, {perf_counter() - began:.0f} s", flush=True)
    if options.write:
        write_section("text", page(cells, options.answers, perf_counter() - started))
    sys.exit(0 if all(c.holds for c in cells) else 1)


if __name__ == "__main__":
    main()
