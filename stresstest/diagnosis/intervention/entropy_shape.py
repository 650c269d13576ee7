"""Tests whether entropy falls before a failure, aligned at the onset and compared with matches. Pure.

Each failing answer is compared at the same token positions with the answers that stayed healthy well past its
onset, because entropy changes along a text and onsets are not at random positions. Under the null hypothesis
the failing answer is exchangeable with its matches, which gives a permutation test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from stresstest.model import EntropyShape, Generation, GenerationRecord, entropies

WINDOW_TOKENS = 16
LOOKBACK_TOKENS = 128
"""Tokens before the onset that are examined, in windows of `WINDOW_TOKENS`."""
_LAST = 32
_MIN_HEALTHY_AFTER = 64
"""Tokens past the onset for which a match must stay healthy."""
_WINDOWS = ((_LAST, 0), *((WINDOW_TOKENS, end) for end in range(0, LOOKBACK_TOKENS, WINDOW_TOKENS)))
_FEWEST = 8
_FEWEST_MATCHES = 3
_LEVEL = 0.01
_DRAWS = 4000


@dataclass(frozen=True, slots=True)
class _MatchedSet:
    """Mean entropy in one window, in nats: of a failing answer, and of its matches."""

    failing: float
    matches: tuple[float, ...]

    @property
    def difference(self) -> float:
        return self.failing - fmean(self.matches)


def entropy_shape(failing: Sequence[GenerationRecord], every: Iterable[Generation]) -> EntropyShape:
    """Test the hypothesis that sampling entropy collapses before the onset.

    every: all generations of the run, the failing ones and their candidate matches; read once, one at a time.
    """
    known = [g for g in failing if g.token_summary.entropy]
    if not known:
        return _unmeasurable("there are no logprobs", 0, 0)
    windows = _Windows(known)
    for generation in every:
        windows.read(generation)
    sets, matches = windows.sets(_LAST, 0), len(windows.matched)
    if len(sets) < _FEWEST or matches < _FEWEST_MATCHES:
        why = (
            f"{len(sets)} failing answers have others that stayed healthy past the same place, "
            f"{_FEWEST} are needed"
        )
        return _unmeasurable(why, len(sets), matches)
    difference, p = _test(sets)
    profile, lead, holds = [], 0, True
    for end in range(0, LOOKBACK_TOKENS, WINDOW_TOKENS):
        found = windows.sets(WINDOW_TOKENS, end)
        if len(found) < _FEWEST:
            break
        each, chance = _test(found)
        profile.append((-end - WINDOW_TOKENS, round(each, 4)))
        holds = holds and chance <= _LEVEL and each * difference > 0
        lead = end + WINDOW_TOKENS if holds else lead
    supported = difference < 0 and p <= _LEVEL
    return EntropyShape(
        "supported" if supported else "not supported",
        _sentence(difference, p, lead, supported),
        failing=len(sets),
        healthy=matches,
        difference=difference,
        p=p,
        lead=lead or None,
        profile=tuple(reversed(profile)),
    )


class _Windows:
    """Mean entropies in the windows before each onset: of the failing answer and of its matches.

    A window is its width and how many tokens before the onset it ends. matched: keys of all matches.
    """

    def __init__(self, failing: Sequence[GenerationRecord]) -> None:
        self.matched: set[str] = set()
        self._failing = failing
        self._own: dict[tuple[str, int, int], float] = {}
        self._others: dict[tuple[str, int, int], list[float]] = {}

    def read(self, generation: Generation) -> None:
        """Take what this generation contributes: its own windows, and those in which it is a match."""
        values = list(entropies(generation.tokens))
        for failing in self._failing:
            onset = failing.verdict.onset or 1
            own = generation.key == failing.key
            if not own and generation.verdict.observed < onset + _MIN_HEALTHY_AFTER:
                continue
            if not own:
                self.matched.add(generation.key)
            for width, back in _WINDOWS:
                mean = _mean(values, onset - 1 - back, width)
                window = (failing.key, width, back)
                if mean is not None and own:
                    self._own[window] = mean
                elif mean is not None:
                    self._others.setdefault(window, []).append(mean)

    def sets(self, width: int, back: int) -> list[_MatchedSet]:
        """The failing answers with a mean of their own and at least one match in a window."""
        windows = ((failing.key, width, back) for failing in self._failing)
        return [
            _MatchedSet(self._own[window], tuple(self._others[window]))
            for window in windows
            if window in self._own and window in self._others
        ]


def _mean(values: Sequence[float | None], end: int, width: int) -> float | None:
    if end < width:
        return None
    known = [value for value in values[end - width : end] if value is not None]
    return fmean(known) if len(known) >= width // 2 else None


def _test(sets: Sequence[_MatchedSet]) -> tuple[float, float]:
    """(mean difference in nats, two-sided p of a seeded permutation test within the sets)."""
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
    measured = (
        f"in the {_LAST} tokens before the onset, entropy is {moved} than at the same places of healthy "
    )
    measured += f"answers (p = {p:.2g})"
    since = f"; the difference begins {lead} tokens before the onset" if lead else ""
    verdict = "Supported" if supported else "Not supported"
    return f"Hypothesis: entropy collapses before the failure. {verdict}: {measured}{since}."


def _unmeasurable(why: str, failing: int, healthy: int) -> EntropyShape:
    sentence = f"Hypothesis: entropy collapses before the failure. Not measurable: {why}."
    return EntropyShape("not measurable", sentence, failing, healthy)
