"""Candidate `repetition_detection` settings replayed: exactly vLLM's stops, honest halves, and the tax."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from stresstest.economics.mitigation import (
    RepetitionSetting,
    StopPositions,
    TokenStream,
    audit_stops,
    candidate_settings,
    choose_setting,
    split_halves,
)
from stresstest.economics.retry import delivery_costs
from stresstest.simulation.engine import RepetitionDetection
from stresstest.simulation.engine.stopping import RepetitionStop


def looping(name: str, period: int, start: int = 80, length: int = 600, seed: int = 0) -> TokenStream:
    rng = random.Random(f"{name} {seed}")
    block = [rng.randrange(1_000, 2_000) for _ in range(period)]
    head = [rng.randrange(1_000) for _ in range(start)]
    ids = (head + block * (length // period + 1))[:length]
    return TokenStream(
        name, tuple(ids), onset=start + period + 1, alarm=start + 3 * period, loops=True, endless=True
    )


def healthy(name: str, length: int = 300) -> TokenStream:
    rng = random.Random(name)
    return TokenStream(name, tuple(rng.randrange(50_000) for _ in range(length)))


@profile(deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=50),
    st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.integers(0, 9),
    st.sampled_from(candidate_settings()),
)
def test_a_replay_stops_where_vllm_stops(
    head: list[int], block: list[int], copies: int, setting: RepetitionSetting
) -> None:
    """Every candidate's stop is that of the engine's own watch, token by token, or none where it has none."""
    ids = head + block * copies
    watch = RepetitionStop(RepetitionDetection(**setting.to_body()))
    stop = next((n for n, each in enumerate(ids, 1) if watch.update(each)), None)
    assert StopPositions(ids).stop_at(setting) == stop


def test_the_audit_counts_what_was_saved_and_what_was_lost() -> None:
    """Caught loops save what comes after the stop; a stopped healthy stream is written in vain."""
    streams = [looping("a", 10), looping("b", 10), healthy("c"), healthy("d")]
    found = audit_stops(streams, [200, None, 50, None])
    assert (found.caught.k, found.caught.n) == (1, 2)
    assert (found.stopped.k, found.stopped.n) == (1, 2)
    assert (found.saved, found.lost, found.tokens) == (400, 50, 1_800)
    assert (found.early.k, found.early.n, found.false_stops) == (0, 2, 1)
    assert found.caught.lo < 0.5 < found.caught.hi


def test_a_stop_before_the_onset_catches_nothing_and_saves_nothing() -> None:
    """It cuts healthy text: a false stop. From the onset's own token on, a stop catches the loop."""
    streams = [looping("a", 10), looping("b", 10), TokenStream("c", tuple(range(400)), onset=300, alarm=350)]
    found = audit_stops(streams, [90, 91, 40])  # the onsets are at 91, 91 and 300
    assert (found.caught.k, found.other.k, found.early.k, found.early.n) == (1, 0, 2, 3)
    assert found.saved == 600 - 91
    assert found.false_stops == 2
    assert found.most_false == 1.0


def echoing(name: str, length: int = 300) -> TokenStream:
    """Healthy text with one token twice in a row, early."""
    ids = list(healthy(name, length).ids)
    ids[20:20] = [5, 5]
    return TokenStream(name, tuple(ids))


def stuttering(name: str) -> TokenStream:
    """A loop of forty tokens after healthy text with one token twice in a row."""
    stream = looping(name, 40)
    return replace(stream, ids=(*stream.ids[:20], 5, 5, *stream.ids[22:]))


def test_a_setting_that_stops_loops_early_is_not_chosen_for_it() -> None:
    """Stopping every output at a chance repetition "saves" the most; what it cuts there is healthy text."""
    found = choose_setting([stuttering(f"l{n}") for n in range(12)] + [healthy(f"h{n}") for n in range(4)])
    assert found.setting is not None
    assert found.audit is not None
    assert found.audit.false_stops == 0
    assert found.audit.caught.k == found.audit.caught.n == 6
    assert found.audit.saved > 0


def test_the_choice_stops_no_healthy_text_where_any_setting_does_so() -> None:
    """One in twenty healthy outputs is stopped by the setting that saves the most: still it is not chosen."""
    loops = [looping(f"l{n}", 3) for n in range(10)]
    threes = []
    for n in range(40):
        ids = list(healthy(f"h{n}").ids)
        ids[50:50] = [7, 8, 9, 7, 8, 9] if n % 20 < 2 else []
        threes.append(TokenStream(f"h{n}", tuple(ids)))
    found = choose_setting([*loops, *threes])
    assert found.setting is not None
    assert found.audit is not None
    assert (found.audit.false_stops, found.audit.caught.k) == (0, 5)
    assert found.setting.evidence > 3


@pytest.mark.parametrize(("fine", "bounded"), [(0, False), (28, False), (80, True)])
def test_only_enough_healthy_outputs_make_a_setting_the_best(fine: int, bounded: bool) -> None:
    """None of 14 stopped may be one in five: such a setting is a candidate. Forty rule out one in ten."""
    found = choose_setting(
        [looping(f"l{n}", 40) for n in range(10)] + [healthy(f"h{n}") for n in range(fine)]
    )
    assert found.setting is not None
    assert found.bounded is bounded


def test_failures_without_a_loop_recommend_nothing() -> None:
    """A drift that a chance repetition stops after its onset is no reason to send repetition_detection."""
    drifts = [replace(echoing(f"d{n}"), onset=15, alarm=60) for n in range(12)]
    found = choose_setting(drifts + [healthy(f"h{n}") for n in range(12)])
    assert (found.setting, found.audit) == (None, None)


def test_the_best_setting_is_chosen_on_one_half_and_told_on_the_other() -> None:
    """Loops of a known period and clean healthy streams: the choice catches them all and stops nobody."""
    streams = [looping(f"l{n}", 40) for n in range(10)] + [healthy(f"h{n}") for n in range(30)]
    found = choose_setting(streams)
    assert found.setting is not None
    assert found.audit is not None
    assert found.setting.min_pattern_size <= 40 <= found.setting.max_pattern_size
    assert (found.audit.caught.k, found.audit.caught.n) == (5, 5)
    assert found.audit.stopped.k == 0
    assert found.chosen_on + found.told_on == len(streams)
    assert found.detector.stopped.k == 0
    twenty = dict(found.usual)[RepetitionSetting(1, 20, 3)]
    assert twenty.caught.k == 0


def test_a_setting_that_stops_nearly_everybody_is_never_best() -> None:
    """Cutting every answer early saves tokens and delivers nothing."""
    fine = [echoing(f"e{n}") for n in range(40)]
    found = choose_setting([looping(f"l{n}", 100, length=800) for n in range(6)] + fine)
    assert found.setting is not None
    assert found.audit is not None
    assert found.setting.evidence > 1
    assert found.audit.stopped.k == 0


def test_where_nothing_loops_no_setting_is_recommended() -> None:
    """A setting that saves nothing is not worth its risk: None, with the detector's audit still told."""
    found = choose_setting([healthy(f"h{n}") for n in range(12)])
    assert (found.setting, found.audit) == (None, None)
    assert found.detector.caught.n == 0


def test_healthy_repetition_keeps_short_patterns_out() -> None:
    """Healthy streams with rulers (one token 40 times): settings that stop those are not chosen."""
    ruled = []
    for n in range(20):
        ids = list(healthy(f"r{n}", 260).ids)
        ids[100:100] = [7] * 40
        ruled.append(TokenStream(f"r{n}", tuple(ids)))
    found = choose_setting([looping(f"l{n}", 24) for n in range(8)] + ruled)
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
        + [TokenStream(f"o{n}", (1, 2), onset=2, alarm=2) for n in range(others)]
        + [TokenStream(f"h{n}", (1, 2)) for n in range(fine)]
    )
    one, other = split_halves(streams)
    assert sorted(s.id for s in (*one, *other)) == sorted(s.id for s in streams)
    for kind in ("l", "o", "h"):
        assert abs(sum(s.id[0] == kind for s in one) - sum(s.id[0] == kind for s in other)) <= 1


def test_the_tax_of_every_policy() -> None:
    """Exact numbers: one loop of 600 tokens in four answers, alarm at 110, healthy ones of 300."""
    streams = [looping("l", 10), healthy("a"), healthy("b"), healthy("c")]
    nothing, retried, fallen, watched = delivery_costs(streams, [120, None, None, None], fallback=2.0)
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
        delivery_costs([looping("l", 10)])


def test_outputs_of_one_prompt_are_a_cluster_in_the_interval_and_in_the_tax() -> None:
    """Eight answers to each of twelve questions were 48 outputs to tell of, "0/48 (0–7 %)", and "best"."""
    streams = [
        replace(looping(f"l{n}", 40) if n % 12 < 2 else healthy(f"h{n}"), prompt=f"p{n % 12}")
        for n in range(96)
    ]
    found = choose_setting(streams)
    assert found.audit is not None
    assert (found.audit.stopped.k, found.audit.stopped.n, found.bounded) == (0, 40, False)
    assert found.audit.most_false == pytest.approx(1 - 0.025 ** (1 / 5))
    assert (found.audit.caught.k, found.audit.caught.n) == (8, 8)
    assert found.audit.caught.lo == pytest.approx(0.025)
    alike, alone = (delivery_costs(each)[0] for each in (streams, [replace(s, prompt="") for s in streams]))
    assert alike.tokens == alone.tokens
    assert alike.hi - alike.lo > 2 * (alone.hi - alone.lo)


def test_no_prompt_has_outputs_in_both_halves() -> None:
    """The half that reports would be the half that chose. Loops are still in both, from different prompts."""
    streams = [
        replace(looping(f"l{n}", 5, length=40), prompt=f"p{n % 4}") if n % 3 else healthy(f"h{n}", 5)
        for n in range(60)
    ]
    one, other = split_halves(streams)
    assert len(one) + len(other) == 60
    assert not {s.cluster for s in one} & {s.cluster for s in other}
    loops = [sum(s.loops for s in half) for half in (one, other)]
    assert loops == [20, 20]
