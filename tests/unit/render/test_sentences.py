"""Sentences and names that all reports share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.model import Phase, Subject
from stresstest.render.sentences import answer_counts, what_to_do
from stresstest.render.text import certified_sentence, subject_name
from tests.support.reported_runs import campaign, healthy, looping, result


@pytest.mark.parametrize(
    ("code", "name"),
    [("it", "Italian"), ("IT", "Italian"), ("nb", "Norwegian"), ("xx", "xx"), ("", "language not given")],
)
def test_people_read_the_name_of_a_language(code: str, name: str) -> None:
    """A heading says Italian; a code that is not known stays, and a missing one is said."""
    assert subject_name(Subject("m", "qa", code)) == f"m · qa · {name}"


@pytest.mark.parametrize(
    ("onsets", "healthy_tokens", "said"),
    [
        (
            [300, 310],
            [],
            "0 of 2 answers degenerate within 100 tokens, and all 2 at some point if they are not capped.",
        ),
        (
            [300],
            [400],
            "and 1 at some point if they are not capped. The cap cuts the one healthy answer short. This",
        ),
        (
            [300, 10],
            [90, 90],
            "1 of 4 answers degenerates within 100 tokens, and 2 at some point if they are not capped. The",
        ),
        ([300, 10], [90, 90], "The cap cuts no healthy answer short."),
        (
            [10, 20],
            [400],
            "2 of 3 answers degenerate within 100 tokens, and 2 at some point if they are not",
        ),
        (
            [300],
            [400, 400, 90],
            "cuts 2 of the 3 healthy answers short. This task asks for long texts: if your "
            "traffic asks for shorter ones, fewer are cut.",
        ),
        ([], [400, 400], "None of the sample's 2 answers degenerates. The cap cuts all 2 healthy answers"),
    ],
)
def test_the_effect_of_the_cap_is_counted_on_its_sample(
    onsets: list[int], healthy_tokens: list[int], said: str
) -> None:
    """Read beside "at most 10 % degenerate by then", that all degenerate later must be no contradiction."""
    failing = [looping(i, onset, onset + 100) for i, onset in enumerate(onsets)]
    fine = [healthy(10 + i, tokens) for i, tokens in enumerate(healthy_tokens)]
    found = result(tuple(failing + fine))
    threshold = replace(found.threshold, tokens=111, certified=True, censored_at=None, lacking=None)
    [cap, *_] = what_to_do(replace(found, threshold=threshold, safe_max_tokens=100))
    assert cap.startswith("Now: set max_tokens to 100. ")
    assert said in cap


@pytest.mark.parametrize("failing_climb", [False, True])
def test_no_failure_was_found_only_where_none_was(failing_climb: bool) -> None:
    """An answer of the climb that loops is no part of the sample, and yet a failure that was found."""
    climb = looping(1, 90, 160, phase=Phase.CLIMB) if failing_climb else healthy(1, 160, phase=Phase.CLIMB)
    found = result((climb, *(healthy(10 + i, 400) for i in range(24))))
    threshold = replace(found.threshold, tokens=111, certified=True, censored_at=111, lacking=None)
    [cap, *_] = what_to_do(replace(found, threshold=threshold, safe_max_tokens=100))
    assert cap.startswith("Now: set max_tokens to 100. None of" if failing_climb else "No failure was found")


def test_the_sample_and_its_count_are_named() -> None:
    """How many answers were for what; healthy ones that ended or were cut sooner are left out aloud."""
    assert answer_counts(result(campaign(24))) == "26 answers (2 to find the length, 24 to certify it)"
    threshold = result(campaign(24)).threshold
    looks = replace(threshold, looks=4)  # 2 of the sample's 76 had failed by then, none of this look's
    assert certified_sentence(looks, 76).endswith(
        "(none of 24 in the sample of the look, of 4 declared, that reached farthest)"
    )
    assert certified_sentence(threshold, 24).endswith("(none of 24 in the sample)")
    assert certified_sentence(threshold, 30).endswith(
        "not counting healthy answers that ended or were cut sooner)"
    )
    assert certified_sentence(threshold).endswith(
        "healthy answers that ended or were cut sooner do not count)"
    )
