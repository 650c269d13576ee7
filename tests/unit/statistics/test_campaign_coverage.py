"""Whole campaigns against a known truth: the promise of the certified threshold, kept on every change.

Seeds are fixed, so an outcome never changes by itself; bounds stand where chance alone would break them
in one of ten thousand choices of the seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from benchmarks import campaigns
from benchmarks.calibrate_campaigns import Cell, measure
from benchmarks.calibrate_pool import make_pool
from benchmarks.calibrate_scenes import CELLS, UNITS
from benchmarks.calibrate_text import Source, campaign
from benchmarks.calibrate_worlds import LOSSY, WORLDS, World, draw, true_tokens
from stresstest.model import RIGORS, Job, Phase

CAMPAIGNS = 400
SURE = 0.9998
"""Two-sided: each end of the interval errs once in ten thousand."""


def world(name: str) -> World:
    return next(w for w in (*WORLDS, *LOSSY) if w.name == name)


def cell(name: str, rigor: str, tighten: bool, compared: int = 1) -> Cell:
    climbs = campaigns.climb(world(name), RIGORS[rigor], CAMPAIGNS, 5, kept=compared)
    return measure(world(name), climbs, RIGORS[rigor], tighten, 5)


def highest(found: Cell) -> float:
    return float(binomtest(found.safe, found.campaigns).proportion_ci(SURE, method="exact").high)


@pytest.mark.parametrize("name", ["ends against failure", "mixture, 40 % never", "weibull, shape 1.3"])
def test_the_truth_is_what_many_draws_give(name: str) -> None:
    """The computed q(T) agrees with counting 400,000 drawn answers, ties of onset and end included."""
    chosen, units, alpha = world(name), 20, 0.05
    draws = draw(chosen, np.random.default_rng(3), (400_000,))
    end = np.minimum(draws.end, np.ceil(units * chosen.per_unit * draws.stretch))
    failed = draws.onset <= end

    def risk(tokens: int) -> float:
        bad = int(np.sum(failed & (draws.onset <= tokens)))
        good = int(np.sum((draws.onset > tokens) & (end >= tokens)))
        return bad / (bad + good)

    tokens = true_tokens(chosen, alpha, units)
    error = 5 * (alpha / 400_000) ** 0.5
    assert risk(tokens) <= alpha + error
    assert risk(tokens + 1) > alpha - error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rigor", "tighten"),
    [
        ("lognormal, cv 0.2", "standard", False),
        ("lognormal, cv 0.2", "quick", True),
        ("lognormal, wide", "quick", False),
        ("ends against failure", "standard", False),
        ("the same, slow alarm", "standard", True),
        ("the same, a fifth unseen", "standard", True),
        ("asked for more, writes less", "quick", False),
        ("20 % fail: lognormal, cv 0.2", "standard", False),
        ("20 % fail: heavy ends, failing answers end too", "quick", True),
    ],
)
def test_coverage_is_at_least_the_stated_confidence(name: str, rigor: str, tighten: bool) -> None:
    """Climb, choice of rung, natural ends, late alarms, losses, looks: T is too high no more often than said.

    One campaign a cell is played by `next_step` and `certified_threshold` too and must give the same."""
    found = cell(name, rigor, tighten)
    assert highest(found) >= RIGORS[rigor].confidence
    assert found.ratio <= 0.5
    if found.world.narrow and rigor == "standard":
        assert found.tightness >= 0.75


@pytest.mark.slow
def test_dropping_what_ends_with_an_open_candidate_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers that drift just before their natural end must count: without them coverage is visibly lost.

    Also shows that the coverage test can fail."""
    honest = campaigns.see

    def careless(*given: object) -> campaigns.Seen:
        seen = honest(*given)  # type: ignore[arg-type]
        return replace(seen, doubtful=np.zeros_like(seen.doubtful))

    monkeypatch.setattr(campaigns, "see", careless)
    found = cell("the same, slow alarm", "standard", True, compared=0)
    assert highest(found) < 0.95


def test_a_loss_costs_little_of_the_threshold() -> None:
    """A fifth of the requests fails at random places: a text cut in mid-sentence has not failed itself."""
    assert cell("20 % fail: lognormal, cv 0.2", "standard", False).tightness >= 0.8


@pytest.mark.slow
def test_text_and_detectors_certify_what_the_true_onsets_do() -> None:
    """A campaign of loops through scheduler, text and panel: onsets are found, T is that of the truth."""
    source = Source(CELLS["loop"], 70)
    played = campaign(source, RIGORS["quick"], 1)
    found = source.pool(UNITS).found()
    assert found.failing >= 60
    assert found.missed == found.false == 0
    assert played.tokens > 0
    assert abs(played.tokens - played.knowing) <= 8


@pytest.mark.simulated
def test_failing_requests_are_told_as_system_and_never_as_degeneration() -> None:
    """A fifth of the requests refused, cut or stalled: the lost ones are system by fact and no onsets."""
    source = Source(CELLS["loop, 20 % of requests fail"], 100)
    played = campaign(source, RIGORS["quick"], 1)
    found = source.pool(UNITS).found()
    assert found.lost > 0
    assert found.lost_as_system == found.lost
    assert found.false == 0
    assert 0 < played.tokens <= played.knowing + 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture, a quarter healthy", "loop, 20 % of requests fail"])
def test_a_pool_answers_a_shorter_cap_as_the_engine_would(name: str) -> None:
    """What calibration takes from a longer answer is what a request with the shorter cap would have got."""
    scene, count = CELLS[name], 12
    pool = make_pool(scene, UNITS, count)
    for cap in (150, 260):
        capped = make_pool(replace(scene, horizon=cap), UNITS, count)
        jobs = [Job(Phase.CERTIFY, 2, i, UNITS, i, i, cap) for i in range(count)]
        assert [pool.generation(j.index, j) for j in jobs] == [capped.generation(j.index, j) for j in jobs]
        assert [pool.known(i, cap) for i in range(count)] == [capped.known(i, cap) for i in range(count)]
