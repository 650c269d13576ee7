"""Reasoning: where it ends, with a parser or as tags in the text, and in which part an onset lies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text, detect_tokens
from stresstest.detectors.text.thinking import ThinkingMarker, recorded_tokens, thinking_end
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import AnswerPart, SymptomKind, Token
from tests.support.stories import LOOP, story

ITALIAN = (
    "Devo scrivere una storia lunga, quindi comincio dal faro e dal vecchio guardiano che lo abita. " * 2
)
SPEC = DetectorSpec(language="en", unit_pattern=r"^\s*Paragraph\s+(\d+)", units=5)


def mark(pieces: list[str]) -> tuple[ThinkingMarker, list[Token]]:
    """A marker that took these token texts, and what it passed on."""
    marker = ThinkingMarker()
    passed = [token for piece in pieces for token in marker.mark([Token(piece)])]
    return marker, [*passed, *marker.release()]


@given(st.data(), st.sampled_from(["<think>\nSo, 1 < 2 and </b>.\n</think>\n\nHello.", "\n<think></think>A"]))
def test_tags_are_found_however_they_are_cut_into_tokens(data: st.DataObject, text: str) -> None:
    """A tag may come in one token or character by character: what is passed on as the answer is the text
    after it, and no token is lost, so that positions stay output tokens."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    marker, passed = mark(pieces)
    answer = "".join(token.text for token in passed if not token.reasoning)
    assert answer.lstrip() == text.partition("</think>")[2].lstrip()
    assert len(passed) == len(pieces)
    assert marker.done
    assert all(token.reasoning for token in passed[marker.end - 1 : marker.end])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("[THINK]", "[/THINK]"),
        ("<seed:think>", "</seed:think>"),
        ("◁think▷", "◁/think▷"),
        ("<thinking>\n", "\n</thinking>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("analysis", "assistantfinal"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<thinking>", "</think>"),
        ("<reasoning>", "<answer>"),
        ("<|channel|>analysis<|message|>", "<|end|><|channel|>final <|constrain|>json<|message|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ],
)
@given(data=st.data())
def test_each_familys_marks_are_known(opened: str, closed: str, data: st.DataObject) -> None:
    """English reasoning before a French answer is no drift, whatever marks the model sets around it."""
    text = f"{opened}We need 1 < 2 [and] so on.{closed}Bonjour."
    assert thinking_end(text) == len(text) - len("Bonjour.")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    marker, passed = mark(pieces)
    assert "".join(token.text for token in passed if not token.reasoning) == "Bonjour."
    assert len(passed) == len(pieces)
    assert marker.done


def test_an_answer_that_begins_with_analysis_is_one() -> None:
    """gpt-oss's channel has no blank behind it."""
    for text in ("analysis of the harbour", "Analysis: We need", "analysis"):
        assert thinking_end(text) == 0
        _, passed = mark([text])
        assert not passed[0].reasoning


@given(
    st.lists(
        st.sampled_from(["<", "think", ">", " ", "\n", "", "Once", "<thin", "king>", "</think>"]), max_size=8
    )
)
def test_text_that_opens_no_reasoning_passes_as_it_came(pieces: list[str]) -> None:
    """What only begins like a tag is the answer's text, in its order."""
    text = "".join(pieces)
    if text.lstrip().startswith(("<think>", "<thinking>")):
        return
    marker, passed = mark(pieces)
    assert [token.text for token in passed] == pieces
    assert not any(token.reasoning for token in passed)
    assert marker.end == 0


def test_blanks_are_not_held_back() -> None:
    """An output of blanks to the cap is judged while it streams."""
    marker = ThinkingMarker()
    assert len(marker.mark([Token("\n")] * 100)) == 100


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Once upon a time.", 0),
        ("<think>So.</think>\n\nOnce.", 18),
        ("\n <think>So, and on and on", 26),
        ("So.\n</think>\n\nOnce.", 12),
        ("The tag </think> closes it, and <think> opens it.", 0),
        ("It ends with </think> in the text.", 0),
        ("I rethink>", 0),
    ],
)
def test_where_recorded_reasoning_ends(text: str, end: int) -> None:
    """The opening tag may stand in the prompt, as chat templates put it; a tag that the text only speaks of
    is text."""
    assert thinking_end(text) == end
    assert [t.text for t in recorded_tokens(text)] == [t.text for t in text_tokens(text)]


@pytest.mark.parametrize("opening", ["<think>\n", ""])
def test_reasoning_in_the_text_is_judged_as_a_parsers_would_be(opening: str) -> None:
    """In another language and without structure it is healthy, and the answer after it counts its units."""
    thought = f"{opening}{ITALIAN}Paragraph 9. Sì.\n</think>"
    text = f"{thought}\n\n{story(5)}"
    verdict = detect_text(text, SPEC, "stop")
    assert not verdict.degenerate
    assert verdict.units == 5
    assert verdict.reasoning == len(text_tokens(thought))
    assert verdict.tokens == len(text_tokens(text))
    assert detect_recorded(text, SPEC, "stop") == verdict


def test_a_verdict_tells_which_part_fails() -> None:
    """A loop in the reasoning is an onset there, whether a parser marks it or tags do; one in the answer is
    not."""
    circles, healthy = f"So {LOOP}" + f" {LOOP}" * 20, f"So. {ITALIAN}"
    parsed = [replace(token, reasoning=True) for token in text_tokens(circles)]
    verdict = detect_tokens([*parsed, *text_tokens(story(5))], SPEC, "stop")
    assert (verdict.symptom, verdict.onset, verdict.onset_in) == (SymptomKind.LOOP, 8, AnswerPart.REASONING)
    assert verdict.reasoning == len(parsed)
    tagged = detect_text(f"<think>\n{circles}\n</think>\n\n{story(5)}", SPEC, "stop")
    assert tagged.onset_in is AnswerPart.REASONING
    late = detect_text(f"<think>\n{healthy}\n</think>\n\n{story(5)} {circles}", SPEC, "length")
    assert late.onset_in is AnswerPart.ANSWER
    assert detect_text(f"<think>\n{healthy}\n</think>\n\n{story(5)}", SPEC, "stop").onset_in is None
