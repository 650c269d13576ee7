"""The certified threshold: the largest T whose degeneration risk is bounded by alpha.

The estimand is q(T) = P(onset <= T | not healthily ended by T). It does not assume that ending and failing
are independent, and it is at least the share of all requests that degenerate by T.

At risk for T are the generations with onset <= T and those observed healthy through token T (`observed >= T`:
`observed` is the last token known healthy; copies of a failing output have none). Of n at risk, d failed. The
one-sided Clopper-Pearson upper bound of d/n is monotone in T, because raising T can only turn successes into
failures, remove successes or add failures. So {T: bound <= alpha} is an interval from 1, and choosing its
upper end from the data costs no confidence: the choice is wrong only if the bound is wrong at one fixed T*,
the first with q(T*) > alpha.

Generations that stopped with an open candidate (at their cap, by themselves, at a service failure) may have
failed there. Excluding them would remove failures only, so T is chosen as if all of them had failed right
after their last healthy token; the reported n, onsets and bound are those of the estimand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from math import ceil, log, log1p

from stresstest.model import GenerationRecord, Observation, Rigor, Threshold
from stresstest.model.percent import percent
from stresstest.statistics.sample import censor, deduplicate, observations

# --tighten: looks at planned x 1, 2, 4, 8, all declared before the first generation.
MAX_LOOKS = 4
# Values of GenerationRecord.token_source for which positions are not the model's own tokens.
_UNCOUNTED = frozenset({"words", "chunks", "tiktoken (estimate)"})  # "chunks": of earlier versions
_POINTS = 120
_BISECTIONS = 40


def upper_bound(d: int, n: int, confidence: float) -> float:
    """One-sided Clopper-Pearson upper bound of the proportion d of n; 1.0 if d equals n.

    Raises ValueError unless 0 <= d <= n. Source: Clopper & Pearson 1934; the `confidence` quantile of
    Beta(d + 1, n - d).
    """
    if not 0 <= d <= n:
        raise ValueError(f"{d} of {n} is not a proportion")
    if d == n:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(d + 1, n - d, confidence))


def risk_at(tokens: int, sample: Sequence[Observation]) -> tuple[int, int]:
    """(n, d): answers at risk for T = `tokens`, and how many of them are degenerate by T."""
    return _PositionCounts.of(sample).at(tokens)[:2]


@dataclass(frozen=True, slots=True)
class _PositionCounts:
    """Sorted positions, so that counting at one T takes O(log n). before: last healthy tokens of failures."""

    onsets: tuple[int, ...]
    before: tuple[int, ...]
    healthy: tuple[int, ...]
    doubtful: tuple[int, ...]

    @classmethod
    def of(cls, sample: Sequence[Observation]) -> _PositionCounts:
        found = [censor(o) for o in sample]
        return cls(
            tuple(sorted(o.onset for o in found if o.onset is not None)),
            tuple(sorted(o.reach for o in found if o.onset is not None)),
            tuple(sorted(o.reach for o in found if o.onset is None)),
            tuple(sorted(o.reach for o in found if o.onset is None and o.doubtful)),
        )

    def at(self, tokens: int) -> tuple[int, int, int]:
        """n, d and the number of doubtful generations last known healthy before T (not in n)."""
        d = bisect_right(self.onsets, tokens)
        healthy = len(self.healthy) - bisect_left(self.healthy, tokens)
        healthy += len(self.before) - bisect_left(self.before, tokens)
        return d + healthy, d, bisect_left(self.doubtful, tokens)

    def candidates(self) -> list[int]:
        """The T beyond which the counts change: last healthy tokens, ascending."""
        return sorted({t for t in (*self.healthy, *self.before, *(o - 1 for o in self.onsets)) if t >= 1})


def needed_at_risk(alpha: float, confidence: float, floor: int = 0) -> int:
    """The smallest number of requests at risk that can certify anything, without onsets (Wilks 1941)."""
    return max(floor, ceil(log(1.0 - confidence) / log1p(-alpha) - 1e-9))


def certify(sample: Sequence[Observation], rigor: Rigor, looks: int = 1, among: int = 1) -> Threshold:
    """The largest T whose upper bound is <= rigor.alpha, from one of `looks` declared looks. O(n log n).

    among: samples of which this one is chosen, for its T or otherwise. Each look of each of them has
    confidence 1 - (1 - rigor.confidence) / (looks x among), so that all hold together (Bonferroni). Without
    an onset in the sample `tokens` = `censored_at` = C, never an extrapolation. With too few generations at
    risk, or failures from the start, nothing is certified, and `lacking` states in numbers what is missing.
    """
    confidence = 1.0 - (1.0 - rigor.confidence) / (looks * among)
    counts = _PositionCounts.of(sample)
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
    counts: _PositionCounts, candidates: Sequence[int], rigor: Rigor, confidence: float, looks: int
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
        return f"{needed} answers at risk are needed, but there were none: no certifying answer was observed."
    if n < needed:
        more = needed - n
        further = "answer that reaches" if more == 1 else "answers that reach"
        return (
            f"{needed} answers at risk are needed, but there {('was' if n == 1 else 'were')} only "
            f"{n}; measure at least {more} more {further} {smallest:,} tokens."
        )
    doubt = f" and {doubtful} more ended undecided by then" if doubtful else ""
    first = "token" if smallest == 1 else f"{smallest:,} tokens"
    return (
        f"{d} of {n} answers at risk degenerate within the first {first}{doubt}: "
        f"no length keeps the risk at or below {percent(rigor.alpha)} with "
        f"{percent(rigor.confidence)} confidence."
    )


def certify_looks(sets: Sequence[Sequence[Observation]], rigor: Rigor, among: int = 1) -> Threshold:
    """The largest T over the looks of --tighten. `sets[k]`: the whole sample at look k, at most four looks.

    Each look spends a quarter of the error probability, so the largest T is valid at any stopping point
    (Bonferroni). After an onset in any look, nothing is reported as "≥ C". Raises ValueError for more looks
    than were declared.
    """
    if len(sets) > MAX_LOOKS:
        raise ValueError(f"{len(sets)} looks, but {MAX_LOOKS} were declared")
    found = [certify(sample, rigor, MAX_LOOKS, among) for sample in sets or ((),)]
    best = max((t for t in found if t.certified), key=lambda t: t.tokens or 0, default=found[-1])
    if best.censored_at is not None and any(t.certified and t.censored_at is None for t in found):
        return replace(best, censored_at=None)
    return best


def certified_threshold(
    generations: Sequence[GenerationRecord],
    rigor: Rigor,
    *,
    tighten: bool = False,
    temperature: float | None = None,
    among: int = 1,
) -> Threshold:
    """The threshold of a run's certifying answers. among: runs of which it is chosen, as in `certify`.

    With `tighten` each look has its own rung number, and its sample contains all rungs up to that number.
    Identical outputs count once (:func:`deduplicate`). Nothing is certified without real token counts, or if
    service failures took more than half of the sample.
    """
    rungs = sorted({g.job.rung for g in generations}) if tighten else []
    looks = [[g for g in generations if g.job.rung <= rung] for rung in rungs]
    if tighten:
        threshold = certify_looks(
            [deduplicate(known_observations(look), temperature) for look in looks], rigor, among
        )
    else:
        sample = deduplicate(known_observations(generations), temperature)
        threshold = certify(sample, rigor, among=among)
    lacking = unusable_reason(generations) or _spoilt_windows_reason(generations, threshold)
    if lacking is None:
        return threshold
    return without_certificate(threshold, lacking)


def is_limited_by_ends(
    threshold: Threshold, generations: Sequence[GenerationRecord], temperature: float | None = None
) -> bool:
    """Whether T is where the observed generations end, in doubt or not, and not where one more fails.

    generations: those that certified `threshold`. False where nothing is certified.
    """
    if threshold.tokens is None:
        return False
    counts = _PositionCounts.of(deduplicate(known_observations(generations), temperature))
    return counts.at(threshold.tokens + 1)[1] <= counts.at(threshold.tokens)[1]


def without_certificate(threshold: Threshold, lacking: str) -> Threshold:
    """The threshold, marked as not certified; its counts are kept. lacking: the reason."""
    return replace(threshold, tokens=None, upper=None, certified=False, censored_at=None, lacking=lacking)


def known_observations(generations: Sequence[GenerationRecord]) -> list[Observation]:
    """The observations. A lost generation without real token counts may have failed from its first token."""
    return [
        replace(o, observed=0, unresolved=True)
        if o.onset is None and g.failure is not None and _is_uncounted(g)
        else o
        for g, o in zip(generations, observations(generations), strict=True)
    ]


def _is_uncounted(generation: GenerationRecord) -> bool:
    return generation.token_source in _UNCOUNTED and generation.token_summary.count > 0


def unusable_reason(generations: Sequence[GenerationRecord]) -> str | None:
    """Why nothing can be certified from these generations, whatever the observations; None if possible."""
    total = len(generations)
    lost = sum(g.failure is not None for g in generations)
    if 2 * lost > total:
        return (
            f"{lost} of {total} certifying answers were lost to service failures: more than half "
            f"of the sample is missing, and the rest is not representative."
        )
    kept = [g for g in generations if g.failure is None or g.verdict.onset is not None]
    unknown = [g for g in kept if _is_uncounted(g)]
    if not unknown:
        return None
    advice = " With --no-abort the server may count them." if any(g.aborted for g in unknown) else ""
    return (
        f"token counts are unknown: for {len(unknown)} of {total} certifying answers the server "
        f"returned neither token ids, logprobs nor usage, and the substitute count "
        f"({', '.join(sorted({g.token_source for g in unknown}))}) is not in max_tokens' scale.{advice}"
    )


def spoilt_windows_reason(
    generations: Sequence[GenerationRecord], rigor: Rigor, temperature: float | None
) -> str | None:
    """Why a sample of an unfit server shows nothing, whatever it is compared with; None for a fit one."""
    sample = deduplicate(known_observations(generations), temperature)
    return _spoilt_windows_reason(generations, certify(sample, rigor))


def _spoilt_windows_reason(generations: Sequence[GenerationRecord], threshold: Threshold) -> str | None:
    """Too many onsets by T fall into invalidated windows, so T would hold on an undisturbed server only."""
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
        f"{hidden} of {len(generations)} certifying answers degenerated by {threshold.tokens:,} "
        f"tokens after a preemption or GPU trouble. They show nothing about the model, and the server "
        f"is not fit to measure it. Fix the server (more KV cache, fewer concurrent requests), then "
        f"measure again."
    )


def bound_curve(
    generations: Sequence[GenerationRecord],
    confidence: float,
    *,
    temperature: float | None = None,
    floor: int = 1,
) -> tuple[tuple[int, float], ...]:
    """(T, one-sided Clopper-Pearson upper bound of q(T)) at up to about 120 of the T where it can change.

    generations: the certifying sample. confidence: of the threshold (of one look, if several were declared).
    Generations that stopped with an open candidate count as failed right after their last healthy token, as
    in `certify`. The curve ends where fewer than `floor` generations are at risk.
    """
    sample = [_worst_case(o) for o in deduplicate(observations(generations), temperature)]
    found = [censor(o) for o in sample]
    places = sorted({o.reach for o in found} | {o.onset for o in found if o.onset is not None} - {0})
    step = max(1, len(places) // _POINTS)
    points = []
    for tokens in (t for t in {*places[::step], *places[-1:]} if t >= 1):
        n, d = risk_at(tokens, sample)
        if n >= max(1, floor):
            points.append((tokens, upper_bound(d, n, confidence)))
    return tuple(sorted(points))


def _worst_case(observation: Observation) -> Observation:
    found = censor(observation)
    if not found.doubtful or found.onset is not None:
        return observation
    return Observation(found.reach + 1, found.reach, observation.cluster, observation.digest)


def safe_max_tokens(threshold: Threshold, margin: float) -> int | None:
    """floor(T x (1 - margin)) in tokens; None if nothing is certified, or no cap is recommended there.

    Computed with Decimal, so that 1000 tokens less 10 % are 900 and not, by binary rounding, 899. Raises
    ValueError for a margin outside [0, 1).
    """
    if not 0.0 <= margin < 1.0:
        raise ValueError(f"margin {margin} is not a share in [0, 1)")
    if threshold.tokens is None or not threshold.certified or threshold.withheld is not None:
        return None
    exact = Decimal(threshold.tokens) * (1 - Decimal(repr(margin)))
    return int(exact.to_integral_value(ROUND_FLOOR))


def limit_without_cap(threshold: Threshold, margin: float) -> int | None:
    """What the margin leaves of a certified T from which no cap is recommended.

    None where one is, where T has no room for one unit of the task, and where nothing is certified.
    """
    if threshold.withheld is None or threshold.unfit:
        return None
    return safe_max_tokens(replace(threshold, withheld=None), margin)


def clopper_pearson(d: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided Clopper-Pearson interval of d out of n (1934); (0, 1) if n is 0.

    d and n may be fractional, for an effective sample size. Raises ValueError unless 0 <= d <= n.
    """
    if not 0.0 <= d <= n:
        raise ValueError(f"{d} of {n} is not a proportion")
    if n == 0.0:
        return 0.0, 1.0
    from scipy.special import betaincinv

    tail = (1.0 - confidence) / 2.0
    lo = 0.0 if d == 0.0 else float(betaincinv(d, n - d + 1.0, tail))
    hi = 1.0 if d == n else float(betaincinv(d + 1.0, n - d, 1.0 - tail))
    return lo, hi


def effective_size(clusters: Iterable[tuple[int, int]], prompts: float | None = None) -> tuple[float, int]:
    """(effective size, size n) of a sample in clusters, each given as (degenerate, outputs).

    Several outputs of one prompt carry less information than the same number of prompts. The effective size
    is n / design effect, with the between-cluster variance of the ratio estimator and the factor for its few
    degrees of freedom (Korn & Graubard 1998), at most n. It is also so small that the interval reaches as far
    as that of so many prompts of which none, or each, fails: prompts that fail often may be rare, and a few
    prompts tell nothing of those that were not sent. If nothing or everything degenerates, the effective size
    is the number of clusters. prompts: how many there are, where a cluster is a group of them.
    """
    found = [pair for pair in clusters if pair[1] > 0]
    n = sum(size for _, size in found)
    d = sum(degenerate for degenerate, _ in found)
    m = len(found)
    if m == n or m < 2 or d in (0, n):
        return float(m), n
    rate = d / n
    variance = m / (m - 1) * sum((k - rate * size) ** 2 for k, size in found) / (n * n)
    known = min(prompts or m, n)
    size = float(n)
    if variance > 0.0:
        size = min(size, rate * (1.0 - rate) / variance * _freedom_factor(n, m))
    return _size_that_reaches(rate, known, size), n


def _freedom_factor(n: int, m: int) -> float:
    return float((_t_quantile(n - 1) / _t_quantile(m - 1)) ** 2)


def _t_quantile(freedom: int) -> float:
    """Student's t that is exceeded in either direction with a probability of 5 %."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _size_that_reaches(rate: float, prompts: float, size: float) -> float:
    """The largest size, at most `size`, at which the interval of this rate reaches as far up as that of so
    many prompts without a failure, and as far down as that of so many failures."""
    reach = clopper_pearson(0, prompts)[1]

    def reaches(size: float) -> bool:
        lo, hi = clopper_pearson(rate * size, size)
        return hi >= reach and lo <= 1.0 - reach

    if reaches(size):
        return size
    low, high = min(prompts, size), size
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low


def clustered_interval(
    d: int, n: int, effective_share: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Clopper-Pearson interval of d out of n at `effective_share` of the size (1: independent outputs)."""
    return clopper_pearson(d * effective_share, n * effective_share, confidence)


def rate_interval(d: int, unseen: int, n: int, effective_share: float) -> tuple[float, float]:
    """The 95 % interval of d out of n where `unseen` more may be among the d: its lower bound without them,
    its upper bound with them."""
    low, _ = clustered_interval(d, n, effective_share)
    return low, clustered_interval(min(d + unseen, n), n, effective_share)[1]
