"""How a share and a difference of shares are written everywhere."""

from __future__ import annotations

NOT_MEASURED = "–"


def percent(share: float | None, digits: int = 0) -> str:
    """``0.05`` → ``5 %``; None → ``–``."""
    return NOT_MEASURED if share is None else f"{100 * share:.{digits}f} %"


def percent_change(difference: float | None) -> str:
    """``0.05`` → ``+5.0 %``; None → ``–``."""
    return NOT_MEASURED if difference is None else f"{100 * difference:+.1f} %"
