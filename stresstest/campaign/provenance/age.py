"""How old answers may be that are taken together: later, another model may be served under the same name."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from stresstest import clock
from stresstest.model import GenerationRecord, Run, RunStatus

RESUME_WINDOW_S = 12 * 3600.0
"""Seconds for which an unfinished measurement is gone on with unasked."""


def is_recent(run: Run) -> bool:
    """Whether a run is so young that more of it may be measured unasked: since its end, or, unfinished, since
    its beginning."""
    done = run.ended if run.status is RunStatus.DONE else None
    return clock.is_within(done or run.created, RESUME_WINDOW_S)


def pause_clause(answers: Collection[GenerationRecord]) -> str | None:
    """That answers were asked for before and after a long pause, as a clause; None without one."""
    asked = sorted(each.started for each in answers)
    before, after = max(pairwise(asked), key=lambda times: times[1] - times[0], default=(0.0, 0.0))
    if after - before <= RESUME_WINDOW_S:
        return None
    times = f"{clock.format_time(before)} and {clock.format_time(after)}"
    return (
        f"nothing was asked between {times} UTC, and another model may be served under this name since then"
    )
