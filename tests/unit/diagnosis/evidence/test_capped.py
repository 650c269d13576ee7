"""Answers that a server cuts below what was asked are told, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.diagnosis.evidence.capped import ServerCap, find_server_cap, server_cap_sentence
from stresstest.model import EndpointProfile, Generation
from tests.support.stored_data import make_generation

PROFILE = EndpointProfile("http://h/v1", "lab", max_model_len=1000)


def answer(tokens: int, *, asked: int = 400, prompt: int | None = 50, reason: str = "length") -> Generation:
    """A generation of so many tokens that ended for this reason."""
    made = make_generation(tokens=1)
    job = replace(made.job, max_tokens=asked)
    return replace(made, job=job, output_tokens=tokens, prompt_tokens=prompt, finish_reason=reason)


def test_a_common_length_below_the_cap_is_the_servers() -> None:
    """max_new_tokens 200 of a generation config: told with its number and the option that lifts it."""
    found = find_server_cap(
        [answer(200, asked=a) for a in (300, 400, 500)] + [answer(90, reason="stop")], PROFILE
    )
    assert found == ServerCap(200, 3, 500)
    assert "cut at 200 tokens although up to 500 were asked" in server_cap_sentence(found)
    assert "--generation-config vllm" in server_cap_sentence(found)


def test_reaching_the_own_cap_is_no_cut() -> None:
    """Every answer that used up what it was given looks alike, and is as asked."""
    assert find_server_cap([answer(400)] * 5, PROFILE) is None


def test_the_end_of_the_context_is_no_cut() -> None:
    """An answer that filled the context was asked for no more than there was room."""
    assert find_server_cap([answer(949, asked=5000, prompt=50)] * 5, PROFILE) is None


def test_nothing_is_concluded_where_the_room_is_not_known() -> None:
    """Without the prompt's length nobody knows what was asked for."""
    assert find_server_cap([answer(200, prompt=None)] * 5, PROFILE) is None


@given(st.lists(st.integers(1, 399), unique=True, max_size=30))
def test_lengths_that_differ_are_no_cap(lengths: list[int]) -> None:
    """A cap has one length; answers cut at many are something else."""
    assert find_server_cap([answer(n) for n in lengths], PROFILE) is None
