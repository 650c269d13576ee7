"""Compact columns of numbers: three of positions, and names of 64 bits."""

from __future__ import annotations

import sys
from array import array
from typing import Any

from stresstest.model.scanned import Extent

ABSENT = -1
"""Stands for a position that is not known."""
ALL_NAMES = 1 << 64


def append_extent(columns: tuple[array[int], array[int], array[int]], extent: Extent | None) -> None:
    """Add a row to the columns of onsets, of observed tokens or words, and of lengths."""
    row = (
        (ABSENT, ABSENT, ABSENT)
        if extent is None
        else (ABSENT if extent.onset is None else extent.onset, extent.observed, extent.length)
    )
    for column, value in zip(columns, row, strict=True):
        column.append(min(value, (1 << 31) - 1))


def little_endian(column: array[Any]) -> array[Any]:
    """The column, or a copy of it in the byte order of a dump; its own inverse."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


def mix64(n: int) -> int:
    """SplitMix64 of n (Steele et al. 2014): a uniform 64-bit name for an output with an unknown prompt."""
    z = (n * 0x9E3779B97F4A7C15) % ALL_NAMES
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % ALL_NAMES
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % ALL_NAMES
    return z ^ (z >> 31)
