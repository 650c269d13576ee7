"""`check` through scheduler, text and detectors, in virtual time, against the engine's own truth.

As `calibrate_text`: pools of answers written by the engine and judged by the suite; every campaign is played
by the product's ladder on answers drawn from them. The baseline certifies T; a fresh candidate campaign (and
a fresh baseline one, for pairs) goes through the product's rules. The truth is q(T) by true onsets.

    python -m benchmarks.check_text [--campaigns 600] [--answers 1500] [--write]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.calibrate_scenes import CELLS, Scene
from benchmarks.calibrate_text import Source, answered
from benchmarks.check_power import STATED, interval
from benchmarks.kept_results import is_kept, kept
from benchmarks.pages import table, write_section
from stresstest.model import RIGORS, CheckVerdict, GenerationRecord, Observation, Rigor
from stresstest.simulation.engine import Hazard
from stresstest.simulation.engine.scenario.distribution import (
    Distribution,
    LognormalDistribution,
    UniformDistribution,
)
from stresstest.statistics import certified_threshold, deduplicate
from stresstest.statistics.assessment import CheckRule, assess_pairs, assess_risk
from stresstest.statistics.certify import known_observations
from stresstest.statistics.comparison import look_confidence

BASELINE = CELLS["loop"]
_FRESH = 1_000_000
"""Added to a campaign's number for the baseline measured anew."""
_FEWEST = 100


def _candidate(name: str, *hazards: Hazard) -> Scene:
    return replace(BASELINE, name=name, scenario=replace(BASELINE.scenario, name=name, hazards=hazards))


def _loop(onset: Distribution, share: float = 1.0) -> Hazard:
    return Hazard("loop", onset=onset, probability=share)


_BEFORE = LognormalDistribution(200.0, 0.25)
CANDIDATES = (
    _candidate("the same", _loop(_BEFORE)),
    _candidate("10 % more, early", _loop(UniformDistribution(20.0, 80.0), 0.10), _loop(_BEFORE)),
    _candidate("onset 20 % earlier", _loop(LognormalDistribution(160.0, 0.25))),
    _candidate("drifts instead, as late", Hazard("language_drift", onset=_BEFORE)),
    _candidate("onset 50 % earlier", _loop(LognormalDistribution(100.0, 0.25))),
    _candidate("3 % more, early", _loop(UniformDistribution(20.0, 80.0), 0.03), _loop(_BEFORE)),
    _candidate("better: 25 % later", _loop(LognormalDistribution(250.0, 0.25))),
    _candidate("onset 10 % earlier", _loop(LognormalDistribution(180.0, 0.25))),
    _candidate("onset 30 % earlier", _loop(LognormalDistribution(140.0, 0.25))),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One campaign: the true risks at the realised T, and the verdict of each rule."""

    before: float
    after: float
    alone: CheckVerdict
    pairs: CheckVerdict


@dataclass(frozen=True, slots=True)
class Cell:
    """A candidate at a rigor. uncertified: baselines without a T, which are left out."""

    name: str
    rigor: Rigor
    played: tuple[Outcome, ...]
    uncertified: int

    def false_regressions(self, rule: str) -> tuple[int, int]:
        """(count, campaigns in which the candidate is truly not worse)."""
        limits = [o.before if rule == "pairs" else max(o.before, self.rigor.alpha) for o in self.played]
        truly = [o for o, limit in zip(self.played, limits, strict=True) if o.after <= limit]
        return sum(getattr(o, rule) is CheckVerdict.REGRESSION for o in truly), len(truly)

    def false_passes(self, rule: str) -> tuple[int, int]:
        """(count, campaigns in which it is truly worse by the increase allowed or more)."""
        alpha = self.rigor.alpha
        limits = [(o.before if rule == "pairs" else alpha) + alpha for o in self.played]
        truly = [o for o, limit in zip(self.played, limits, strict=True) if o.after >= limit]
        return sum(getattr(o, rule) is CheckVerdict.PASS for o in truly), len(truly)

    def share(self, rule: str, verdict: CheckVerdict) -> float:
        return sum(getattr(o, rule) is verdict for o in self.played) / len(self.played)


def by_topic(certifying: Sequence[GenerationRecord]) -> Mapping[str, Observation]:
    """As the product pairs runs: the first answer on each topic."""
    found: dict[str, Observation] = {}
    for each, observation in zip(certifying, known_observations(certifying), strict=True):
        found.setdefault(str(each.job.prompt_index), observation)
    return found


def measure(baseline: Source, candidate: Source, rigor: Rigor, campaigns: int) -> Cell:
    """Whole campaigns of both sides; the rules are the product's own."""
    played, uncertified = [], 0
    for number in range(1, campaigns + 1):
        first = answered(baseline, rigor, number)
        threshold = certified_threshold(first.certifying, rigor)
        if threshold.tokens is None:
            uncertified += 1
            continue
        fresh, now = answered(baseline, rigor, number + _FRESH), answered(candidate, rigor, number)
        rule = CheckRule(threshold.tokens, rigor.alpha, rigor.alpha, look_confidence(1))
        alone = assess_risk(deduplicate(known_observations(now.certifying), None), rule)
        pairs = assess_pairs(by_topic(fresh.certifying), by_topic(now.certifying), rule)
        played.append(
            Outcome(
                baseline.pool(first.units).risk(threshold.tokens),
                candidate.pool(now.units).risk(threshold.tokens),
                alone.tested,
                CheckVerdict.INCONCLUSIVE if pairs is None else pairs.tested,
            )
        )
    return Cell(candidate.scene.name, rigor, tuple(played), uncertified)


HEAD = ["candidate", "rigor", "rule", "campaigns", "q_A(T)", "q_B(T)", "pass", "regression", "inconclusive"]
HEAD += ["false regression", "false pass"]


def told(count: int, n: int) -> str:
    """A rate with its exact 99 % interval; nothing where the truth is hardly ever so."""
    if n < _FEWEST:
        return "–"
    low, high = interval(count, n)
    return f"{count / n:.1%} ({low:.1%}–{high:.1%})" + (" **above**" if low > STATED else "")


def rows(cell: Cell) -> list[list[str]]:
    middle = len(cell.played) // 2
    before, after = (sorted(getattr(o, side) for o in cell.played)[middle] for side in ("before", "after"))
    return [
        [
            cell.name,
            cell.rigor.name,
            rule,
            str(len(cell.played)),
            f"{before:.1%}",
            f"{after:.1%}",
            *(f"{cell.share(rule, verdict):.1%}" for verdict in CheckVerdict),
            told(*cell.false_regressions(rule)),
            told(*cell.false_passes(rule)),
        ]
        for rule in ("alone", "pairs")
    ]


def misses(cells: Sequence[Cell]) -> list[str]:
    found = []
    for cell in cells:
        for rule in ("alone", "pairs"):
            for what, (k, n) in (
                ("false regression", cell.false_regressions(rule)),
                ("false pass", cell.false_passes(rule)),
            ):
                if n >= _FEWEST and interval(k, n)[0] > STATED:
                    found.append(f"{what}: {cell.name}, {cell.rigor.name}, {rule} ({k / n:.1%})")
    return found


def page(cells: Sequence[Cell], campaigns: int, answers: int, seconds: float) -> str:
    """The section of docs/check.md."""
    lines = [
        f"{campaigns} pairs of campaigns a cell, {len(cells)} cells, {seconds:.0f} s on one core "
        f"(`python -m benchmarks.check_text --campaigns {campaigns} --answers {answers} --write`; of its "
        f"cells those that are shown). {answers:,} answers a simulated model are written by "
        "the engine (grammar, hazards, continuous batching in virtual time) and judged by the detectors; "
        "HTTP is left out. Campaigns are the product's ladder, `certified_threshold`, `assess_risk` and "
        "`assess_pairs` on answers drawn from these pools; T is each campaign's own. Answers of one pool are "
        "independent, so that pairs gain nothing from common prompts here.",
        "",
        f"Broken promises (exact 99 % interval above 5 %): {'; '.join(misses(cells)) or 'none'}.",
        "",
        table(HEAD, [row for cell in cells for row in rows(cell)]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=600)
    parser.add_argument("--answers", type=int, default=1500)
    parser.add_argument("--rigor", nargs="+", choices=list(RIGORS), default=["quick", "standard"])
    parser.add_argument("--candidate", default="", help="only candidates whose name contains this")
    parser.add_argument("--keep", help="folder: what is there is not measured again")
    parser.add_argument("--only-kept", action="store_true", help="measure nothing anew")
    parser.add_argument("--write", action="store_true", help="write docs/check.md")
    options = parser.parse_args()
    baseline = Source(BASELINE, options.answers)
    cells: list[Cell] = []
    seconds = 0.0
    for scene in (each for each in CANDIDATES if options.candidate in each.name):
        candidate = Source(scene, options.answers)
        for rigor in options.rigor:
            name = f"{scene.name} {rigor} {options.campaigns} {options.answers}"
            if options.only_kept and not is_kept(options.keep, name):
                continue
            make = partial(measure, baseline, candidate, RIGORS[rigor], options.campaigns)
            cell, took = kept(options.keep, name, make)
            cells, seconds = [*cells, cell], seconds + took
            for row in rows(cell):
                print(" | ".join(row), flush=True)
    if options.write:
        write_section("check.md", "text", page(cells, options.campaigns, options.answers, seconds))
    for missed in misses(cells):
        print("missed:", missed)
    sys.exit(1 if misses(cells) else 0)


if __name__ == "__main__":
    main()
