"""The certified bound as a curve: what `certify` looks at, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.model import Generation, Observation
from stresstest.threshold.certify import risk_at, upper_bound
from stresstest.threshold.sample import deduplicate, observations, outcome

_POINTS = 120


def bound_curve(
    generations: Sequence[Generation], confidence: float, *, temperature: float | None = None, floor: int = 1
) -> tuple[tuple[int, float], ...]:
    """(T, one-sided Clopper-Pearson upper bound of q(T)) at the T where it can change, at most 120 of them.

    generations: the certifying sample. confidence: of the threshold (of one look, where several were
    declared). Generations that stopped in doubt count as failed right after their last healthy token, as
    in `certify`; it ends where fewer than `floor` are at risk.
    """
    sample = [_worst(o) for o in deduplicate(observations(generations), temperature)]
    found = [outcome(o) for o in sample]
    places = sorted({o.reach for o in found} | {o.onset for o in found if o.onset is not None} - {0})
    step = max(1, len(places) // _POINTS)
    points = []
    for tokens in (t for t in {*places[::step], *places[-1:]} if t >= 1):
        n, d = risk_at(tokens, sample)
        if n >= max(1, floor):
            points.append((tokens, upper_bound(d, n, confidence)))
    return tuple(sorted(points))


def _worst(observation: Observation) -> Observation:
    found = outcome(observation)
    if not found.doubtful or found.onset is not None:
        return observation
    return Observation(found.reach + 1, found.reach, observation.cluster, observation.digest)
