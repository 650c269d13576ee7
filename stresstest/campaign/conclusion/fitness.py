"""Whether a limit has room for one unit of the task: below that it is useless, and the model is unfit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from stresstest.campaign.prompt_source import load_prompt_source
from stresstest.errors import UsageError
from stresstest.model import GenerationRecord, Run, RunStatus, Threshold
from stresstest.statistics import safe_max_tokens
from stresstest.statistics.certify import clopper_pearson, unusable_reason

_FEWEST_UNITS = 2
"""Complete units from which on an answer shows their length: a lone number may head a whole story."""
_SHORT_SENTENCE = 16
"""Tokens below which failures leave no answer, where no task says how long one is."""


@dataclass(frozen=True, slots=True)
class UnitLength:
    """Tokens of one unit: the median of the run's own answers, or the task's estimate."""

    tokens: int
    own: bool

    @property
    def source(self) -> str:
        return "the median of its own answers" if self.own else "the task's estimate"


def judge_fitness(
    threshold: Threshold,
    generations: Sequence[GenerationRecord],
    certifying: Sequence[GenerationRecord],
    run: Run,
) -> Threshold:
    """The threshold with the length of one unit; unfit, and without a cap, where the limit is shorter.

    Where nothing failed, and the answers only end too early (a short horizon), there is no cap either, but
    nothing speaks against the model. Where no unit is asked for, failures before a short sentence is written
    make it unfit; so do failures from the first token on that are surely more than α allows.
    """
    unit = _unit_length(generations, run)
    threshold = replace(threshold, unit_tokens=None if unit is None else unit.tokens)
    if threshold.tokens is None:
        return replace(threshold, unfit=_fails_at_once(threshold, certifying, run))
    safe = safe_max_tokens(threshold, run.settings.margin) or 0
    if unit is None:
        if safe >= _SHORT_SENTENCE or threshold.censored_at is not None:
            return threshold
        why = f"the limit would be {safe:,} tokens, and a short sentence takes {_SHORT_SENTENCE}"
        return replace(threshold, unfit=True, withheld=why)
    if safe >= unit.tokens:
        return threshold
    why = f"the limit would be {safe:,} tokens, and one unit takes about {unit.tokens:,} ({unit.source})"
    if threshold.censored_at is not None:
        return replace(threshold, withheld=f"{why}. Nothing failed; the answers are too short to show more")
    return replace(threshold, unfit=True, withheld=why)


def _unit_length(generations: Iterable[GenerationRecord], run: Run) -> UnitLength | None:
    """None where the prompts ask for no units, or are no longer those of the run."""
    healthy = [g.verdict for g in generations if g.failure is None and not g.verdict.degenerate]
    own = [v.tokens / v.units for v in healthy if v.units is not None and v.units >= _FEWEST_UNITS]
    if own:
        return UnitLength(ceil(median(own)), own=True)
    try:
        prompts = load_prompt_source(run.settings)
    except UsageError:
        return None
    if not prompts.asks_units or prompts.digest() != run.prompts_digest:
        return None
    return UnitLength(ceil(prompts.tokens_per_unit), own=False)


def _fails_at_once(threshold: Threshold, certifying: Sequence[GenerationRecord], run: Run) -> bool:
    """Whether more than α fail by the smallest T that was examined, as surely as a threshold is certified.

    Onsets by that T are onsets at the first token: it lies before every later one.
    """
    if run.status is not RunStatus.DONE or not threshold.n or unusable_reason(certifying) is not None:
        return False
    lower, _ = clopper_pearson(threshold.onsets, threshold.n, 2.0 * threshold.confidence - 1.0)
    return lower > threshold.alpha
