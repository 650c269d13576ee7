"""What a prompt tells of marks, whatever it is made of."""

from __future__ import annotations

import pytest

from stresstest.detectors.extra_turns.prompts import counted_kinds, is_rendered


@pytest.mark.parametrize("blank", [" ", "\n", "\t", " \n"])
def test_a_prompt_of_blanks_takes_linear_time(blank: str) -> None:
    """40,000 of them took 27 s, as often as an answer was judged; these would take a quarter of an hour."""
    assert not is_rendered(blank * 200_000)
    assert counted_kinds(blank * 200_000)


@pytest.mark.parametrize("before", ["", "  ", "<s>", " <s> \n", "<bos>"])
def test_a_template_may_begin_behind_blanks(before: str) -> None:
    """And behind the token that begins a text."""
    assert is_rendered(f"{before}<|im_start|>user\nWhy?")
    assert not is_rendered(f"{before}Why <|im_start|>user")
