"""How long a model may reason: a budget certified as max_tokens is, over the reasoning alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stresstest.campaign.conclusion.withheld import count_cut
from stresstest.model import (
    RIGORS,
    GenerationLoader,
    GenerationRecord,
    Run,
    RunStatus,
    ThinkingBudget,
    Threshold,
)
from stresstest.model.result import MOST_HEALTHY_CUT
from stresstest.statistics import certified_threshold, safe_max_tokens, without_certificate
from stresstest.statistics.certify import is_limited_by_ends
from stresstest.statistics.reasoning import reasoning_records

_FIRST_VERSION = (0, 20)
"""The first vLLM with `thinking_token_budget`, for which it needs --reasoning-parser."""


def certify_budget(
    certifying: Sequence[GenerationRecord], run: Run, load: GenerationLoader
) -> ThinkingBudget | None:
    """The budget of a run, None where no answer of its certifying sample reasons.

    load: called once, to see whether the server has a reasoning parser.
    """
    reasoned = [g for g in certifying if g.verdict.reasoning]
    if not reasoned:
        return None
    settings = run.settings
    chains = reasoning_records(certifying)
    threshold = certified_threshold(
        chains,
        RIGORS[settings.rigor],
        tighten=settings.tighten,
        temperature=settings.decoding.temperature,
    )
    if run.status is not RunStatus.DONE:
        threshold = without_certificate(threshold, "the run is not complete")
    safe = safe_max_tokens(threshold, settings.margin)
    healthy, cut = count_cut(reasoning_records(reasoned), 0 if safe is None else safe)
    if safe is not None and cut > MOST_HEALTHY_CUT * healthy and is_limited_by_ends(threshold, chains):
        threshold, safe = _withhold(threshold, safe, cut, healthy, len(reasoned)), None
    parsed = any(token.reasoning for token in load(reasoned[0]).tokens)
    return ThinkingBudget(
        threshold=threshold,
        safe_tokens=safe,
        reasoned=len(reasoned),
        healthy=healthy,
        cut=None if safe is None else cut,
        supported=parsed and _has_budget(run.profile.version),
    )


def _withhold(threshold: Threshold, safe: int, cut: int, healthy: int, reasoned: int) -> Threshold:
    """The threshold, with the reason for no budget: the length of reasoning cannot be requested, and where it
    rarely gets that far, a budget would tell how long the model reasons, not where it fails."""
    why = (
        f"a budget of {safe:,} would cut short {cut} of {healthy} healthy chains of thought, although T is "
        f"limited by the sample ({threshold.n - threshold.onsets} of {reasoned} got that far), not by "
        f"failures"
    )
    return replace(threshold, withheld=why)


def _has_budget(version: str | None) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)", version or "")
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _FIRST_VERSION
