"""Answers that came only when they were asked for again."""

from __future__ import annotations

from dataclasses import replace

from stresstest.campaign.notes import doubts
from stresstest.model import Phase
from tests.support.stored_data import make_generation, make_run


def test_a_sample_that_was_chosen_by_retries_is_noted() -> None:
    """A gateway answered 504 to each loop: asked again, 20 of 37 were healthy, and a loop was certified."""
    asked_once = [make_generation(n) for n in range(5)]
    assert not any("asked again" in note for note in doubts(make_run(), asked_once, []))
    again = [replace(make_generation(n), attempts=2) for n in range(5, 8)]
    climb = [replace(make_generation(9, phase=Phase.CLIMB), attempts=3)]
    [note] = [each for each in doubts(make_run(), [*asked_once, *again, *climb], []) if "asked again" in each]
    assert note.startswith("3 of the sample's 8 answers came only when asked again")
