"""Answers without any of the numbered units: when the verdict says so, and which prompts it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.campaign.conclusion.ignored_units import IgnoredUnits, add_ignored_units, find_ignored_units
from stresstest.model import FailureKind, PlaneVerdict, RunSettings, ServiceFailure, Subject
from tests.support.reported_runs import healthy

VERDICT = PlaneVerdict(None, None, "Nothing fails.", advice=("First.",))
SETTINGS = RunSettings(Subject("m", "narrative", "it"), "http://x/v1", "narrative")


def test_what_was_not_read_or_not_asked_counts_for_nothing() -> None:
    """Lost answers, own prompts and verdicts of earlier versions say nothing of the numbering."""
    one = healthy(1, 100)
    asked = [
        replace(one, job=replace(one.job, units=9), verdict=replace(one.verdict, headings=n))
        for n in (0, 0, 1, None)
    ]
    lost = replace(asked[0], failure=ServiceFailure(FailureKind.CUT, "cut"))
    own = replace(asked[0], job=replace(one.job, units=None))
    assert find_ignored_units([*asked, lost, own]) == IgnoredUnits(without=2, asked=3)
    assert find_ignored_units([asked[3], own]) is None


@pytest.mark.parametrize(("without", "told"), [(0, False), (9, False), (10, True), (40, True)])
def test_the_verdict_says_so_from_a_quarter_on(without: int, told: bool) -> None:
    """A few unnumbered answers are the model's variety; many are a task that was not followed."""
    found = add_ignored_units(VERDICT, IgnoredUnits(without, 40), SETTINGS)
    assert (f"{without} of 40 answers contain none" in found.sentence) is told
    assert found.advice[:1] == VERDICT.advice
    assert (len(found.advice) == 2) is told


@pytest.mark.parametrize(
    ("task", "language", "named"),
    [
        ("narrative", "it", "--task narrative:open"),
        ("narrative", "xx", "--prompts"),
        ("./gone.toml", "it", "--prompts"),
    ],
)
def test_the_advice_names_prompts_that_exist(task: str, language: str, named: str) -> None:
    """The open form only where the task has one in this language."""
    settings = replace(SETTINGS, task_source=task, subject=Subject("m", task, language))
    found = add_ignored_units(VERDICT, IgnoredUnits(40, 40), settings)
    assert named in found.advice[-1]
