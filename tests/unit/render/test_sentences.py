"""Sentences and names that all reports share."""

from __future__ import annotations

import pytest

from stresstest.model import Subject
from stresstest.render.text import subject_name


@pytest.mark.parametrize(
    ("code", "name"),
    [("it", "Italian"), ("IT", "Italian"), ("nb", "Norwegian"), ("xx", "xx"), ("", "language not given")],
)
def test_people_read_the_name_of_a_language(code: str, name: str) -> None:
    """A heading says Italian; a code that is not known stays, and a missing one is said."""
    assert subject_name(Subject("m", "qa", code)) == f"m · qa · {name}"
