"""A stream of text is judged like its whole, and left at the alarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stresstest
from stresstest.api import streaming
from stresstest.api.streaming import judge_body
from stresstest.errors import UsageError
from tests.support.foreign_texts import GERMAN, ITALIAN
from tests.support.scanned_files import LOOPING
from tests.support.stories import LOOP, story


def pieces(text: str, size: int) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_healthy_stream_gets_the_verdict_of_its_text(size: int) -> None:
    """However it is cut."""
    text = story(4) + "   \n\n 漢字 " + "x" * 70 + "."
    assert stresstest.detect(pieces(text, size), finish_reason="stop") == stresstest.detect(
        text, finish_reason="stop"
    )


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize(
    ("failing", "language", "symptom"),
    [
        pytest.param(f" {LOOP}" * 300, "en", {"loop", "near_loop"}, id="loop"),
        pytest.param(GERMAN * 20, "it", {"language_drift"}, id="drift"),
    ],
)
def test_a_failing_stream_is_left_at_the_alarm(
    size: int, failing: str, language: str, symptom: set[str]
) -> None:
    """Long before its end, with the onset where the whole text has it."""
    text = (ITALIAN if language == "it" else story(2)) + failing
    read: list[str] = []

    def stream() -> Iterator[str]:
        for piece in pieces(text, size):
            read.append(piece)
            yield piece

    found, whole = stresstest.detect(stream(), language=language), stresstest.detect(text, language=language)
    assert found.symptom in symptom
    assert found.onset_char == whole.onset_char
    assert found.alarm_char is not None
    assert found.alarm_char < len("".join(read)) < len(text) / 2


def test_an_alarm_is_kept_when_the_stream_is_read_on() -> None:
    """Whoever only counts reads to the end; a loop that ended by itself is then told as one."""
    detector = stresstest.StreamDetector(language="en")
    heard = [detector.feed(piece) for piece in pieces(story(2) + LOOPING + ". " + story(4, seed=9), 9)]
    assert detector.alarmed
    assert any(heard)
    found = detector.finish("stop")
    assert (found.symptom, found.recovered, found.loops_to_end) == ("loop", True, False)


def test_a_loop_in_the_reasoning_has_no_place_in_the_answer() -> None:
    """It is found, and `onset_char`, which counts the answer's characters, is None."""
    detector = stresstest.StreamDetector(language="en")
    assert any(detector.feed(piece, reasoning=True) for piece in pieces(LOOPING * 3, 9))
    found = detector.finish()
    assert found.degenerate
    assert found.onset_char is None


def test_reasoning_after_some_answer_is_watched_too() -> None:
    """gpt-oss writes a preamble and Claude thinks between calls: what loops there passed, in LiteLLM's
    guardrail as well, while `scan` found it in the log."""
    detector = stresstest.StreamDetector(language="en")
    detector.feed("Let me think about it. ", reasoning=True)
    detector.feed("I will read the file first.\n")
    assert any(detector.feed(piece, reasoning=True) for piece in pieces(LOOPING * 3, 9))
    verdict = detector.finish()
    assert verdict.symptom in ("loop", "near_loop")
    assert verdict.onset_char is None


def test_reasoning_and_answer_are_not_mixed_up() -> None:
    """Healthy thoughts before a looping answer: the onset counts the answer's characters alone."""
    detector = stresstest.StreamDetector(language="en")
    detector.feed(story(1, seed=3), reasoning=True)
    text = story(2) + LOOPING * 5
    for piece in pieces(text, 11):
        if detector.feed(piece):
            break
    assert detector.finish().onset_char == stresstest.detect(text, language="en").onset_char


def test_an_empty_stream_is_healthy() -> None:
    assert not stresstest.detect(iter(())).degenerate


def test_an_empty_chunk_begins_no_answer() -> None:
    """Clients send empty content beside each chunk of reasoning; what follows is reasoning all the same."""
    detector = stresstest.StreamDetector(language="en")
    for piece in pieces(LOOPING, 20):
        alarmed = detector.feed(piece, reasoning=True)
        if detector.feed("") or alarmed:
            break
    assert detector.alarmed
    assert detector.finish().onset_char is None


def body(finish_reason: str = "stop", **message: object) -> dict[str, object]:
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


def test_all_answers_of_a_body_are_judged_and_what_nobody_saw_is_left_out() -> None:
    """What integrations are handed: reasoning and calls count, and hidden tokens are not healthy."""

    def degenerate(response: dict[str, object]) -> list[bool]:
        return [each.degenerate for each in judge_body(response, language="en", prompt="Tell a story.")]

    call = {"function": {"name": "write", "arguments": LOOPING}}
    assert degenerate(body(content="42", reasoning_content=LOOPING)) == [True]
    assert degenerate(body(content=None, tool_calls=[call])) == [True]
    assert degenerate(body(content=story(2))) == [False]
    assert degenerate(body("length", content="")) == []
    assert degenerate(body(content=None, tool_calls=[{"function": {"name": "stop"}}])) == []
    assert degenerate({"data": [], "object": "list"}) == []


def test_redacted_reasoning_is_not_judged() -> None:
    """It is ciphertext; its summary is text."""
    part = {"type": "reasoning", "reasoning": LOOPING, "redacted": True}
    said = {"type": "text", "text": "It is 42."}
    [hidden] = judge_body(body(content=[part, said]), language="en", prompt=None)
    [summed] = judge_body(body(content=[{**part, "summary": LOOPING}, said]), language="en", prompt=None)
    assert (hidden.degenerate, summed.degenerate) == (False, True)


def test_a_stream_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ignores its cap and never repeats itself: memory grew by 0.7 KB a character for ever."""
    monkeypatch.setattr(streaming, "MAX_PIECES", 400)
    given = 0

    def endless() -> Iterator[str]:
        nonlocal given
        while True:
            given += 1
            yield f"{story(1, seed=given)} "

    assert not stresstest.detect(endless(), language="en").degenerate
    assert given < 40
    detector = stresstest.StreamDetector(language="en")
    for chunk in [story(8), story(8, seed=2), story(8, seed=3)]:
        detector.feed(chunk)
    assert detector.full
    assert not detector.finish("stop").degenerate


def test_a_prompt_of_another_type_is_a_usage_error() -> None:
    """It was a TypeError of the code within."""
    with pytest.raises(UsageError, match="a list of messages, not int"):
        stresstest.detect("a text", prompt=3)  # type: ignore[arg-type]
