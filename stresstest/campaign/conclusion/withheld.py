"""Where T is certified, but no cap can be recommended from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.campaign.ladder.ascent import median_onset
from stresstest.campaign.ladder.reach import sample_reach
from stresstest.model import RIGORS, GenerationRecord, RunSettings, Threshold
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.statistics import observations, safe_max_tokens
from stresstest.statistics.certify import is_limited_by_ends
from stresstest.statistics.sample import are_mostly_answerless, count_answerless, ended_by_itself


def withhold_cap(
    threshold: Threshold,
    climb: Sequence[GenerationRecord],
    certifying: Sequence[GenerationRecord],
    settings: RunSettings,
) -> Threshold:
    """The threshold, with a reason for no cap: the margin leaves none, most answers were cut within their
    reasoning, or a cap below T would cut most healthy answers although they end on their own: before the
    onset that the climb suspects, or right at T where it suspects none.
    """
    safe = safe_max_tokens(threshold, settings.margin)
    if safe == 0:
        return replace(threshold, withheld="the margin leaves no token of it")
    if safe is None:
        return threshold
    if are_mostly_answerless(certifying):
        cut = count_answerless(certifying)
        why = f"{cut} of the sample's {len(certifying)} answers were cut within their reasoning, and not seen"
        return replace(threshold, withheld=why)
    healthy, cut = count_cut(certifying, safe)
    if cut <= MOST_HEALTHY_CUT * healthy:
        return threshold
    suspected = median_onset(o.onset for o in observations(climb))
    if suspected is None:
        return _withhold_from_ends(threshold, certifying, settings, safe)
    reach = sample_reach(certifying, suspected, RIGORS[settings.rigor])
    if reach.enough:
        return threshold
    return replace(
        threshold,
        withheld=f"a cap of {safe:,} would cut {cut} of {healthy} healthy answers. {reach.ended} of "
        f"{reach.size} ended on their own before the {suspected:,} tokens at which the climb's "
        f"answers degenerated, so that length is not measured",
    )


def _withhold_from_ends(
    threshold: Threshold, certifying: Sequence[GenerationRecord], settings: RunSettings, safe: int
) -> Threshold:
    """T is limited by where answers end, and few fail later: a cap would protect from nothing."""
    healthy = _healthy(certifying)
    if sum(g.verdict.degenerate for g in certifying) > threshold.alpha * len(certifying):
        return threshold
    cut = sum(1 for g in healthy if ended_by_itself(g) and g.verdict.tokens > safe)
    by_ends = is_limited_by_ends(threshold, certifying, settings.decoding.temperature)
    if not by_ends or cut <= MOST_HEALTHY_CUT * len(healthy):
        return threshold
    why = f"a cap of {safe:,} would cut {cut} of {len(healthy)} healthy answers, which end on their own"
    return replace(threshold, withheld=f"{why}; longer ones are not measured")


def count_cut(certifying: Sequence[GenerationRecord], cap: int) -> tuple[int, int]:
    """(healthy answers, how many of them are longer than `cap` tokens)."""
    healthy = _healthy(certifying)
    return len(healthy), sum(1 for g in healthy if g.verdict.tokens > cap)


def _healthy(certifying: Sequence[GenerationRecord]) -> list[GenerationRecord]:
    return [g for g in certifying if not g.verdict.degenerate and g.failure is None]
