"""Failures after T: when they block the pass of a candidate that is no worse up to T."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from stresstest.features.check.later_failures import later_failures
from stresstest.features.check.sides.sample import CheckSample
from stresstest.model import Observation, Subject, Threshold
from stresstest.statistics.assessment import CheckRule
from tests.support.generations import make, make_job

T = 400
RULE = CheckRule(T, 0.02, 0.02, 0.95, "tokens")
N = 150


def side(drawn: list[Observation], units: int | None) -> CheckSample:
    """A measured side of which only the observations and the requested units matter."""
    fields: dict[str, Any] = {"by_prompt": {}, "symptoms": {}, "generations": N, "onsets": 0}
    return CheckSample(
        label="run",
        subject=Subject("m", "plan", "it"),
        threshold=Threshold(0.02, 0.95, T, N),
        safe_max_tokens=T,
        observations=tuple(drawn),
        certifying=(make(replace(make_job(), units=units), 500).to_record(),),
        **fields,
    )


def answers(rng: random.Random, length: int, per_token: float) -> list[Observation]:
    """Answers of about this length, of which each token after T fails at this rate."""
    drawn = []
    for n in range(N):
        end = round(length * rng.uniform(0.8, 1.2))
        onset = T + 1 + int(rng.expovariate(per_token)) if per_token else end + 1
        fails = onset <= end
        drawn.append(Observation(onset if fails else None, onset if fails else end, str(n), ended=not fails))
    return drawn


def test_longer_answers_have_more_room_to_fail() -> None:
    """An unchanged server, whose candidate was asked for answers of twice the length: with one rate of
    failure per token, it fails twice as often, and `check` was inconclusive. Now it is a note (100 draws)."""
    told = 0
    for seed in range(100):
        rng = random.Random(seed)
        before, after = answers(rng, 1000, 1 / 3000), answers(rng, 2000, 1 / 3000)
        objection, note = later_failures(side(before, 10), side(after, 20), RULE)
        assert objection is None
        told += note is not None
        if note is not None:
            assert "asked for 20 units an answer, and the baseline for 10" in note
    assert told >= 50


def test_a_candidate_that_fails_more_often_per_token_is_no_pass() -> None:
    """The same lengths, with five times the rate: inconclusive, in 100 draws, and per token."""
    for seed in range(100):
        rng = random.Random(seed)
        before, after = answers(rng, 1000, 1 / 3000), answers(rng, 2000, 5 / 3000)
        objection, note = later_failures(side(before, 10), side(after, 20), RULE)
        assert note is None
        assert objection is not None
        assert "per token, log-rank p = " in objection


def test_a_candidate_that_goes_on_where_the_baseline_ended_is_no_pass() -> None:
    """Asked for the same, it runs on and fails where no answer of the baseline is left to compare with."""
    rng = random.Random(7)
    before, after = answers(rng, 1000, 0.0), answers(rng, 2000, 1 / 1000)
    for units in ((10, 10), (None, None), (None, 10)):
        objection, note = later_failures(side(before, units[0]), side(after, units[1]), RULE)
        assert note is None
        assert objection is not None
        assert "exact test" in objection
