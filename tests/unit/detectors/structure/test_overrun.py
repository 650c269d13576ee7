"""Paragraphs that do not end, and what a rise of entropy adds to what the text shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.structure.compression import (
    EXCESS,
    MIN_PARAGRAPHS,
    MIN_SENTENCES,
    ParagraphLengthMonitor,
)
from stresstest.detectors.structure.online import EVENT_WINDOW_TOKENS, StructureDetector
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, SymptomKind, Token
from tests.support.numbered_paragraphs import PATTERN, heading, sentence, story, tokens

LOST = ("Nel giardino del porto.", "Poco più.")


def watch(text: str, rise: int | None = None, reason: str = "length") -> StructureDetector:
    """A detector that saw the text, told at its end of a rise of entropy at token `rise`."""
    feed = TextSegmenter()
    detector = StructureDetector(DetectorSpec(language="it", unit_pattern=PATTERN), feed)
    for number, piece in enumerate(tokens(text), 1):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
        if rise is not None and number == rise + EVENT_WINDOW_TOKENS // 2:
            detector.confirm_with_entropy_shift(rise)
    detector.finish(reason)
    return detector


def endless(broken: bool, seed: int = 5) -> str:
    """Ten units in good order and one that never ends; `broken`: some of its sentences lose their parts."""
    rng = random.Random(seed)
    body = [LOST[i // 2 % 2] if broken and i % 2 else sentence(rng) for i in range(24)]
    return story([*range(1, 11)]) + "\n\nParagrafo 11. " + " ".join(body)


def confirmed(detector: StructureDetector) -> list[Symptom]:
    return [s for s in detector.symptoms() if s.confirmed]


def test_a_paragraph_that_never_ends_is_a_warning() -> None:
    """Sentences in good order: the model may have forgotten a line break, and that is no degeneration."""
    (warning,) = watch(endless(broken=False)).symptoms()
    assert (warning.detail["event"], warning.confirmed, warning.end) == ("paragraph", False, None)


def test_a_paragraph_that_the_model_ended_is_no_open_warning() -> None:
    """A long last paragraph of an answer that ended by itself leaves nothing in doubt."""
    (warning,) = watch(endless(broken=False), reason="stop").symptoms()
    assert warning.end is not None


def test_a_paragraph_that_never_ends_and_loses_its_sentences_is_a_break() -> None:
    """Two signs of one failure, each too weak alone: both confirmed, dated within the paragraph."""
    text = endless(broken=True)
    found = confirmed(watch(text))
    assert {s.detail["event"] for s in found} == {"paragraph", "sentences"}
    begin = len(tokens(text[: text.index("Paragrafo 11.")]))
    assert begin < found[0].onset <= begin + 200


def test_an_epilogue_after_the_last_unit_is_no_overrun() -> None:
    """What follows a unit in lines of its own is not that unit's paragraph, however long."""
    rng = random.Random(2)
    epilogue = " ".join(sentence(rng) for _ in range(20))
    assert watch(story([*range(1, 11)]) + "\n\n" + epilogue).symptoms() == []


@given(
    st.lists(st.integers(60, 400), min_size=1, max_size=30),
    st.lists(st.integers(20, 200), min_size=1, max_size=40),
)
@settings(max_examples=100, deadline=None)
def test_an_overrun_is_more_than_twice_the_longest_of_enough_paragraphs(
    before: list[int], last: list[int]
) -> None:
    """Told once, of a paragraph of several sentences, and dated within it."""
    lengths = ParagraphLengthMonitor()
    told = [lengths.add("x" * chars, unit, unit, unit) for unit, chars in enumerate(before)]
    assert told == [None] * len(before)
    here = len(before)
    found = [lengths.add("x" * chars, here + i, here, here) for i, chars in enumerate(last)]
    hits = [i for i, shrunk in enumerate(found) if shrunk is not None]
    assert len(hits) <= 1
    long = [i for i in range(MIN_SENTENCES - 1, len(last)) if sum(last[: i + 1]) > EXCESS * max(before)]
    if len(before) < MIN_PARAGRAPHS:
        assert hits == []
    elif hits:
        assert hits[0] in long
        shrunk = found[hits[0]]
        assert shrunk is not None
        assert here < shrunk.first <= here + hits[0]


def slipped() -> tuple[str, int]:
    """A healthy story whose numbering sticks once, and the token of that heading."""
    text = story([*range(1, 10), 9, *range(10, 16)])
    return text, heading(text, 9, 1)


@pytest.mark.parametrize(
    ("away", "proven"), [(0, True), (-EVENT_WINDOW_TOKENS + 20, True), (-2 * EVENT_WINDOW_TOKENS, False)]
)
def test_one_slip_beside_a_rise_of_entropy_is_a_break(away: int, proven: bool) -> None:
    """One miscount is human; where the model has just lost its sureness for good it is none."""
    text, at = slipped()
    assert confirmed(watch(text)) == []
    found = confirmed(watch(text, rise=at + away))
    assert [s.onset for s in found] == ([at] if proven else [])


def test_a_rise_of_entropy_alone_confirms_nothing() -> None:
    """Without a warning from the text there is nothing to confirm."""
    assert watch(story([*range(1, 16)]), rise=400).symptoms() == []


def test_an_endless_paragraph_beside_a_rise_of_entropy_is_a_break_unless_a_loop_fills_it() -> None:
    """Different sentences without end, where the model has lost its sureness; a loop has its own onset."""
    text = endless(broken=False)
    rise = len(tokens(text[: text.index("Paragrafo 11.")]))
    (found,) = confirmed(watch(text, rise=rise))
    assert (found.detail["event"], found.onset >= rise) == ("paragraph", True)
    same = text[: text.index("Paragrafo 11.")] + "Paragrafo 11. " + f"{sentence(random.Random(3))} " * 20
    assert [s.detail["event"] for s in watch(same, rise=rise).symptoms()] == ["paragraph"]
    assert confirmed(watch(same, rise=rise)) == []


def test_odd_sentences_are_dated_back_to_a_rise_that_is_seen_at_once() -> None:
    """The first sentences that fail may keep their lengths; a rise of entropy dates them, no further than
    it reaches."""
    rng = random.Random(6)
    good = story([*range(1, 11)]) + "\n\nParagrafo 11. "
    text = good + " ".join(sentence(rng) for _ in range(3)) + " " + " ".join([LOST[0], LOST[1]] * 3)
    plain = [s for s in watch(text).symptoms() if s.detail["event"] == "sentences"]
    assert [s.confirmed for s in plain] == [False]
    rise = len(tokens(good)) + 1
    (found,) = confirmed(watch(text, rise=rise))
    assert found.kind is SymptomKind.STRUCTURE_BREAK
    assert rise <= found.onset < plain[0].onset
