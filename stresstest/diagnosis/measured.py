"""Numbers measured on each plane of a run, for the table of planes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from stresstest.diagnosis.depth import repetition_share
from stresstest.diagnosis.intervention.effects import lexical_diversity
from stresstest.model import Generation, GenerationLoader, GenerationRecord, RunResult, Token
from stresstest.statistics import onset_ratio
from stresstest.statistics.survival import OnsetRatio

_READ = 400
"""Maximum tokens used on either side of an onset."""
_GENERATIONS = 60


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Medians over n generations: of the healthy part, and of the degenerate part. None: not measured."""

    before: float | None
    after: float | None
    n: int


@dataclass(frozen=True, slots=True)
class PlaneMeasurements:
    """Measurements on the planes of a run. None: not measured.

    repetition: share of tokens that complete a 4-gram seen before. entropy: nats. diversity: share of
    distinct words in windows of 50. first_token: median time to first token, token_time: median time per
    token, in seconds. throughput: tokens per second of the server. position: median prompt + onset tokens.
    longest: largest number of healthy tokens of any generation. lengths: median onset of the longest rung
    over that of the shortest.
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


def measure_planes(result: RunResult, load: GenerationLoader) -> PlaneMeasurements:
    """Measure a run. load: called for 60 to 120 of the failing generations, one at a time."""
    everyone = result.generations
    failing = [g for g in everyone if g.verdict.onset is not None]
    read = failing[:: max(1, len(failing) // _GENERATIONS)] or everyone[:_GENERATIONS]
    measures = [_measure_text(load(g)) for g in read]
    places = [g.prompt_tokens + (g.verdict.onset or 0) for g in failing if g.prompt_tokens is not None]
    seconds = result.server.seconds if result.server else 0.0
    generated = result.server.generated_tokens if result.server else None
    return PlaneMeasurements(
        repetition=_before_after([repetition for repetition, _, _ in measures]),
        entropy=_before_after([entropy for _, entropy, _ in measures]),
        diversity=_before_after([diversity for _, _, diversity in measures]),
        first_token=known_median(g.first_token - g.started for g in everyone if g.first_token is not None),
        token_time=known_median(map(_token_time, everyone)),
        throughput=generated / seconds if generated is not None and seconds > 0 else None,
        position=known_median(places),
        longest=max((g.verdict.observed for g in everyone if g.token_summary.count), default=None),
        lengths=_lengths(failing),
        failing=len(failing),
        lost=sum(g.failure is not None for g in everyone),
    )


_Sides = tuple[float | None, float | None]


def _measure_text(generation: Generation) -> tuple[_Sides, _Sides, _Sides]:
    """(repetition, entropy, diversity) of one generation, each (before, after) its onset."""
    onset = generation.verdict.onset
    cut = _READ if onset is None else onset - 1
    before = generation.tokens[max(0, cut - _READ) : cut]
    after = () if onset is None else generation.tokens[cut : cut + _READ]
    return (
        _repetition(generation),
        (_entropy(before), _entropy(after)),
        (lexical_diversity(before), lexical_diversity(after)),
    )


def _before_after(sides: Sequence[_Sides]) -> BeforeAfter:
    first = [before for before, _ in sides if before is not None]
    second = [after for _, after in sides if after is not None]
    return BeforeAfter(known_median(first), known_median(second), max(len(first), len(second)))


def known_median(values: Iterable[float | None]) -> float | None:
    """The median of the known values; None if none is known."""
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _repetition(generation: Generation) -> _Sides:
    """Repetition is counted over the whole output, so that a second copy repeats the first one."""
    onset = generation.verdict.onset
    cut = _READ if onset is None else onset - 1
    shares = repetition_share(generation.tokens[: cut + _READ])
    return _mean(shares[max(0, cut - _READ) : cut]), None if onset is None else _mean(shares[cut:])


def _entropy(tokens: Sequence[Token]) -> float | None:
    return _mean([t.entropy for t in tokens if t.entropy is not None])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _token_time(generation: GenerationRecord) -> float | None:
    tokens = generation.token_summary
    first, last = tokens.first_arrived, tokens.last_arrived
    if tokens.count < 2 or first is None or last is None or first <= 0.0:
        return None
    return (last - first) / (tokens.count - 1)


def _lengths(failing: Sequence[GenerationRecord]) -> OnsetRatio | None:
    """Onsets of the longest rung against the shortest, among rungs with at least five onsets."""
    rungs: dict[int, list[int]] = {}
    for generation in failing:
        if generation.job.units is not None and generation.verdict.onset is not None:
            rungs.setdefault(generation.job.units, []).append(generation.verdict.onset)
    enough = sorted(units for units, onsets in rungs.items() if len(onsets) >= 5)
    return onset_ratio(rungs[enough[0]], rungs[enough[-1]]) if len(enough) >= 2 else None
