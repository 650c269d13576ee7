"""The certified threshold: the largest T whose degeneration risk is bounded by alpha.

The estimand is q(T) = P(onset <= T | not healthily ended by T). It needs no assumption that ending
and failing are independent, and it is at least the share of all requests that degenerate by T.

At risk for T are the generations with onset <= T and those seen healthy through token T
(`observed >= T`: `observed` is the last token known healthy; copies of a failing output have none).
Of n at risk, d failed; the one-sided Clopper-Pearson upper bound of d/n is monotone in T, because raising
T only turns successes into failures, takes successes away or adds failures. So {T: bound <= alpha} is an
interval from 1, and choosing its upper end from the data costs no confidence: the choice goes wrong only
when the bound at one fixed T*, the first with q(T*) > alpha, does.

Generations that stopped while a candidate was open (at their cap, by themselves, at a service failure) may
have failed there. Leaving them out near that end would drop failures only, so T is chosen as if they had
all failed right after their last healthy token; n, onsets and the bound reported are those of the estimand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log

from stresstest.model import Generation, Observation, Rigor, Threshold
from stresstest.threshold.sample import deduplicate, observations, outcome

# --tighten: looks at planned x 1, 2, 4, 8, all declared before the first generation.
LOOKS = 4
# Token sources (Generation.token_source) that are not the model's own tokens.
_UNCOUNTED = frozenset({"chunks", "tiktoken (estimate)"})


def upper_bound(d: int, n: int, confidence: float) -> float:
    """One-sided Clopper-Pearson upper bound of a proportion, d of n; 1.0 when n is 0 or d is n.

    Source: Clopper & Pearson 1934; the `confidence` quantile of Beta(d + 1, n - d).
    """
    if not 0 <= d <= n:
        raise ValueError(f"{d} of {n} is no proportion")
    if d == n:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(d + 1, n - d, confidence))


def risk_at(tokens: int, sample: Sequence[Observation]) -> tuple[int, int]:
    """(n, d): generations at risk for T = `tokens`, and those of them degenerate by T."""
    return _Counts.of(sample).at(tokens)[:2]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Sorted positions, so that each T is counted in O(log n). before: last healthy tokens of failures."""

    onsets: tuple[int, ...]
    before: tuple[int, ...]
    healthy: tuple[int, ...]
    doubtful: tuple[int, ...]

    @classmethod
    def of(cls, sample: Sequence[Observation]) -> _Counts:
        found = [outcome(o) for o in sample]
        return cls(
            tuple(sorted(o.onset for o in found if o.onset is not None)),
            tuple(sorted(o.reach for o in found if o.onset is not None)),
            tuple(sorted(o.reach for o in found if o.onset is None)),
            tuple(sorted(o.reach for o in found if o.onset is None and o.doubtful)),
        )

    def at(self, tokens: int) -> tuple[int, int, int]:
        """n, d and the doubtful ones whose health ends before T (not in n)."""
        d = bisect_right(self.onsets, tokens)
        healthy = len(self.healthy) - bisect_left(self.healthy, tokens)
        healthy += len(self.before) - bisect_left(self.before, tokens)
        return d + healthy, d, bisect_left(self.doubtful, tokens)

    def candidates(self) -> list[int]:
        """The only T at which a larger T could cost something: last healthy tokens, ascending."""
        return sorted({t for t in (*self.healthy, *self.before, *(o - 1 for o in self.onsets)) if t >= 1})


def needed_at_risk(alpha: float, confidence: float, floor: int = 0) -> int:
    """Fewest requests at risk that can certify anything, with no onset among them (Wilks 1941)."""
    return max(floor, ceil(log(1.0 - confidence) / log(1.0 - alpha) - 1e-9))


def certify(sample: Sequence[Observation], rigor: Rigor, looks: int = 1) -> Threshold:
    """The largest T whose upper bound is <= rigor.alpha, from one look out of `looks` declared.

    Each look has confidence 1 - (1 - rigor.confidence) / looks. No onset in the sample: `tokens` =
    `censored_at` = C, never an extrapolation. Too few at risk, or failing from the start: not
    certified, and `lacking` says in numbers what is missing. O(n log n).
    """
    confidence = 1.0 - (1.0 - rigor.confidence) / looks
    counts = _Counts.of(sample)
    candidates = counts.candidates()

    def passes(tokens: int) -> bool:
        n, d, doubtful = counts.at(tokens)
        return n >= rigor.floor and upper_bound(d + doubtful, n + doubtful, confidence) <= rigor.alpha

    passing = bisect_left(candidates, True, key=lambda t: not passes(t))
    if passing == 0:
        return _uncertified(counts, candidates, rigor, confidence, looks)
    tokens = candidates[passing - 1]
    n, d, _ = counts.at(tokens)
    return Threshold(
        alpha=rigor.alpha,
        confidence=rigor.confidence,
        tokens=tokens,
        n=n,
        onsets=d,
        upper=upper_bound(d, n, confidence),
        certified=True,
        censored_at=None if counts.onsets else tokens,
        looks=looks,
    )


def _uncertified(
    counts: _Counts, candidates: Sequence[int], rigor: Rigor, confidence: float, looks: int
) -> Threshold:
    smallest = candidates[0] if candidates else 1
    n, d, doubtful = counts.at(smallest)
    return Threshold(
        alpha=rigor.alpha,
        confidence=rigor.confidence,
        n=n,
        onsets=d,
        upper=upper_bound(d, n, confidence) if n else None,
        lacking=_lacking(n, d, doubtful, smallest, rigor, confidence),
        looks=looks,
    )


def _lacking(n: int, d: int, doubtful: int, smallest: int, rigor: Rigor, confidence: float) -> str:
    needed = needed_at_risk(rigor.alpha, confidence, rigor.floor)
    if n == 0:
        return f"{needed} requests at risk are needed, none was: no certifying generation was observed."
    if n < needed:
        more = needed - n
        plural = "generation" if more == 1 else "generations"
        return (
            f"{needed} requests at risk are needed, {n} {'was' if n == 1 else 'were'}; "
            f"at least {more} more {plural} of ≥ {smallest:,} tokens."
        )
    doubt = f" and {doubtful} more ended in doubt by then" if doubtful else ""
    return (
        f"{d} of {n} requests at risk degenerate within the first {smallest:,} tokens{doubt}: "
        f"no length keeps the risk at or below {rigor.alpha:.0%} with {rigor.confidence:.0%} confidence."
    )


def certify_looks(sets: Sequence[Sequence[Observation]], rigor: Rigor) -> Threshold:
    """--tighten: `sets[k]` is the whole sample at look k, at most four; the largest T over the looks.

    Every look spends a quarter of the error, so the largest is valid whenever one stops (Bonferroni).
    An onset in any look means that C was not the end: then nothing is reported as "≥ C".
    Raises ValueError for more looks than were declared.
    """
    if len(sets) > LOOKS:
        raise ValueError(f"{len(sets)} looks, but {LOOKS} were declared")
    found = [certify(sample, rigor, LOOKS) for sample in sets] or [certify((), rigor, LOOKS)]
    best = max((t for t in found if t.certified), key=lambda t: t.tokens or 0, default=found[-1])
    if best.censored_at is not None and any(t.certified and t.censored_at is None for t in found):
        return replace(best, censored_at=None)
    return best


def certified_threshold(
    generations: Sequence[Generation],
    rigor: Rigor,
    *,
    tighten: bool = False,
    temperature: float | None = None,
) -> Threshold:
    """The threshold of a run's certifying generations.

    With `tighten` the ladder gives every look its own rung number, and a look's sample holds all rungs
    up to its own. Identical outputs count once (:func:`deduplicate`). Nothing is certified from positions
    that nobody counted in tokens, nor from a sample of which a service failure took more than half.
    """
    rungs = sorted({g.job.rung for g in generations}) if tighten else []
    looks = [[g for g in generations if g.job.rung <= rung] for rung in rungs]
    if tighten:
        threshold = certify_looks([deduplicate(counted(look), temperature) for look in looks], rigor)
    else:
        threshold = certify(deduplicate(counted(generations), temperature), rigor)
    lacking = unusable(generations) or _spoilt(generations, threshold)
    if lacking is None:
        return threshold
    return withdrawn(threshold, lacking)


def withdrawn(threshold: Threshold, lacking: str) -> Threshold:
    """The threshold without its certificate; the counts stay. lacking: why the sample supports none."""
    return replace(threshold, tokens=None, upper=None, certified=False, censored_at=None, lacking=lacking)


def counted(generations: Sequence[Generation]) -> list[Observation]:
    """The observations; a lost generation whose tokens nobody counted may have failed from the first on."""
    return [
        replace(o, observed=0, unresolved=True)
        if o.onset is None and g.failure is not None and g.tokens and g.token_source in _UNCOUNTED
        else o
        for g, o in zip(generations, observations(generations), strict=True)
    ]


def unusable(generations: Sequence[Generation]) -> str | None:
    """Why nothing can be certified whatever the observations say; None when nothing stands against it."""
    total = len(generations)
    lost = sum(g.failure is not None for g in generations)
    if 2 * lost > total:
        return (
            f"{lost} of {total} certifying generations were lost to service failures: "
            "more than half of the sample is missing, and what is left is no fair part of it."
        )
    unknown = [g for g in generations if g.token_source in _UNCOUNTED and g.tokens and not _lost(g)]
    if not unknown:
        return None
    advice = " With --no-abort the server may count them." if any(g.aborted for g in unknown) else ""
    return (
        f"token counts are unknown: of {len(unknown)} of {total} certifying generations the server gave "
        f"neither token ids, logprobs nor usage, and what was counted instead "
        f"({', '.join(sorted({g.token_source for g in unknown}))}) is not max_tokens' scale.{advice}"
    )


def _spoilt(generations: Sequence[Generation], threshold: Threshold) -> str | None:
    """Too many degenerate by T in windows that the server spoilt: a limit for calm hours only is none."""
    if threshold.tokens is None:
        return None
    hidden = sum(
        g.verdict.onset is not None
        and g.invalid_from is not None
        and g.invalid_from <= g.verdict.onset <= threshold.tokens
        for g in generations
    )
    if hidden <= threshold.alpha * len(generations):
        return None
    return (
        f"{hidden} of {len(generations)} certifying generations degenerated by {threshold.tokens:,} tokens "
        "after a preemption or GPU trouble: they say nothing of the model, and the server is not fit to "
        "measure it. Mend the server (more KV cache, fewer requests at once), then measure again."
    )


def _lost(generation: Generation) -> bool:
    return generation.failure is not None and generation.verdict.onset is None
