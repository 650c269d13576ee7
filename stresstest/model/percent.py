"""How a share and a difference of shares are written everywhere."""

from __future__ import annotations

from math import ceil

NOT_MEASURED = "–"


def percent(share: float | None, digits: int = 0) -> str:
    """``0.05`` → ``5 %``; None → ``–``."""
    return NOT_MEASURED if share is None else f"{100 * share:.{digits}f} %"


def percent_at_most(share: float) -> str:
    """The next tenth of a per cent above, for "at most": ``0.0214`` → ``2.2 %``."""
    return percent(ceil(round(1000 * share, 6)) / 1000, 1)


def percent_change(difference: float | None) -> str:
    """``0.05`` → ``+5.0 %``; None → ``–``."""
    return NOT_MEASURED if difference is None else f"{round(100 * difference, 1) + 0.0:+.1f} %"
