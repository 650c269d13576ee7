"""Hashtags without an end."""

from __future__ import annotations

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_text
from stresstest.model import SymptomKind

POST = "We are looking for a colleague who likes gardens. Apply until Friday, and bring a friend!\n\n"
TAGS = [f"#Tech{a}{b}" for a in ("Women", "Mentors", "Teams", "Tips") for b in map(chr, range(97, 123))] * 2


def row(count: int, between: str = " ") -> str:
    return between.join(f"{tag}{n // 104 or ''}" for n, tag in enumerate(TAGS[:count]))


@pytest.mark.parametrize("between", [" ", "\n* ", ", ", " 🎃 "])
def test_a_row_of_tags_without_an_end_is_a_flood(between: str) -> None:
    """Mistral's and Zephyr's posts end in hundreds of compounds, each of them new. The onset is the tag after
    the thirty of a post."""
    text = POST + row(180, between)
    found = detect_text(text, DetectorSpec(language="en"))
    assert found.symptom is SymptomKind.FLOODING
    (at_once,) = detect_many([RecordedText(text, DetectorSpec(language="en"), None)])
    assert (at_once.symptom, at_once.onset, at_once.alarm) == (found.symptom, found.onset, found.alarm)
    before = detect_text(POST + row(30, between), DetectorSpec(language="en")).tokens
    assert found.onset is not None
    assert before < found.onset <= before + 3 + between.count("*")


@pytest.mark.parametrize(
    "text",
    [
        POST + row(100),
        "".join(f"# Heading {n}\n\n{POST}" for n in range(150)),
        "colors = [" + ", ".join(f'"#{n * 7919 % 0xFFFFFF:06x}"' for n in range(300)) + "]\n",
        "Fixes " + ", ".join(f"#{n * 7 + 1000}" for n in range(200)) + ".",
        "".join(f"#include <module_{n}.h>\n#define SIZE_{n} {n}\n" for n in range(100)),
    ],
)
def test_a_hundred_tags_headings_colours_and_issues_are_none(text: str) -> None:
    found = detect_text(text, DetectorSpec(language="en"))
    assert not any(symptom.detail.get("words") == ["#"] for symptom in found.symptoms)


def test_a_row_that_a_cap_cuts_is_open() -> None:
    """Sixty-four may become a flood: the answer is in doubt from the tag after the thirtieth."""
    found = detect_text(POST + row(90), DetectorSpec(language="en"))
    assert found.symptom is None
    assert found.observed < found.tokens - 100
