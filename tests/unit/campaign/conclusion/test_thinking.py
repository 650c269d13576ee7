"""The thinking budget of a run: certified as max_tokens is, withheld where reasoning rarely gets that far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.conclusion.thinking import certify_budget
from stresstest.model import (
    EndpointProfile,
    Generation,
    GenerationRecord,
    Run,
    RunSettings,
    RunStatus,
    Subject,
    ThinkingBudget,
    Token,
)
from stresstest.render.run_document import thinking_document
from stresstest.render.sentences import thinking_advice, thinking_words
from tests.support.generations import make, make_job

RUN = Run(
    "r",
    RunSettings(Subject("m", "narrative", "en"), "http://h/v1", "narrative", rigor="quick"),
    EndpointProfile("http://h/v1", "m", version="0.32.0"),
    RunStatus.DONE,
    0.0,
)


def sample(reasoning: list[int], onsets: dict[int, int] | None = None) -> list[GenerationRecord]:
    """Generations of 300 tokens of answer after so much reasoning; onsets: place → token."""
    made: list[GenerationRecord] = []
    for n, length in enumerate(reasoning):
        one = make(make_job(index=n), length + 300, (onsets or {}).get(n), prompt_id=f"p{n}")
        made.append(replace(one, verdict=replace(one.verdict, reasoning=length)))
    return made


def certify(
    generations: list[GenerationRecord], run: Run = RUN, *, parsed: bool = True
) -> ThinkingBudget | None:
    def load(record: GenerationRecord) -> Generation:
        return record.with_tokens((Token("So", reasoning=parsed),))

    return certify_budget(generations, run, load)


def test_the_bound_is_that_of_the_threshold_over_the_reasoning() -> None:
    """40 reason for 1,000 tokens; two loop at 600 and 700, four more fail in their answers, which counts
    against max_tokens alone. Quick: 1 of 40 is bounded by 9.4 %, 2 of 40 by 12.7 %, so T is 699."""
    onsets = {0: 600, 1: 700, 2: 1100, 3: 1100, 4: 1150, 5: 1200}
    found = certify(sample([1000] * 40, onsets))
    assert found is not None
    assert (found.threshold.tokens, found.threshold.n, found.threshold.onsets) == (699, 40, 1)
    assert (found.safe_tokens, found.reasoned, found.supported) == (629, 40, True)
    words = thinking_words(found, 0.10)
    assert words.startswith("Safe thinking budget 629: T minus a margin of 10 %. Certified up to T = 699")
    assert "max_tokens counts reasoning and answer together" in words
    assert (
        "10 % of answers degenerate in their reasoning by then (1 of 40 in the sample; healthy reasoning"
        in words
    )
    assert thinking_advice(found, RUN.settings) == (
        "Send thinking_token_budget 629 with each request, beside max_tokens. It cuts all 38 healthy "
        "chains of thought short. This task asks for long texts: if your traffic asks for shorter ones, "
        "fewer are cut."
    )
    assert thinking_document(found)["thinking_budget"]["threshold"]["tokens"] == 699


def test_a_budget_that_the_sample_limits_is_withheld() -> None:
    """22 of 40 reason for 200 tokens or more, none fails: T is ≥ 200 for want of longer reasoning, and a
    budget of 180 would cut most of it for nothing."""
    found = certify(sample([200] * 2 + [400] * 20 + [60] * 12 + [30] * 6))
    assert found is not None
    assert (found.threshold.tokens, found.threshold.censored_at, found.safe_tokens) == (200, 200, None)
    assert found.threshold.withheld == (
        "a budget of 180 would cut short 22 of 40 healthy chains of thought, although T is limited by the "
        "sample (22 of 40 got that far), not by failures"
    )
    assert thinking_words(found, 0.10).startswith("No thinking budget is recommended: a budget of 180 would")
    assert thinking_advice(found, RUN.settings) is None


def test_too_few_that_reason_certify_nothing() -> None:
    """The floor holds for those that reason, not for the sample."""
    found = certify(sample([500] * 12 + [0] * 30))
    assert found is not None
    assert (found.threshold.certified, found.reasoned) == (False, 12)
    assert "22 answers at risk are needed, but there were only 12" in thinking_words(found, 0.10)


def test_an_unfinished_run_certifies_no_budget() -> None:
    """Its sample is not random."""
    found = certify(sample([500] * 40), replace(RUN, status=RunStatus.INTERRUPTED))
    assert found is not None
    assert (found.safe_tokens, found.threshold.lacking) == (None, "the run is not complete")


@pytest.mark.parametrize(("version", "parsed"), [("0.19.1", True), (None, True), ("0.32.0", False)])
def test_a_server_without_the_parameter_is_not_told_to_take_it(version: str | None, parsed: bool) -> None:
    """vLLM before 0.20 ignores it, and without a reasoning parser refuses every request that has it."""
    run = replace(RUN, profile=replace(RUN.profile, version=version))
    found = certify(sample([1000] * 40, {0: 600, 1: 700}), run, parsed=parsed)
    assert found is not None
    assert not found.supported
    assert "takes no thinking_token_budget" in (thinking_advice(found, RUN.settings) or "")


def test_without_reasoning_there_is_no_budget() -> None:
    """And nothing is said of one."""
    assert certify(sample([0] * 40)) is None
    assert thinking_document(None) == {}
