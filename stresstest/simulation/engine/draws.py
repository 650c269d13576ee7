"""Reproducible draws: uniform numbers and seeds from names, the same on every machine."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b


def mixed(*parts: int | str) -> int:
    """A 63-bit number that depends on all parts and their order."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def uniform(*parts: int | str) -> float:
    """A number in (0, 1) from the parts."""
    return (mixed(*parts) + 0.5) / (1 << 63)


def digest(ids: Iterable[int]) -> int:
    """A 63-bit number of token ids."""
    return int.from_bytes(blake2b(array("q", ids).tobytes(), digest_size=8).digest(), "big") >> 1
