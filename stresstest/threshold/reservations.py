"""What stands against a pass on recorded outputs, although the outputs that were tested allow it. Pure.

The test takes the first output of every prompt, and takes the sample as fresh. Nobody planned recorded
outputs, so both may be untrue: the outputs left aside may be the failing ones, and the candidate's may be
the baseline's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stresstest.model import Observation
from stresstest.threshold.comparison import Status, status
from stresstest.threshold.proportion import clustered_interval, effective_size


@dataclass(frozen=True, slots=True)
class LeftAside:
    """Further outputs of prompts whose first output was tested.

    at_risk, failed: n and d of them for T. lower: one-sided bound of their risk at T, prompts as clusters;
    None where none is at risk.
    """

    outputs: int
    at_risk: int
    failed: int
    lower: float | None


def left_aside(tokens: int, further: Sequence[Observation], confidence: float) -> LeftAside | None:
    """The risk at T = `tokens` in the outputs that the test leaves aside; None where there are none.

    confidence: one-sided, of `lower` (Clopper-Pearson at the effective sample size, Korn & Graubard 1998).
    """
    if not further:
        return None
    clusters: dict[str, tuple[int, int]] = {}
    for observation in further:
        found = status(tokens, observation)
        if found in (Status.FAILED, Status.HEALTHY):
            d, n = clusters.get(observation.cluster, (0, 0))
            clusters[observation.cluster] = d + (found is Status.FAILED), n + 1
    effective, n = effective_size(clusters.values())
    d = sum(failed for failed, _ in clusters.values())
    lower = clustered_interval(d, n, effective / n, 2.0 * confidence - 1.0)[0] if n else None
    return LeftAside(len(further), n, d, lower)


def repeated(
    tokens: int, baseline: Iterable[Observation], candidate: Iterable[Observation]
) -> tuple[int, int]:
    """(those word for word among the baseline's outputs, all) of the candidate's healthy ones at T."""
    known = {o.digest for o in baseline if o.digest is not None}
    healthy = [o for o in candidate if status(tokens, o) is Status.HEALTHY]
    return sum(o.digest in known for o in healthy), len(healthy)
