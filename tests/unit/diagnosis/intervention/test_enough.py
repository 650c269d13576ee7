"""When the prompts of a run are too few for a diagnosis of it, and how many it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.diagnosis.intervention.enough import failing_prompts_needed, too_few_prompts
from stresstest.model import Decoding, EndpointProfile, GenerationRecord, Plane, RunSettings, Subject
from tests.support.generations import make, make_job

PROFILE = EndpointProfile("http://h/v1", "lab")
TASK = RunSettings(Subject("lab", "narrative", "it"), "http://h/v1", "narrative", decoding=Decoding(0.7))
OWN = replace(TASK, prompts_file="own.jsonl")


def sample(prompts: int, answers: int, failing: int) -> list[GenerationRecord]:
    """Answers that ask each prompt in turn, of which the first fail."""
    return [
        make(
            replace(make_job(index=i), prompt_index=i % prompts), 100, 50 if i < failing else None
        ).to_record()
        for i in range(answers)
    ]


def test_the_number_grows_with_the_changes_to_be_tried() -> None:
    """One message said 14 and another 15: with prompts of one's own, no sentence asks for the language."""
    assert (failing_prompts_needed(TASK, PROFILE), failing_prompts_needed(OWN, PROFILE)) == (15, 14)
    assert failing_prompts_needed(TASK, PROFILE, (Plane.CONTEXT,)) == 11


@pytest.mark.parametrize(("prompts", "answers"), [(38, 38), (2, 2), (14, 38)])
def test_a_run_with_prompts_left_or_enough_may_be_diagnosed(prompts: int, answers: int) -> None:
    """Only a sample that asks a prompt twice shows that there are no others."""
    assert too_few_prompts(OWN, PROFILE, sample(prompts, answers, 2)) is None


def test_what_is_lacking_comes_with_what_to_do() -> None:
    """Two of 38 answers to two prompts fail: more answers would never be 14 failing prompts."""
    assert too_few_prompts(OWN, PROFILE, sample(2, 38, 2)) == (
        "a diagnosis needs 14 failing prompts, and the run has only 2 prompts in all: measure again with "
        "more (about 266 if as large a share fails)"
    )
    healthy = too_few_prompts(OWN, PROFILE, sample(1, 38, 0))
    assert healthy is not None
    assert healthy.endswith("the run has only 1 prompt in all: measure again with more")
