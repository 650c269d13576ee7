"""Candidate `repetition_detection` settings replayed: exactly vLLM's stops, honest halves, and the tax."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from stresstest.economics.mitigation import Setting, Stops, Stream, audit, choose, halves, settings
from stresstest.economics.retry import deliveries
from stresstest.simulation.engine import RepetitionDetection
from stresstest.simulation.engine.repetition import RepetitionWatch


def looping(name: str, period: int, start: int = 80, length: int = 600, seed: int = 0) -> Stream:
    rng = random.Random(f"{name} {seed}")
    block = [rng.randrange(1_000, 2_000) for _ in range(period)]
    head = [rng.randrange(1_000) for _ in range(start)]
    ids = (head + block * (length // period + 1))[:length]
    return Stream(
        name, tuple(ids), onset=start + period + 1, alarm=start + 3 * period, loops=True, endless=True
    )


def healthy(name: str, length: int = 300) -> Stream:
    rng = random.Random(name)
    return Stream(name, tuple(rng.randrange(50_000) for _ in range(length)))


@profile(deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=50),
    st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.integers(0, 9),
    st.sampled_from(settings()),
)
def test_a_replay_stops_where_vllm_stops(
    head: list[int], block: list[int], copies: int, setting: Setting
) -> None:
    """Every candidate's stop is that of the engine's own watch, token by token, or none where it has none."""
    ids = head + block * copies
    watch = RepetitionWatch(RepetitionDetection(**setting.body()))
    stop = next((n for n, each in enumerate(ids, 1) if watch.update(each)), None)
    assert Stops(ids).at(setting) == stop


def test_the_audit_counts_what_was_saved_and_what_was_lost() -> None:
    """Caught loops save what comes after the stop; a stopped healthy stream is written in vain."""
    streams = [looping("a", 10), looping("b", 10), healthy("c"), healthy("d")]
    found = audit(streams, [200, None, 50, None])
    assert (found.caught.k, found.caught.n) == (1, 2)
    assert (found.stopped.k, found.stopped.n) == (1, 2)
    assert (found.saved, found.lost, found.tokens) == (400, 50, 1_800)
    assert (found.written, found.delivered, found.tax) == (200 + 600 + 50 + 300, 1, 1_150)
    assert found.caught.lo < 0.5 < found.caught.hi


def test_the_best_setting_is_chosen_on_one_half_and_told_on_the_other() -> None:
    """Loops of a known period and clean healthy streams: the choice catches them all and stops nobody."""
    streams = [looping(f"l{n}", 40) for n in range(10)] + [healthy(f"h{n}") for n in range(30)]
    found = choose(streams)
    assert found.setting is not None
    assert found.audit is not None
    assert found.setting.min_pattern_size <= 40 <= found.setting.max_pattern_size
    assert (found.audit.caught.k, found.audit.caught.n) == (5, 5)
    assert found.audit.stopped.k == 0
    assert found.chosen_on + found.told_on == len(streams)
    assert found.detector.stopped.k == 0
    twenty = dict(found.usual)[Setting(1, 20, 3)]
    assert twenty.caught.k == 0


def test_a_setting_that_stops_nearly_everybody_is_never_best() -> None:
    """Cutting every answer early saves tokens and delivers nothing: the price of a delivery decides."""
    echoing = []
    for n in range(40):
        ids = list(healthy(f"e{n}", 300).ids)
        ids[20:20] = [5, 5]
        echoing.append(Stream(f"e{n}", tuple(ids)))
    found = choose([looping(f"l{n}", 100, length=800) for n in range(6)] + echoing)
    assert found.setting is not None
    assert found.audit is not None
    assert found.setting.evidence > 1
    assert found.audit.stopped.k == 0


def test_where_nothing_loops_no_setting_is_recommended() -> None:
    """A setting that saves nothing is not worth its risk: None, with the detector's audit still told."""
    found = choose([healthy(f"h{n}") for n in range(12)])
    assert (found.setting, found.audit) == (None, None)
    assert found.detector.caught.n == 0


def test_healthy_repetition_keeps_short_patterns_out() -> None:
    """Healthy streams with rulers (one token 40 times): settings that stop those are not chosen."""
    ruled = []
    for n in range(20):
        ids = list(healthy(f"r{n}", 260).ids)
        ids[100:100] = [7] * 40
        ruled.append(Stream(f"r{n}", tuple(ids)))
    found = choose([looping(f"l{n}", 24) for n in range(8)] + ruled)
    assert found.setting is not None
    assert found.audit is not None
    assert found.audit.stopped.k == 0
    assert found.audit.caught.k == found.audit.caught.n == 4


@profile(deadline=None, max_examples=40)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_halves_share_every_kind_fairly(loops: int, others: int, fine: int) -> None:
    """Loops, other failures and healthy streams are each split evenly, and nothing is lost or doubled."""
    streams = (
        [looping(f"l{n}", 5, length=40) for n in range(loops)]
        + [Stream(f"o{n}", (1, 2), onset=2, alarm=2) for n in range(others)]
        + [Stream(f"h{n}", (1, 2)) for n in range(fine)]
    )
    one, other = halves(streams)
    assert sorted(s.id for s in (*one, *other)) == sorted(s.id for s in streams)
    for kind in ("l", "o", "h"):
        assert abs(sum(s.id[0] == kind for s in one) - sum(s.id[0] == kind for s in other)) <= 1


def test_the_tax_of_every_policy() -> None:
    """Exact numbers: one loop of 600 tokens in four answers, alarm at 110, healthy ones of 300."""
    streams = [looping("l", 10), healthy("a"), healthy("b"), healthy("c")]
    nothing, retried, fallen, watched = deliveries(streams, [120, None, None, None], fallback=2.0)
    assert nothing.tokens == pytest.approx((600 + 900) / 3)
    assert retried.tokens == pytest.approx((110 + 900) / 3)
    assert fallen.tokens == pytest.approx((110 + 2.0 * 300 + 900) / 4)
    assert watched.tokens == pytest.approx((120 + 900) / 3)
    assert nothing.attempts == pytest.approx(4 / 3)
    assert fallen.attempts == pytest.approx(1.25)
    assert all(each.lo <= each.tokens <= each.hi for each in (nothing, retried, fallen, watched))


def test_nothing_delivered_has_no_price() -> None:
    """Without a single healthy answer the tax is not a number."""
    with pytest.raises(ValueError, match="no healthy answer"):
        deliveries([looping("l", 10)])
