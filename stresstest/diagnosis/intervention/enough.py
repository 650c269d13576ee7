"""Whether a run has prompts enough for a diagnosis, each of which counts once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from stresstest.diagnosis.evidence.server import is_lost
from stresstest.diagnosis.evidence.weighing import effective_penalties
from stresstest.diagnosis.intervention.arms import declare_arms
from stresstest.diagnosis.intervention.exact import prompts_needed
from stresstest.model import EndpointProfile, GenerationRecord, Plane, RunSettings


def failing_prompts_needed(
    settings: RunSettings, profile: EndpointProfile, planes: Sequence[Plane] = tuple(Plane)
) -> int:
    """The fewest failing prompts with which a diagnosis of such a run can decide.

    The number grows with the changes that it tries: with prompts of one's own, where it knows no sentence
    that asks for the language, they are two fewer. The shipped tasks have such a sentence.
    """
    arms = declare_arms(
        settings.decoding,
        constraint=None if settings.prompts_file else settings.subject.language,
        concurrency=settings.concurrency,
        planes=planes,
        penalty=effective_penalties(settings.decoding, profile).repetition,
    )
    return prompts_needed(len(arms) - 1)


def too_few_prompts(
    settings: RunSettings, profile: EndpointProfile, sample: Sequence[GenerationRecord]
) -> str | None:
    """Why no diagnosis of a run can decide, and what to do, as a clause; None where one may. sample: its
    certifying answers, which ask every prompt once before they ask one again."""
    prompts = len({each.job.prompt_index for each in sample})
    needed = failing_prompts_needed(settings, profile)
    if prompts == len(sample) or prompts >= needed:
        return None
    return f"a diagnosis needs {needed} failing prompts, and {more_prompts_words(prompts, needed, sample)}"


def more_prompts_words(prompts: int, needed: int, answers: Sequence[GenerationRecord]) -> str:
    """That the prompts of a run are too few, and how many would do at the share of answers that fail."""
    whole = [each for each in answers if not is_lost(each)]
    failing = sum(each.verdict.onset is not None for each in whole)
    many = f" (about {ceil(needed * len(whole) / failing):,} if as large a share fails)" if failing else ""
    number = "only 1 prompt" if prompts == 1 else f"only {prompts} prompts"
    return f"the run has {number} in all: measure again with more{many}"
