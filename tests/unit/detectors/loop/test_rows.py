"""Equal rows within the period of a loop: where the repetition really begins."""

from __future__ import annotations

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.loop.rows import second_row
from stresstest.detectors.suite import detect_text
from stresstest.model import SymptomKind

DAY = [f"{hour:02}:00 - Check the email and then the calendar.\n" for hour in range(24)]
GUESTS = ["Ada", "Hugo", "Ines", "Otto", "Lea", "Paul", "Rosa", "Noah", "Mia", "Levi", "Emma", "Olga"]


def test_a_day_of_equal_entries_is_dated_to_the_second_hour() -> None:
    """A loop of whole days was dated to the second day."""
    lead = "Here is the plan that you have asked for.\n\n"
    text = lead + "".join(DAY) * 6
    verdict = detect_text(text, DetectorSpec("en"), "length")
    assert verdict.symptom is SymptomKind.LOOP
    first = detect_text(lead + DAY[0], DetectorSpec("en"), "length").tokens
    assert verdict.onset in (first, first + 1)


@pytest.mark.parametrize(
    "period",
    [
        "".join(f"{n}. The name of the guest is {name}.\n" for n, name in enumerate(GUESTS)),
        "".join(f"| {n * 7 % 10} | {n * n} | {n * 3} |\n" for n in range(20)),
        "".join(f"{hour:02}:00 - {hour * 7 % 31} degrees and {hour * 5 % 90} %\n" for hour in range(24)),
        "The keeper climbed the stairs and lit the lamp. Nobody had noticed the fog. A boat came in late. ",
        "yes ",
        "",
    ],
    ids=["names", "figures", "measurements", "prose", "a word", "nothing"],
)
def test_rows_that_say_something_are_no_equal_rows(period: str) -> None:
    """A list or a table that repeats as a whole was right the first time."""
    assert second_row(period) is None


def test_the_second_row_is_found_wherever_the_period_begins() -> None:
    """A period may begin within a row."""
    text = "".join(DAY)
    assert second_row(text) == len(DAY[0])
    assert second_row(text[8:] + text[:8]) == len(DAY[0])
