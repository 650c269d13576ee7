"""How a share and a difference of shares are written everywhere."""

from __future__ import annotations

from math import ceil

NOT_MEASURED = "–"


def percent(share: float | None, digits: int = 0) -> str:
    """``0.05`` → ``5 %``; None → ``–``."""
    return NOT_MEASURED if share is None else f"{100 * share:.{digits}f} %"


def percent_at_most(share: float) -> str:
    """The next whole per cent above, for "at most": ``0.004`` → ``1 %``."""
    return percent(ceil(100 * share) / 100)


def percent_change(difference: float | None) -> str:
    """``0.05`` → ``+5.0 %``; None → ``–``."""
    return NOT_MEASURED if difference is None else f"{round(100 * difference, 1) + 0.0:+.1f} %"
