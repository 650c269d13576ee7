"""Answers out of a cache in front of the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model import GenerationRecord
from stresstest.model.server import ServerClock
from stresstest.statistics.replays import dated_before, replays
from tests.support.generations import make, make_job

MIDNIGHT = 1_790_000_000


def answers(n: int, *, word: str = "w", ids: bool = True, began: float = MIDNIGHT) -> list[GenerationRecord]:
    """Answers of one run, a second apart, dated by the server."""
    return [
        replace(
            make(make_job(index=i), 40, timed=True, word=f"{word}{i} ", started=began + i),
            answer_id=f"chatcmpl-{word}{i}" if ids else "chatcmpl-0",
            created=int(began) + i,
        ).to_record()
        for i in range(n)
    ]


def test_an_answer_again_to_its_id_time_and_text_is_a_replay() -> None:
    """`cost` compared batches, and `check` a swapped model, with answers that a gateway had kept."""
    before = answers(8)
    again = [replace(each, started=each.started + 90) for each in before[:3]]
    assert replays([*again, *answers(5, word="v")], before) == again
    assert replays(again, answers(8, word="v")) == []
    cut = [
        replace(each, aborted=True, token_summary=new.token_summary)
        for each, new in zip(again, answers(3, word="x"), strict=True)
    ]
    assert replays(cut, before) == cut


@pytest.mark.parametrize(
    "change", [{"answer_id": "chatcmpl-other"}, {"created": MIDNIGHT + 99}, {"answer_id": None}]
)
def test_an_equal_answer_that_is_new_is_none(change: dict[str, Any]) -> None:
    """A server repeats itself at temperature 0 and with seeds; its ids may be few, or none."""
    before = answers(8)
    assert replays([replace(each, **change) for each in before], before) == []


def test_a_cache_may_write_a_new_time() -> None:
    """LiteLLM's does, and keeps the id. Aborted streams are cut at other places: they need the time too."""
    before = [replace(each, answer_id=f"{each.answer_id}-6f1c2a9e") for each in answers(8)]
    again = [replace(each, created=MIDNIGHT + 99) for each in before]
    assert replays(again, before) == again
    assert replays([replace(each, aborted=True) for each in again], before) == []


def test_a_server_whose_ids_are_all_the_same_has_none() -> None:
    """Its answers may come again to the second and the letter, where a test server is as fast as that."""
    before = answers(8, ids=False)
    assert replays(before, before) == []


@given(skew=st.integers(-(10**7), 10**7), n=st.integers(1, 40), wait=st.integers(0, 500), known=st.booleans())
def test_a_clock_that_is_wrong_dates_no_answer_before_its_request(
    skew: int, n: int, wait: int, known: bool
) -> None:
    """The server's clock may differ from the client's, and a request may wait in a queue."""
    own = [
        replace(g, created=g.created + skew + wait * (i % 2)) for i, g in enumerate(answers(n)) if g.created
    ]
    assert dated_before(own, ServerClock(MIDNIGHT + skew, skew - 0.5) if known else None) == 0


@given(skew=st.integers(-(10**7), 10**7), old=st.integers(1, 20))
def test_answers_of_yesterday_are_dated_before(skew: int, old: int) -> None:
    """A cache that holds answers of the model before: a limit was certified from them."""
    kept = [replace(g, started=g.started + 86_400) for g in answers(old)]
    new = answers(20, word="v", began=MIDNIGHT + 86_400)
    mixed = [replace(g, created=g.created + skew) for g in (*kept, *new) if g.created is not None]
    assert dated_before(mixed) == old


@given(skew=st.integers(-(10**7), 10**7), later=st.integers(15, 10**6))
def test_a_whole_sample_out_of_a_cache_is_known_by_a_fresh_answer(skew: int, later: int) -> None:
    """`run` sends the same requests each time: all its answers may be those of the last time."""
    again = [
        replace(g, started=g.started + later, created=g.created + skew) for g in answers(38) if g.created
    ]
    clock = ServerClock(MIDNIGHT + skew + later, skew - 0.5)
    assert dated_before(again, clock) == 38
    assert dated_before(again) == 0, "nothing to compare with"
    at_once = [replace(g, created=MIDNIGHT + skew) for g in again]
    assert dated_before(at_once, clock) == 38
    assert dated_before(at_once, replace(clock, created=MIDNIGHT + skew)) == 0, "perhaps the server's start"
    two_seconds = [replace(g, created=MIDNIGHT + skew + i % 2) for i, g in enumerate(again)]
    fresh = [replace(g, created=MIDNIGHT + skew + later + i) for i, g in enumerate(again)]
    assert dated_before([*two_seconds[:25], *fresh[25:]], clock) == 25


def test_a_time_that_is_the_servers_and_not_the_answers_says_nothing() -> None:
    """Some servers date every answer with their own start."""
    own = [replace(g, created=MIDNIGHT, started=MIDNIGHT + 60.0 * i) for i, g in enumerate(answers(40))]
    two = [replace(g, created=MIDNIGHT + 7 * (i % 2)) for i, g in enumerate(own)]
    for dated in (own, two):
        assert dated_before(dated) == dated_before(dated, ServerClock(MIDNIGHT, 0.0)) == 0
    assert dated_before([replace(g, created=None) for g in own], ServerClock(MIDNIGHT, 0.0)) == 0
