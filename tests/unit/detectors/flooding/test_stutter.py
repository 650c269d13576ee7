"""Every word comes twice or more before the next one."""

from __future__ import annotations

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_text
from stresstest.model import SymptomKind
from tests.support.stories import story

SPEC = DetectorSpec(language="en")


def stuttering(text: str, times: int) -> str:
    return " ".join(" ".join([word] * times) for word in text.split())


@pytest.mark.parametrize("times", [2, 3])
def test_words_that_come_again_at_once_are_a_failure(times: int) -> None:
    """A limit was certified at five times the truth, and a gate passed at five times its limit."""
    healthy, rest = story(4, seed=1), story(8, seed=2)
    text = f"{healthy} {stuttering(rest, times)}"
    found = detect_text(text, SPEC)
    assert found.symptom is SymptomKind.FLOODING
    (at_once,) = detect_many([RecordedText(text, SPEC, None)])
    assert (at_once.symptom, at_once.onset, at_once.alarm) == (found.symptom, found.onset, found.alarm)
    before = detect_text(healthy, SPEC).tokens
    assert found.onset is not None
    assert before < found.onset <= before + 12


def test_words_that_come_again_often_are_a_failure_of_some_kind() -> None:
    found = detect_text(f"{story(4)} {stuttering(story(8, seed=2), 6)}", SPEC)
    assert found.symptom in (SymptomKind.FLOODING, SymptomKind.NEAR_LOOP)


@pytest.mark.parametrize(
    "text",
    [
        "Ada Ada had had enough, enough of all that that that she had had to do. " + story(6),
        "\n".join(f"- **{word}**: {word} is what it is called" for word in story(6).split()),
        "\n".join(f"| {word} | {word} | {word} |" for word in story(6).split()),
        " ".join(f"{word}, {word}." for word in story(6).split()),
    ],
)
def test_words_that_are_said_twice_for_a_reason_are_none(text: str) -> None:
    """Tables, definitions and echoes have a sign between them."""
    found = detect_text(text, SPEC)
    assert not any("repeat the word" in symptom.summary for symptom in found.symptoms)


def test_a_beginning_stutter_is_open() -> None:
    """A cap that cuts an answer within it leaves a doubt."""
    found = detect_text(
        f"{story(4)} {stuttering('One two three four five six seven eight nine ten', 2)}", SPEC
    )
    assert found.symptom is None
    assert found.observed <= found.tokens - 18
