"""The certified length of recorded outputs, in tokens or in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.model import Observation, Rigor, Threshold
from stresstest.statistics.certify import certify, clustered_interval, without_certificate
from stresstest.statistics.comparison import clustered_risk
from stresstest.statistics.recorded.sample import RecordedSample
from stresstest.statistics.sample import UNKNOWN_OUTCOME


def certify_outputs(sample: RecordedSample, rigor: Rigor, *, tokens: bool, damaged: int = 0) -> Threshold:
    """The threshold of recorded outputs, in tokens or in words.

    It is that of the first output of each prompt, since further ones may have been asked for because the
    first had failed. Where all outputs together, prompts as clusters, do not bear it out (a suite of fixed
    prompts whose later nights fail), nothing is certified. damaged: lines that nobody can read;
    each may have failed at once.
    """
    unit = "tokens" if tokens else "words"
    known = sample.observations(tokens=tokens)
    unread = [UNKNOWN_OUTCOME] * min(damaged, len(known))
    threshold = certify_recorded([*known, *unread], rigor, unit)
    later = sample.repeated_observations(tokens=tokens)
    if threshold.tokens is None or not later:
        return threshold
    d, n, size = clustered_risk(threshold.tokens, [*known, *later])
    if clustered_interval(d, n, size / n, 2.0 * rigor.confidence - 1.0)[1] <= rigor.alpha:
        return threshold
    return without_certificate(
        threshold,
        f"the first output of each prompt allows T = {threshold.tokens:,} {unit}, but {d:,} of all {n:,} "
        f"outputs of these prompts that are at risk there degenerate by then",
    )


def certify_recorded(sample: Sequence[Observation], rigor: Rigor, unit: str) -> Threshold:
    """:func:`certify`, with `lacking` worded for the unit of the positions ("tokens" | "words")."""
    threshold = certify(sample, rigor)
    if threshold.lacking is None:
        return threshold
    lacking = (
        threshold.lacking if sample else (f"{rigor.floor} answers at risk are needed, but there were none.")
    )
    if any(observation.cluster for observation in sample):
        lacking = lacking.replace("; measure", "; measure, with other prompts,")
    return replace(threshold, lacking=lacking.replace(" tokens", f" {unit}"))
