"""JSON that only lax readers take: `NaN`, and halves of surrogate pairs.

Servers in Python and gateways in JavaScript write both: an infinite logprob, an emoji that was cut in two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|-?(?:NaN|Infinity)', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_REPLACEMENT = rb"\ufffd"
_NO_NUMBER = b"null"
"""What vLLM writes for a logprob of NaN."""


def decode_lax(decode: Callable[[bytes], _T], payload: bytes) -> _T:
    """The decoded payload, with null for what is no number and U+FFFD for half a pair, where it has them.

    Raises what `decode` raises, which must be a ValueError for what is no JSON.
    """
    try:
        return decode(payload)
    except ValueError:
        strict = _replaced(_STRING_OR_NUMBER, payload, _strictly)
        if strict == payload:
            raise
        return decode(strict)


def _replaced(
    pattern: re.Pattern[bytes], text: bytes, replacement: Callable[[re.Match[bytes]], bytes | None]
) -> bytes:
    """The text with each match replaced, or left for None. `sub` keeps an object of every match to its end,
    fifty times the text where there are millions."""
    made, end = bytearray(), 0
    for found in pattern.finditer(text):
        new = replacement(found)
        if new is not None:
            made += text[end : found.start()]
            made += new
            end = found.end()
    return bytes(made + text[end:]) if end else text


def _strictly(found: re.Match[bytes]) -> bytes | None:
    text = found[0]
    if not text.startswith(b'"'):
        return _NO_NUMBER
    return _replaced(_ESCAPE, text, _without_half) if b"\\u" in text else None


def _without_half(found: re.Match[bytes]) -> bytes | None:
    return None if found[1] is None else _REPLACEMENT
