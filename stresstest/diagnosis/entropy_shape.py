"""Does the distribution narrow before a failure? Entropy aligned at the onset and matched. Pure.

Every failing answer is matched with those answers that stayed healthy well past its onset, at the same token
positions: entropy changes along a text, and where the failure lies is no accident. Without failure being at
work, the failing one is exchangeable with its matches; that is the permutation test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stresstest.model import EntropyShape, Generation

STEP = 16
REACH = 128
"""Tokens before the onset that are looked at, in windows of `STEP`."""
_LAST = 32
_PAST = 64
"""Tokens past the position that a match must still be healthy."""
_FEWEST = 8
_FEWEST_MATCHES = 3
_LEVEL = 0.01
_DRAWS = 4000


@dataclass(frozen=True, slots=True)
class _Set:
    """A failing answer's mean entropy in one window, and that of its matches."""

    failing: float
    matches: tuple[float, ...]

    @property
    def difference(self) -> float:
        return self.failing - fmean(self.matches)


def entropy_shape(failing: Sequence[Generation], every: Sequence[Generation]) -> EntropyShape:
    """Test the hypothesis that sampling entropy collapses before the onset."""
    known = [g for g in failing if any(t.entropy is not None for t in g.tokens)]
    if not known:
        return _unmeasurable("the server gave no logprobs", 0, 0)
    sets = _sets(known, every, _LAST, 0)
    matches = {h.key for g in known for h in _matches(g, every)}
    if len(sets) < _FEWEST or len(matches) < _FEWEST_MATCHES:
        why = (
            f"{len(sets)} failing answers have others that stayed healthy past the same place, "
            f"{_FEWEST} are needed"
        )
        return _unmeasurable(why, len(sets), len(matches))
    difference, p = _test(sets)
    profile, lead, holds = [], 0, True
    for end in range(0, REACH, STEP):
        found = _sets(known, every, STEP, end)
        if len(found) < _FEWEST:
            break
        each, chance = _test(found)
        profile.append((-end - STEP, round(each, 4)))
        holds = holds and chance <= _LEVEL and each * difference > 0
        lead = end + STEP if holds else lead
    supported = difference < 0 and p <= _LEVEL
    return EntropyShape(
        "supported" if supported else "not supported",
        _sentence(difference, p, lead, supported),
        failing=len(sets),
        healthy=len(matches),
        difference=difference,
        p=p,
        lead=lead or None,
        profile=tuple(reversed(profile)),
    )


def _matches(generation: Generation, every: Sequence[Generation]) -> list[Generation]:
    onset = generation.verdict.onset or 0
    return [g for g in every if g.key != generation.key and g.verdict.observed >= onset + _PAST]


def _sets(failing: Sequence[Generation], every: Sequence[Generation], width: int, back: int) -> list[_Set]:
    """Windows of `width` tokens that end `back` tokens before each onset."""
    found = []
    for generation in failing:
        end = (generation.verdict.onset or 1) - 1 - back
        own = _mean(generation, end, width)
        others = [m for g in _matches(generation, every) if (m := _mean(g, end, width)) is not None]
        if own is not None and others:
            found.append(_Set(own, tuple(others)))
    return found


def _mean(generation: Generation, end: int, width: int) -> float | None:
    if end < width:
        return None
    known = [t.entropy for t in generation.tokens[end - width : end] if t.entropy is not None]
    return fmean(known) if len(known) >= width // 2 else None


def _test(sets: Sequence[_Set]) -> tuple[float, float]:
    """(mean difference in nats, two-sided p by exchanging within the sets; seeded)."""
    import numpy as np

    observed = fmean(s.difference for s in sets)
    rng = np.random.default_rng(1)
    total = np.zeros(_DRAWS)
    for each in sets:
        values = np.array([each.failing, *each.matches])
        drawn = values[rng.integers(0, len(values), _DRAWS)]
        total += drawn - (values.sum() - drawn) / (len(values) - 1)
    hits = int(np.count_nonzero(np.abs(total / len(sets)) >= abs(observed)))
    return observed, (1 + hits) / (1 + _DRAWS)


def _sentence(difference: float, p: float, lead: int, supported: bool) -> str:
    moved = f"{abs(difference):.2f} nats {'lower' if difference < 0 else 'higher'}"
    measured = f"entropy over the last {_LAST} tokens before the onset is {moved} than at the same places of "
    measured += f"healthy answers (p = {p:.2g})"
    since = f", and differs from {lead} tokens before the onset on" if lead else ""
    verdict = "supported" if supported else "not supported"
    return f"Sampling entropy collapse before the failure: {verdict}; {measured}{since}."


def _unmeasurable(why: str, failing: int, healthy: int) -> EntropyShape:
    sentence = f"Sampling entropy collapse before the failure: not measurable; {why}."
    return EntropyShape("not measurable", sentence, failing, healthy)
