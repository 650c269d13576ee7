"""JSON of lax writers: whatever Python's `json` writes is read, and strict JSON is read as ever."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.model.texts.lax_json import decode_lax

TEXTS = st.text(
    st.characters(codec=None, categories=None) | st.sampled_from('\\"\ud83d\ude00\udfff NaInfuity')
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def strictly(value: Any) -> Any:
    """The value as strict JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return (
            value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _is_lone(value) else value
        )
    if isinstance(value, list):
        return list(map(strictly, value))
    return (
        {strictly(key): strictly(each) for key, each in value.items()} if isinstance(value, dict) else value
    )


def _is_lone(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)


@given(VALUES)
def test_whatever_python_writes_is_read(value: Any) -> None:
    """Lone halves of surrogate pairs become U+FFFD, what is no number null, and nothing else changes."""
    read = decode_lax(msgspec.json.decode, json.dumps(value).encode())
    again = json.dumps(json.loads(json.dumps(strictly(value))))
    assert json.dumps(read) == again


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b'{"a": NaN', b'"\\ud83d', b'{"a": "\\x"}', b'["\\"' * 99]
)
def test_what_is_no_json_is_refused(payload: bytes) -> None:
    """As before."""
    with pytest.raises(ValueError, match=r"JSON|truncated|Input"):
        decode_lax(msgspec.json.decode, payload)


def test_the_time_is_linear() -> None:
    """Texts without an end, of quotes that are escaped: each was looked at from every quote on."""
    with pytest.raises(ValueError, match=r"JSON|truncated|Input"):
        decode_lax(msgspec.json.decode, b'"' + b'\\"' * 2_000_000)
