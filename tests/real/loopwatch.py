"""Measures how long the tail of a token sequence has been an exact loop, to bound the cost of a recording.

Independent of the product's loop detector, so that the recordings do not depend on what they evaluate.
"""

from __future__ import annotations

from collections.abc import Sequence

COPIES = 3
REPEATED = 48
"""A run is a loop from its third copy and this many repeated tokens on; that is its alarm."""

PAST_ALARM = 400
"""Tokens beyond the alarm after which an answer is not observed further."""


def tail_loop(ids: Sequence[int], past: int = 0) -> tuple[int, int] | None:
    """The exact loop at the end of `ids`, as (period, repeated tokens beyond its alarm).

    None unless a loop continues for at least `past` tokens beyond its alarm. Linear time: the Z function of
    the reversed sequence gives, for every period, the length of the run at the end.
    """
    runs = _z([*reversed(ids)])
    for period in range(1, len(ids) // COPIES + 1):
        beyond = runs[period] - max((COPIES - 1) * period, REPEATED)
        if beyond >= past:
            return period, beyond
    return None


def _z(sequence: Sequence[int]) -> list[int]:
    """For every i, how many items from i on equal those from 0 on."""
    n = len(sequence)
    z = [n] + [0] * (n - 1) if n else []
    left = right = 0
    for i in range(1, n):
        if i < right:
            z[i] = min(right - i, z[i - left])
        while i + z[i] < n and sequence[z[i]] == sequence[i + z[i]]:
            z[i] += 1
        if i + z[i] > right:
            left, right = i, i + z[i]
    return z
