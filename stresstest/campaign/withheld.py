"""Where T is certified, but no cap can be recommended from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.campaign.ladder.ascent import median_onset
from stresstest.campaign.ladder.reach import sample_reach
from stresstest.model import RIGORS, GenerationRecord, RunSettings, Threshold
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.statistics import observations, safe_max_tokens


def withhold_cap(
    threshold: Threshold,
    climb: Sequence[GenerationRecord],
    certifying: Sequence[GenerationRecord],
    settings: RunSettings,
) -> Threshold:
    """The threshold, with a reason for no cap: the margin leaves none, or the answers end before the onset
    that the climb suspects and a cap below T would cut most healthy ones."""
    suspected = median_onset(o.onset for o in observations(climb))
    safe = safe_max_tokens(threshold, settings.margin)
    if safe == 0:
        return replace(threshold, withheld="the margin leaves no token of it")
    if suspected is None or safe is None:
        return threshold
    reach = sample_reach(certifying, suspected, RIGORS[settings.rigor])
    healthy, cut = count_cut(certifying, safe)
    if reach.enough or cut <= MOST_HEALTHY_CUT * healthy:
        return threshold
    return replace(
        threshold,
        withheld=f"a cap of {safe:,} would cut {cut} of {healthy} healthy answers. {reach.ended} of "
        f"{reach.size} ended on their own before the {suspected:,} tokens at which the climb's "
        f"answers degenerated, so that length is not measured",
    )


def count_cut(certifying: Sequence[GenerationRecord], cap: int) -> tuple[int, int]:
    """(healthy answers, how many of them are longer than `cap` tokens)."""
    healthy = [g for g in certifying if not g.verdict.degenerate and g.failure is None]
    return len(healthy), sum(1 for g in healthy if g.verdict.tokens > cap)
