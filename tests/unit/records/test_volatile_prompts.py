"""Prompts that differ in times and ids alone are one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model.texts.times_and_ids import without_times_and_ids
from stresstest.records import FieldMapping, parse_line


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Current time: 2026-11-28 21:34:46", "Current time: 2026-11-29 08:01:02"),
        ("Now: 2026-11-28T21:34:46.123Z. Hi", "Now: 2026-11-28T21:34:47.001Z. Hi"),
        ("It is 9:34 PM.", "It is 11:02 PM."),
        ("[request req-8f3a1c] Tell a story.", "[request req-77b1d2] Tell a story."),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id 123e4567-e89b-12d3-a456-426614174000"),
        ("ts=1795291200 Tell", "ts=1795291999 Tell"),
    ],
)
def test_times_and_ids_make_no_other_prompt(one: str, other: str) -> None:
    """Six questions asked eighty times each were 480 prompts, for the system prompt holds the time: a gate
    passed on a third of the days, which never passes without the time."""
    assert without_times_and_ids(one) == without_times_and_ids(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 17 times 23?", "What is 17 times 24?"),
        ("Add 3.5 and 2.25.", "Add 3.5 and 2.75."),
        ("Write 7 paragraphs.", "Write 9 paragraphs."),
        ("About 1998", "About 2008"),
        ("Tell a story.", "Tell a joke."),
    ],
)
def test_other_questions_stay_others(one: str, other: str) -> None:
    """A number may be what is asked for."""
    assert without_times_and_ids(one) != without_times_and_ids(other)


@given(st.text())
def test_a_text_without_figures_stays(text: str) -> None:
    """Whatever it holds."""
    if not any(sign in "0123456789" for sign in text):
        assert without_times_and_ids(text) == text


def test_the_key_of_a_prompt_is_without_them() -> None:
    """A prompt's own id is taken as it is."""
    rows = [
        {"prompt": f"Now: 21:34:{second}. Tell a story.", "response": "There was a king."}
        for second in (46, 59)
    ]
    one, other = (parse_line(row, "f", 1, FieldMapping())[0] for row in rows)
    assert one.prompt_key == other.prompt_key
    assert one.prompt_text != other.prompt_text
    named = [{**row, "prompt_id": f"p{n}-2026"} for n, row in enumerate(rows)]
    assert len({parse_line(row, "f", 1, FieldMapping())[0].prompt_key for row in named}) == 2
