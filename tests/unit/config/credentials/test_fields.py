"""Credentials anywhere in a request's fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.config.credentials.fields import refuse_credentials, without_credentials
from stresstest.errors import UsageError

_SECRET = "ghp_0123456789abcdefghijGEHEIM"
_PLAIN = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a word", "{", "[1, 2]", "***"])
)
_KEYS = st.sampled_from(
    ["a", "type", "url", "tools", "server_url", "mcpServers", "default", "required", "items"]
)
_TREES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_TEXTS = st.sampled_from(
    ["{}", "Bearer {}", "Call it with {}.", "https://tools.example/x?key={}", "--token {}"]
)


@st.composite
def planted(draw: st.DrawFn) -> dict[str, Any]:
    """A request's fields with a key of GitHub's somewhere, also within JSON that is kept as a text."""
    node: Any = draw(_TEXTS).format(_SECRET)
    for step in draw(st.lists(st.sampled_from(["list", "object", "text"]), max_size=4)):
        if step == "list":
            node = [*draw(st.lists(_TREES, max_size=2)), node, *draw(st.lists(_TREES, max_size=2))]
        elif step == "object":
            node = draw(st.dictionaries(_KEYS, _TREES, max_size=2)) | {draw(_KEYS): node}
        elif not isinstance(node, str):
            node = json.dumps(node)
    return draw(st.dictionaries(_KEYS, _TREES, max_size=2)) | {draw(_KEYS): node}


@given(planted())
def test_a_key_is_found_wherever_it_stands(fields: dict[str, Any]) -> None:
    """Fields nest, and tools keep JSON as text: a key in any depth is refused, and hidden in an export."""
    with pytest.raises(UsageError) as error:
        refuse_credentials(fields, "--extra-body")
    assert _SECRET not in f"{error.value} {error.value.hint}"
    hidden = without_credentials(fields)
    assert _SECRET not in json.dumps(hidden)
    refuse_credentials(hidden, "what is exported")
    assert without_credentials(hidden) == hidden


@given(planted())
def test_the_same_fields_without_it_stay_as_they_are(fields: dict[str, Any]) -> None:
    """An export may not change what was asked, but for the hosts of tools' servers."""
    plain = json.loads(json.dumps(fields).replace(_SECRET, "<KEY>").replace("url", "b"))
    refuse_credentials(plain, "--extra-body")
    assert without_credentials(plain) == plain
