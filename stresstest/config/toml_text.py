"""Parses TOML of unknown origin: within bounds of memory, whatever is in it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_KEY_PARTS, MAX_PARTS = 32, 20_000
"""Parts of a dotted key, and of all of a text. The parser keeps every beginning of a key and its table."""
_LARGEST = 2**63
_PART = r"(?:[A-Za-z0-9_-]++|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"
_DOTTED = re.compile(rf"(?:^|[\[{{,])[ \t]*+{_PART}((?:[ \t]*+\.[ \t]*+{_PART})++)", re.MULTILINE)
_NEXT_PART = re.compile(rf"\.[ \t]*+{_PART}")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError or RecursionError with what is wrong with it."""
    total = 0
    for key in _DOTTED.finditer(text):
        parts = 1 + len(_NEXT_PART.findall(key[1]))
        if parts > MAX_KEY_PARTS:
            raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
        total += 0 if parts == 2 and key[0][0] in "[," else parts  # a list of numbers, perhaps
        if total > MAX_PARTS:
            raise ValueError(f"its dotted keys have more than {MAX_PARTS:,} parts")
    found = tomllib.loads(text)
    _refuse_large_numbers(found)
    return found


def _refuse_large_numbers(found: dict[str, Any]) -> None:
    """ValueError for a whole number of more than 64 bits, which TOML has not: nothing here could print it."""
    waiting: list[Any] = [found]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, int) and not -_LARGEST <= each < _LARGEST:
            raise ValueError("a whole number has more than 64 bits")
