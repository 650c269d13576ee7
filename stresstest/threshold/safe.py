"""From a threshold to the number that goes into a configuration."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from stresstest.model import Threshold


def safe_max_tokens(threshold: Threshold, margin: float) -> int | None:
    """floor(T x (1 - margin)) in tokens, margin a share in [0, 1); None when nothing is certified.

    Decimal, because in binary 0.1 is not a tenth and 1000 tokens less 10 % must be 900, not 899.
    Raises ValueError for a margin outside [0, 1).
    """
    if not 0.0 <= margin < 1.0:
        raise ValueError(f"margin {margin} is not a share in [0, 1)")
    if threshold.tokens is None or not threshold.certified:
        return None
    exact = Decimal(threshold.tokens) * (1 - Decimal(repr(margin)))
    return int(exact.to_integral_value(ROUND_FLOOR))
