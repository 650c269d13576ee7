"""What was measured on each plane of a run, as numbers: the table of the planes draws them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from stresstest.diagnosis.depth import repetition
from stresstest.diagnosis.effects import diversity
from stresstest.model import Generation, RunResult, Token
from stresstest.threshold import onset_ratio
from stresstest.threshold.survival import OnsetRatio

_READ = 400
"""Tokens on either side of an onset that are read."""
_GENERATIONS = 60


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Median over generations of the healthy part and of the degenerate one. None: not measured."""

    before: float | None
    after: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Measured:
    """repetition: share of tokens that close four tokens seen before. entropy: nats. diversity: share of
    distinct words in 50 (1 − it is how far the text turns on the spot). first_token, token_time: median
    seconds. position: median prompt + onset tokens. longest: healthy tokens of the generation that stayed
    healthy longest. lengths: median onset of the longest rung over the shortest's.
    """

    repetition: BeforeAfter
    entropy: BeforeAfter
    diversity: BeforeAfter
    first_token: float | None
    token_time: float | None
    throughput: float | None
    position: float | None
    longest: int | None
    lengths: OnsetRatio | None
    failing: int
    lost: int


def measure(result: RunResult) -> Measured:
    """The numbers of a run. Reads at most 60 failing generations' tokens."""
    everyone = result.generations
    failing = [g for g in everyone if g.verdict.onset is not None]
    read = failing[:: max(1, len(failing) // _GENERATIONS)]
    sides = [_sides(g) for g in read]
    healthy = [g.tokens[:_READ] for g in everyone[:_GENERATIONS]] if not failing else []
    ahead = [a for a, _ in sides] or healthy
    behind = [b for _, b in sides]
    places = [g.prompt_tokens + (g.verdict.onset or 0) for g in failing if g.prompt_tokens is not None]
    seconds = result.server.seconds if result.server else 0.0
    generated = result.server.generated_tokens if result.server else None
    return Measured(
        repetition=_repeated(read or everyone[:_GENERATIONS]),
        entropy=_both(map(_entropy, ahead), map(_entropy, behind)),
        diversity=_both(map(diversity, ahead), map(diversity, behind)),
        first_token=_middle(g.first_token - g.started for g in everyone if g.first_token is not None),
        token_time=_middle(map(_token_time, everyone)),
        throughput=generated / seconds if generated is not None and seconds > 0 else None,
        position=_middle(places),
        longest=max((g.verdict.observed for g in everyone if g.tokens), default=None),
        lengths=_lengths(failing),
        failing=len(failing),
        lost=sum(g.failure is not None for g in everyone),
    )


def _sides(generation: Generation) -> tuple[Sequence[Token], Sequence[Token]]:
    cut = (generation.verdict.onset or 1) - 1
    return generation.tokens[max(0, cut - _READ) : cut], generation.tokens[cut : cut + _READ]


def _both(before: Iterable[float | None], after: Iterable[float | None]) -> BeforeAfter:
    first = [v for v in before if v is not None]
    second = [v for v in after if v is not None]
    return BeforeAfter(_middle(first), _middle(second), max(len(first), len(second)))


def _middle(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _repeated(generations: Sequence[Generation]) -> BeforeAfter:
    """Counted over the whole output, so that a second copy repeats the first one."""
    before, after = [], []
    for generation in generations:
        onset = generation.verdict.onset
        cut = _READ if onset is None else onset - 1
        shares = repetition(generation.tokens[: cut + _READ])
        before.append(_mean(shares[max(0, cut - _READ) : cut]))
        after.append(None if onset is None else _mean(shares[cut:]))
    return _both(before, after)


def _entropy(tokens: Sequence[Token]) -> float | None:
    known = [t.entropy for t in tokens if t.entropy is not None]
    return _mean(known)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _token_time(generation: Generation) -> float | None:
    tokens = generation.tokens
    if len(tokens) < 2 or tokens[0].arrived <= 0.0:
        return None
    return (tokens[-1].arrived - tokens[0].arrived) / (len(tokens) - 1)


def _lengths(failing: Sequence[Generation]) -> OnsetRatio | None:
    """The longest rung's onsets against the shortest's with five of them."""
    rungs: dict[int, list[int]] = {}
    for generation in failing:
        if generation.job.units is not None and generation.verdict.onset is not None:
            rungs.setdefault(generation.job.units, []).append(generation.verdict.onset)
    enough = sorted(units for units, onsets in rungs.items() if len(onsets) >= 5)
    return onset_ratio(rungs[enough[0]], rungs[enough[-1]]) if len(enough) >= 2 else None
