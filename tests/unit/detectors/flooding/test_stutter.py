"""Every word comes twice or more before the next one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.flooding.batch import BatchFloodingDetector
from stresstest.detectors.flooding.online import FloodingDetector
from stresstest.detectors.flooding.stutter import LONGEST_COPY
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import split_pieces, text_tokens
from stresstest.model import SymptomKind
from tests.support.stories import story

SPEC = DetectorSpec(language="en")


def stuttering(text: str, times: int) -> str:
    return " ".join(" ".join([word] * times) for word in text.split())


def assert_found_at_once(rest: str, within: int) -> None:
    """A stutter after four healthy sentences is found so many tokens behind them at most."""
    healthy = story(4, seed=1)
    found = detect_text(f"{healthy} {rest}", SPEC)
    assert found.symptom is SymptomKind.FLOODING
    (recorded,) = detect_many([RecordedText(f"{healthy} {rest}", SPEC, None)])
    assert (recorded.symptom, recorded.onset, recorded.alarm) == (found.symptom, found.onset, found.alarm)
    before = detect_text(healthy, SPEC).tokens
    assert found.onset is not None
    assert before < found.onset <= before + within


@pytest.mark.parametrize("times", [2, 3])
def test_words_that_come_again_at_once_are_a_failure(times: int) -> None:
    """A limit was certified at five times the truth, and a gate passed at five times its limit."""
    assert_found_at_once(stuttering(story(8, seed=2), times), within=12)


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
        "".join(f"{word.title()} {word.lower()}, " for word in story(6).split() if word.isalpha()),
    ],
)
def test_words_that_are_said_twice_for_a_reason_are_none(text: str) -> None:
    """Tables, definitions and echoes have a sign between them."""
    found = detect_text(text, SPEC)
    assert not any("directly before" in symptom.summary for symptom in found.symptoms)


def test_a_beginning_stutter_is_open() -> None:
    """A cap that cuts an answer within it leaves a doubt."""
    found = detect_text(
        f"{story(4)} {stuttering('One two three four five six seven eight nine ten', 2)}", SPEC
    )
    assert found.symptom is None
    assert found.observed <= found.tokens - 18


def copied(text: str, sizes: Iterator[int]) -> str:
    """The text as a stream whose events, of so many pieces each, come twice."""
    pieces = iter(split_pieces(text))
    return "".join("".join(event) * 2 for size in sizes if (event := list(islice(pieces, size))))


@pytest.mark.parametrize("size", range(1, LONGEST_COPY + 1))
def test_events_that_come_twice_are_a_failure(size: int) -> None:
    """A limit was certified beyond answers in which two words at a time came twice."""
    assert_found_at_once(copied(story(8, seed=2), repeat(size, 1000)), within=4 * LONGEST_COPY)


@given(
    st.integers(0, 3),
    st.lists(st.integers(1, LONGEST_COPY + 2), min_size=1, max_size=80),
    st.integers(0, 10**6),
)
def test_copies_are_found_whoever_reads_them(before: int, sizes: list[int], seed: int) -> None:
    """The suite reads token by token, `scan` all at once, and its screen may pass none that stutters."""
    text = f"{story(before, seed=seed)} {copied(story(8, seed=seed + 1), iter(sizes))} {story(1, seed=seed)}"
    found = detect_text(text, SPEC)
    (screened,) = detect_many([RecordedText(text, SPEC, None)])
    assert (screened.symptom, screened.onset) == (found.symptom, found.onset)
    online, at_once = FloodingDetector(SPEC), BatchFloodingDetector(SPEC)
    tokens = text_tokens(text)
    for token in tokens:
        online.update(token)
    at_once.update_all([token.text for token in tokens])
    assert (online.symptoms(), online.open_from) == (at_once.symptoms(), at_once.open_from)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_lines_that_come_twice_are_none(length: int) -> None:
    """A sorted column, and a song without commas: a line break stands between."""
    words = story(12).replace(",", "").replace(".", "").split()
    lines = [" ".join(words[i : i + length]) for i in range(0, len(words), length)]
    found = detect_text("\n".join(f"{line}\n{line}" for line in lines), SPEC)
    assert not any("directly before" in symptom.summary for symptom in found.symptoms)
