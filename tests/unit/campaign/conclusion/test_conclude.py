"""What a reader is told of a run's sample beside its number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.conclusion.notes import _sample_notes
from stresstest.campaign.conclusion.withheld import withhold_cap
from stresstest.model import RIGORS
from stresstest.statistics import certified_threshold
from tests.support.samples import sample
from tests.support.stored_data import make_run


def test_a_limit_right_before_the_onsets_is_no_thin_sample() -> None:
    """T ends one token before the earliest of many onsets: that is where the model fails, no onset by T is
    no absence of onsets, and what the cap cuts is said once, in what to do."""
    rigor = RIGORS["quick"]
    failing = sample([*([None] * 30), *([90] * 30)], [121] * 60)
    threshold = certified_threshold(failing, rigor)
    assert (threshold.onsets, threshold.censored_at, threshold.tokens) == (0, None, 89)
    assert _sample_notes(failing, threshold, 80) == []
    calm = sample([None] * 30, [121] * 30)
    (note,) = _sample_notes(calm, certified_threshold(calm, rigor), 80)
    assert note.startswith("No onset was seen: T is limited by the sample (30 of 30 answers got that far)")


def test_prompts_with_a_number_of_their_own_count_as_one() -> None:
    """38 prompts of one text, each with its request id, were 38 distinct ones, and no note spoke of it."""
    calm = sample([None] * 38, [121] * 38)
    alike = [replace(g, prompt_text=f"[request {g.prompt_id}] Tell a story.") for g in calm]
    said = _sample_notes(alike, certified_threshold(alike, RIGORS["quick"]), 110)
    assert said[0].startswith(
        "The sample's 38 answers are to 1 distinct prompt (38, if those that differ only in"
    )


def test_prompts_that_were_asked_twice_are_told() -> None:
    """62 prompts asked twice each were 124 answers of one bound. Where the prompt decides whether an answer
    fails, it holds for these prompts only: of others that fail in 5 %, it certified 17.6 %, not 5 %."""
    calm = sample([None] * 124, [121] * 124)
    twice = [
        replace(g, prompt_id=f"p{n // 2}", prompt_text=f"Prompt {'x' * (n // 2)}.")
        for n, g in enumerate(calm)
    ]
    said = _sample_notes(twice, certified_threshold(twice, RIGORS["standard"]), 110)
    assert said[0].startswith(
        "The sample's 124 answers are to 62 distinct prompts: the bound holds for these"
    )
    once = [replace(g, prompt_id=f"p{n}", prompt_text=f"Prompt {'x' * n}.") for n, g in enumerate(calm)]
    assert not any(
        "distinct" in note for note in _sample_notes(once, certified_threshold(once, RIGORS["standard"]), 110)
    )


@pytest.mark.parametrize(
    ("climb", "reached", "withheld"),
    [(464, 3, True), (464, 22, False), (190, 3, False)],
    ids=["ends before the onset", "enough get there", "onset before the ends"],
)
def test_a_cap_that_rests_on_early_ends_is_not_recommended(
    climb: int | None, reached: int, withheld: bool
) -> None:
    """The climb failed at 464 tokens, and too few answers got there: T stands, and no cap is made of it."""
    settings = replace(make_run("r").settings, rigor="quick", margin=0.1)
    certifying = sample([None] * 38, [202] * (38 - reached) + [470] * reached)
    threshold = certified_threshold(certifying, RIGORS["quick"])
    found = withhold_cap(threshold, sample([climb, climb], [500, 500]), certifying, settings)
    assert found.tokens == threshold.tokens
    assert (found.withheld is not None) is withheld
    if withheld:
        assert found.withheld == (
            "a cap of 181 would cut 38 of 38 healthy answers. 35 of 38 ended on their own before the 464 "
            "tokens at which the climb's answers degenerated, so that length is not measured"
        )


def test_a_model_that_never_fails_needs_no_cap_below_its_answers() -> None:
    """T is what the answers' own ends leave: a cap there would cut them and protect from nothing. A late
    failure changes nothing of that. Answers that the horizon cut have their cap, and a T where one fails."""
    settings = replace(make_run("r").settings, rigor="quick", margin=0.1)
    rigor, ends = RIGORS["quick"], [180 + n for n in range(38)]
    calm = sample([None] * 38, ends)
    found = withhold_cap(certified_threshold(calm, rigor), [], calm, settings)
    assert found.certified
    assert found.withheld is not None
    assert "of 38 healthy answers, which end on their own; longer ones are not measured" in found.withheld
    capped = [
        replace(g, finish_reason="length", job=replace(g.job, max_tokens=g.verdict.tokens)) for g in calm
    ]
    assert withhold_cap(certified_threshold(capped, rigor), [], capped, settings).withheld is None
    late = sample([None] * 37 + [215], ends)
    assert withhold_cap(certified_threshold(late, rigor), [], late, settings).withheld is not None
    many = sample([None] * 33 + [230] * 5, ends)
    assert withhold_cap(certified_threshold(many, rigor), [], many, settings).withheld is None
    failing = sample([None] * 20 + [182] * 18, [300] * 38)
    threshold = certified_threshold(failing, rigor)
    assert threshold.certified
    assert withhold_cap(threshold, [], failing, settings).withheld is None
