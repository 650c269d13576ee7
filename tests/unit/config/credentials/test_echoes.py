"""Credentials that a server repeats in what it writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stresstest.config.credentials.echoes import find_echoes, hide_echoes, hide_in_tokens
from stresstest.model import Token

KEY = "sk-9f8e7d6c5b4a3b2c"


@given(
    before=st.text(max_size=20), begin=st.integers(0, 6), end=st.integers(15, 19), after=st.text(max_size=20)
)
def test_a_quotation_that_begins_or_ends_within_a_key_shows_none_of_it(
    before: str, begin: int, end: int, after: str
) -> None:
    """What repeats need not begin with the key, and evidence is cut."""
    shown = hide_echoes(f"{before}{KEY[begin:end]}{after}", [KEY])
    assert not any(KEY[at : at + 8] in shown for at in range(len(KEY) - 7))
    assert "***" in shown


def test_many_quotations_are_hidden_in_little_time() -> None:
    """Each token was compared with each quotation: one answer of 600 KB held the guard for minutes."""
    texts = ["so ", KEY[:4], KEY[4:], f" {KEY}{KEY} ", "and"] * 20_000
    shown = hide_in_tokens([Token(text, id=7) for text in texts], [KEY])
    assert [token.text for token in shown[:5]] == ["so ", "***", "", " ****** ", "and"]
    assert [token.text for token in shown] == [token.text for token in shown[:5]] * 20_000


def test_words_are_no_parts_of_a_key() -> None:
    """The user name of an address may be one, and hides as a whole only."""
    assert hide_echoes("the administration of administrator", ["administrator"]) == (
        "the administration of ***"
    )
    assert hide_echoes("a pass is a pass", ["pass"]) == "a pass is a pass"


def test_the_beginning_of_a_key_at_the_end_of_an_answer_is_found() -> None:
    """A cap may end an answer within it."""
    text = f"It is {KEY}, I say, {KEY[:11]}"
    assert [text[a:b] for a, b in find_echoes(text, [KEY])] == [KEY, KEY[:11]]
    assert find_echoes(f"It is {KEY[:5]}", [KEY]) == []


def test_a_key_with_reasoning_between_its_halves_is_hidden() -> None:
    """A stream brought both in turns, and what was exported of the answer joined the halves again."""
    tokens = [Token(f"It is {KEY[:9]}"), Token("well", reasoning=True), Token(f"{KEY[9:]}, I say.")]
    shown = hide_in_tokens(tokens, [KEY])
    assert "".join(token.text for token in shown if not token.reasoning) == "It is ***, I say."
    assert [token.text for token in shown if token.reasoning] == ["well"]
