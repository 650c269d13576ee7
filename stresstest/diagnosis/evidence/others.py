"""The load that other clients put on a server while a campaign measured it. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stresstest.model import GenerationRecord, ServerSample


@dataclass(frozen=True, slots=True)
class OthersLoad:
    """Requests of other clients at the server, running or waiting: their median over n readings, and most."""

    median: float
    most: float
    n: int


def measure_others(
    generations: Sequence[GenerationRecord], samples: Sequence[ServerSample]
) -> OthersLoad | None:
    """What `/metrics` counted beyond the campaign's own requests; None without a reading while these ran.

    A request of its own that the server has not begun, or has just finished, makes the difference smaller.
    """
    begun = sorted(g.started for g in generations)
    ended = sorted(g.ended for g in generations)
    others = []
    for sample in samples:
        own = bisect_right(begun, sample.at) - bisect_right(ended, sample.at)
        if sample.running is not None and own > 0:
            others.append(max(0.0, sample.running + (sample.waiting or 0.0) - own))
    return OthersLoad(median(others), max(others), len(others)) if others else None
