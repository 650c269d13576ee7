"""Whether this process is the command's own: only there may limits be set that hold for the whole process."""

from __future__ import annotations

_claimed: list[bool] = []


def claim_process() -> None:
    """Called by the command line's entry point. In a user's program, notebook or server nobody does."""
    _claimed.append(True)


def is_own_process() -> bool:
    return bool(_claimed)
