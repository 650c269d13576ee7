"""Parses TOML of unknown origin: within bounds of memory, whatever is in it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_KEY_PARTS = 32
"""Parts of a dotted key. The parser keeps every beginning of a key, which is quadratic in its parts."""
_PART = r"(?:[A-Za-z0-9_-]++|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"
_LONG_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS}}}", re.MULTILINE
)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError or RecursionError with what is wrong with it."""
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    return tomllib.loads(text)
