"""JSON that was kept as text, with everything beyond ASCII escaped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model.texts.json_escapes import without_json_escapes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3), max_size=3))
def test_escapes_beyond_ascii_are_read(value: Any) -> None:
    """And it is still the same JSON: quotation marks and control characters stay escaped."""
    assert json.loads(without_json_escapes(json.dumps(value))) == value
    shown = without_json_escapes(json.dumps(value))
    assert all(c in shown for text in value for c in text if c > "\x7f")


@pytest.mark.parametrize(
    "text", ["a \\u4e2d", '{"a": "\\\\u4e2d"}', '{"a": "\\u0022"}', "", "{", '{"a": "\\u4e"}']
)
def test_other_text_stays(text: str) -> None:
    """Prose about escapes, a backslash before a u, ASCII, what a cap has cut."""
    assert without_json_escapes(text) == text


def test_half_a_pair_is_a_broken_character() -> None:
    assert without_json_escapes('["\\ud83d"]') == '["\ufffd"]'
