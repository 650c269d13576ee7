"""The text of a settings file."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from stresstest.features.init.document import settings_text


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_name_of_a_model_is_read_back_and_steers_no_terminal(name: str) -> None:
    """U+202E in a model's name turned the rest of its line around; U+009B began an escape sequence."""
    text = settings_text({"model": name})
    assert tomllib.loads(text)["model"] == name
    assert text.replace("\n", "").isprintable()
