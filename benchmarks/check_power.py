"""`check` over pairs of models with a known truth, at the level of onsets: false alarms, misses, power.

Every campaign is whole: the baseline climbs (the product's ladder), draws its certifying sample and certifies
its own T; the candidate climbs by itself and draws a fresh sample. The truth is q(T) of both at that T.

    python -m benchmarks.check_power [--campaigns 20000] [--write]

Exits 1 when a promise is broken (exact 99 % interval above 5 %).
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.calibrate_worlds import LOSSY, Draws, Floats, World, draw
from benchmarks.campaigns import Climbs, Flags, Ints, Seen, certify_campaigns, climb, see
from benchmarks.check_rules import (
    INCONCLUSIVE,
    PASS,
    REGRESSION,
    Table,
    compare_alone,
    compare_pairs,
    judge_alone,
    judge_pairs,
    observed,
)
from benchmarks.check_worlds import (
    EFFECTS,
    PAIR_EFFECTS,
    SHARED,
    Effect,
    added_share,
    alike,
    changed,
    risks,
    scaled,
    world_named,
)
from benchmarks.kept_results import is_kept, kept
from benchmarks.pages import table, write_section
from stresstest.model import RIGORS, Rigor
from stresstest.statistics.assessment import CheckRule
from stresstest.statistics.comparison import look_confidence

PLAYED = (
    (world_named("lognormal, cv 0.2"), "quick"),
    *((world, "quick") for world in LOSSY if world.name == "20 % fail: lognormal, cv 0.2"),
    (world_named("lognormal, wide"), "standard"),
    (world_named("mixture, 40 % never"), "standard"),
    (world_named("heavy natural ends"), "standard"),
)
"""Worlds, each at the rigor at which it is played."""
NO_PAIRS = ("heavy natural ends",)
"""Where answers end early, those at risk on both sides are others than those on one: no simple truth."""
CLIMBS = 4_000
"""Climbs of a candidate; campaigns draw from them."""
COMPARED = 25
STATED = 0.05
BORDER = "risk exactly"
"""How the effects are called that put the candidate's risk on alpha, or on alpha plus the increase."""
_ROWS = 4_000
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Cell:
    """One effect in one world, at one rigor, under one rule; arrays hold one entry a campaign."""

    world: str
    rigor: Rigor
    rule: str
    effect: str
    verdict: Ints
    before: Floats
    after: Floats

    def false_regressions(self) -> tuple[int, int]:
        """(count, campaigns in which the candidate is truly not worse).

        For pairs: than the baseline; else: than alpha, or than the baseline where that is worse than its T
        promises. At the border it is alpha: there the candidate is made to be just as bad as that.
        """
        alpha = np.full(len(self.before), self.rigor.alpha)
        reference = self.before if self.rule == "pairs" else np.maximum(self.before, alpha)
        if self.effect.startswith(BORDER):
            reference = alpha
        return self._among(self.after <= reference + _CLOSE, REGRESSION)

    def false_passes(self) -> tuple[int, int]:
        """(count, campaigns in which it is worse by at least the increase allowed)."""
        alpha = self.rigor.alpha
        limit = self.before + alpha if self.rule == "pairs" else np.full(len(self.before), 2.0 * alpha)
        return self._among(self.after >= limit - _CLOSE, PASS)

    def passes_beyond(self) -> tuple[int, int]:
        """(passes, campaigns in which it is worse than the baseline's own risk by at least the increase)."""
        return self._among(self.after >= self.before + self.rigor.alpha - _CLOSE, PASS)

    def _among(self, which: Flags, verdict: int) -> tuple[int, int]:
        return int(np.sum(which & (self.verdict == verdict))), int(np.sum(which))

    def share(self, verdict: int) -> float:
        return float(np.mean(self.verdict == verdict))


def interval(count: int, n: int) -> tuple[float, float]:
    """Exact two-sided 99 % interval."""
    from scipy.stats import binomtest

    found = binomtest(count, n).proportion_ci(0.99, method="exact")
    return float(found.low), float(found.high)


@dataclass(frozen=True, slots=True)
class Baselines:
    """Campaigns of the baseline that certified something. tokens: T. q: the true risk there."""

    world: World
    rigor: Rigor
    climbs: Climbs
    tokens: Floats
    q: Floats
    not_ended: Floats
    certified: Ints

    @classmethod
    def of(cls, world: World, rigor: Rigor, climbs: Climbs, seed: int) -> Baselines:
        found = certify_campaigns(world, climbs, rigor, False, seed)
        certified = np.flatnonzero(found.tokens > 0)
        tokens = found.tokens[certified].astype(float)
        q, not_ended = risks(world, tokens, climbs.units[certified].astype(float))
        return cls(world, rigor, climbs, tokens, q, not_ended, certified)


@dataclass(frozen=True, slots=True)
class Asking:
    """What each campaign's sample asks for."""

    units: Floats
    cap: Floats
    requests: Ints

    @classmethod
    def of(cls, climbs: Climbs, rigor: Rigor, size: int, rng: np.random.Generator) -> Asking:
        """Choices of climbs, drawn from those that came to one."""
        usable = np.flatnonzero(climbs.cap > 0)
        rows = usable[rng.integers(len(usable), size=size)]
        units, cap = climbs.units[rows].astype(float), climbs.cap[rows].astype(float)
        return cls(units, cap, climbs.requests(rigor)[rows])

    def __getitem__(self, rows: slice) -> Asking:
        return Asking(self.units[rows], self.cap[rows], self.requests[rows])

    @property
    def width(self) -> int:
        return int(self.requests.max())

    def exists(self, width: int) -> Flags:
        flags: Flags = np.arange(width)[None, :] < self.requests[:, None]
        return flags

    def seen(self, world: World, draws: Draws) -> Seen:
        return see(world, draws, self.units[:, None], self.cap[:, None])


def wanted_share(effect: Effect, base: Baselines, units: Floats) -> tuple[Floats, Floats]:
    """(share of answers that fail at once, the candidate's true risk at T)."""
    q, not_ended = risks(scaled(base.world, effect.factor), base.tokens, units)
    if effect.points is None and effect.at is None:
        return np.zeros(len(q)), q
    alpha = base.rigor.alpha
    if effect.points is not None:
        wanted = base.q + effect.points
    elif effect.at is not None and effect.at < 0:
        wanted = base.q + alpha
    else:
        wanted = np.full(len(q), (effect.at or 0.0) * alpha)
    wanted = np.maximum(wanted, q)
    return added_share(q, not_ended, wanted), wanted


def play(base: Baselines, effect: Effect, climbs: Climbs, rules: Sequence[str], seed: int) -> list[Cell]:
    """All campaigns of one effect under some rules: "alone", "extend", "pairs"."""
    rng = np.random.default_rng([seed, zlib.crc32(effect.name.encode()), base.rigor.planned])
    size = len(base.tokens)
    asking = Asking.of(climbs, base.rigor, size, rng)
    again = Asking.of(base.climbs, base.rigor, size, rng)
    share, after = wanted_share(effect, base, asking.units)
    verdicts = {rule: np.zeros(size, np.int64) for rule in rules}
    for start in range(0, size, _ROWS):
        rows = slice(start, start + _ROWS)
        found = _verdicts(base, effect, asking[rows], again[rows], share[rows], base.tokens[rows], rules, rng)
        for rule in rules:
            verdicts[rule][rows] = found[rule]
    name, rigor = base.world.name, base.rigor
    return [Cell(name, rigor, rule, effect.name, verdicts[rule], base.q, after) for rule in rules]


def _verdicts(
    base: Baselines,
    effect: Effect,
    asking: Asking,
    again: Asking,
    share: Floats,
    tokens: Floats,
    rules: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, Ints]:
    world, alpha = base.world, base.rigor.alpha
    shape = (len(tokens), max(asking.width, again.width))
    fresh = draw(world, rng, shape)
    theirs = draw(world, rng, shape)
    if "pairs" in rules:
        theirs = alike(fresh, theirs, rng.random(shape) < SHARED)
    seen = asking.seen(world, changed(theirs, effect, share, rng))
    exists = asking.exists(shape[1])
    state = Table.of(seen, tokens, exists)
    found = {}
    one, two = look_confidence(1), look_confidence(2)
    if "alone" in rules:
        found["alone"] = judge_alone(state, alpha, alpha, one)
        for row in range(min(COMPARED, len(tokens))):
            rule = CheckRule(int(tokens[row]), alpha, alpha, one)
            compare_alone(int(found["alone"][row]), observed(seen, exists, row), rule)
    if "extend" in rules:
        more = asking.seen(world, changed(draw(world, rng, shape), effect, share, rng))
        whole = state.joined(Table.of(more, tokens, exists))
        first, second = (judge_alone(each, alpha, alpha, two) for each in (state, whole))
        found["extend"] = np.where(first == INCONCLUSIVE, second, first)
    if "pairs" in rules:
        anew = again.seen(world, fresh)
        there = again.exists(shape[1])
        found["pairs"] = judge_pairs(Table.of(anew, tokens, there), state, alpha, one)
        for row in range(min(COMPARED, len(tokens))):
            rule = CheckRule(int(tokens[row]), alpha, alpha, one)
            sides = observed(anew, there, row), observed(seen, exists, row)
            compare_pairs(int(found["pairs"][row]), *sides, rule)
    return found


def measure(world: World, rigor: str, campaigns: int, seed: int) -> list[Cell]:
    """All cells of one world at one rigor."""
    seed = seed * 1_000_003 + zlib.crc32(world.name.encode())
    climbs = climb(world, RIGORS["standard"], campaigns, seed)
    theirs: dict[float, Climbs] = {1.0: climbs}
    cells = []
    base = Baselines.of(world, RIGORS[rigor], climbs, seed)
    for effect in dict.fromkeys((*EFFECTS, *PAIR_EFFECTS)):
        if effect.factor not in theirs:
            other = scaled(world, effect.factor)
            theirs[effect.factor] = climb(other, RIGORS["standard"], min(campaigns, CLIMBS), seed + 1)
        rules = ["alone", "extend"] if effect in EFFECTS else []
        if effect in PAIR_EFFECTS and world.name not in NO_PAIRS:
            rules.append("pairs")
        if rules:
            cells += play(base, effect, theirs[effect.factor], rules, seed)
    return cells


HEAD = [
    "world",
    "rigor",
    "rule",
    "candidate",
    "campaigns",
    "q_A(T)",
    "q_B(T)",
    "pass",
    "regression",
    "inconclusive",
    "false regression",
    "false pass",
]


def row(cell: Cell) -> list[str]:
    return [
        cell.world,
        cell.rigor.name,
        cell.rule,
        cell.effect,
        f"{len(cell.verdict):,}",
        f"{np.median(cell.before):.1%}",
        f"{np.median(cell.after):.1%}",
        f"{cell.share(PASS):.1%}",
        f"{cell.share(REGRESSION):.1%}",
        f"{cell.share(INCONCLUSIVE):.1%}",
        told(*cell.false_regressions()),
        told(*cell.false_passes()),
    ]


def told(count: int, n: int) -> str:
    """A rate with its exact 99 % interval; nothing where the truth is never so, or hardly ever."""
    if n < 500:
        return "–"
    low, high = interval(count, n)
    broken = " **above**" if low > STATED else ""
    return f"{count / n:.2%} ({low:.1%}–{high:.1%}){broken}"


def misses(cells: Sequence[Cell]) -> list[str]:
    """Promises that the cells break: more than 5 %, by the exact 99 % interval."""
    found = []
    for cell in cells:
        for what, (count, n) in (
            ("false regression", cell.false_regressions()),
            ("false pass", cell.false_passes()),
        ):
            if n >= 500 and interval(count, n)[0] > STATED:
                found.append(
                    f"{what}: {cell.world}, {cell.rigor.name}, {cell.rule}, {cell.effect} ({count / n:.2%})"
                )
    return found


def highest(cells: Sequence[Cell], rule: str) -> tuple[float, float]:
    """(largest false regression rate, largest false pass rate) of a rule's cells."""
    mine = [cell for cell in cells if cell.rule == rule]
    wrong = [c.false_regressions() for c in mine], [c.false_passes() for c in mine]
    regressions, passes = (max((k / n for k, n in counts if n >= 500), default=0.0) for counts in wrong)
    return regressions, passes


def page(cells: Sequence[Cell], campaigns: int, seconds: float) -> str:
    """The section of docs/check.md."""
    lines = [
        f"{campaigns:,} pairs of campaigns a cell, {len(cells)} cells, {seconds:.0f} s on one core "
        "(`python -m benchmarks.check_power --write`; of its worlds those that are shown). Baselines that "
        "certified nothing are left out. The "
        "climbs are the product's ladder on drawn onsets, ends, delays, open tails and losses; a candidate's "
        f"climb is one of {CLIMBS:,} of its own world. Samples and rules are a vectorised twin; of the first "
        f"{COMPARED} campaigns of every {_ROWS:,} the product's own `assess_risk` and `assess_pairs` said "
        "the same. Δ = α. For pairs, half of the prompts draw the same scores on both sides.",
        "",
    ]
    for rule in ("alone", "extend", "pairs"):
        worst = highest(cells, rule)
        lines.append(
            f"- *{rule}*: false regressions at most {worst[0]:.2%} in any cell, false passes {worst[1]:.2%}."
        )
    broken = misses(cells)
    beyond = [c.passes_beyond() for c in cells if c.rule == "alone"]
    most = max((k / n for k, n in beyond if n >= 500), default=0.0)
    lines += [
        f"- Broken promises (exact 99 % interval above 5 %): {'; '.join(broken) or 'none'}.",
        f"- Worse than the baseline *itself* by Δ or more, and passed by the candidate's sample alone: up to "
        f"{most:.0%}. The baseline's own risk at T is usually well below α, and that rule knows α only; to "
        "compare with the baseline itself, measure it anew (*pairs*).",
        "",
        table(HEAD, [row(cell) for cell in cells]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=22_000)
    parser.add_argument("--world", default="", help="only worlds whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder: what is there is not measured again")
    parser.add_argument("--only-kept", action="store_true", help="measure nothing anew")
    parser.add_argument("--write", action="store_true", help="write docs/check.md")
    options = parser.parse_args()
    cells: list[Cell] = []
    seconds = 0.0
    for world, rigor in ((world, rigor) for world, rigor in PLAYED if options.world in world.name):
        name = f"{world.name} {rigor} {options.campaigns} {options.seed}"
        if options.only_kept and not is_kept(options.keep, name):
            continue
        make = partial(measure, world, rigor, options.campaigns, options.seed)
        found, took = kept(options.keep, name, make)
        cells, seconds = [*cells, *found], seconds + took
        for cell in found:
            print(" | ".join(row(cell)), flush=True)
    if options.write:
        write_section("check.md", "onsets", page(cells, options.campaigns, seconds))
    for missed in misses(cells):
        print("missed:", missed)
    sys.exit(1 if misses(cells) else 0)


if __name__ == "__main__":
    main()
