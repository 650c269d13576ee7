"""Gibberish in the reasoning: a broken model breaks there first, where it writes most."""

from __future__ import annotations

import random

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_text, detect_tokens
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import GenerationVerdict, SymptomKind, Token
from tests.support.stories import story

THOUGHT = (
    "Okay, so the user wants a story. I should begin with the lighthouse, and then bring in the keeper. "
)
CZECH = (
    "Dobře, uživatel chce příběh. Měl bych začít majákem a potom přivést hlídače, který každý večer rozsvěcí "
    "lampu a počítá čluny vracející se do přístavu. Musím si dát pozor, aby odstavce nebyly příliš dlouhé. "
)
STRANGE = ("的", "この", "привет", "und", "ของ", "ştir", "\ufffd\ufffd", "الله", "%%@")


def salad(words: int, seed: int = 1) -> str:
    """Random letters and words of many scripts."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = (
        "".join(rng.choices(letters, k=rng.randint(3, 9))) if rng.random() < 0.6 else rng.choice(STRANGE)
        for _ in range(words)
    )
    return " ".join(made)


def judged(thought: str, answer: str, *, parsed: bool = True) -> GenerationVerdict:
    """The verdict on reasoning and answer, as a parser sends them or between tags."""
    spec = DetectorSpec("en")
    if not parsed:
        return detect_text(f"<think>{thought}</think>\n{answer}", spec, "length")
    reasoning = [Token(token.text, reasoning=True) for token in text_tokens(thought)]
    return detect_tokens([*reasoning, *text_tokens(answer)], spec, "length")


@pytest.mark.parametrize("parsed", [True, False])
@pytest.mark.parametrize("answer", ["", "Once upon a time there was a lighthouse by the sea."])
def test_gibberish_in_the_reasoning_is_found_there(parsed: bool, answer: str) -> None:
    """From its first words on, whether an answer comes or not; behind a sound answer, it has ended."""
    verdict = judged(THOUGHT * 3 + salad(200), answer, parsed=parsed)
    assert verdict.symptom is SymptomKind.GIBBERISH
    begun = len(text_tokens(THOUGHT * 3))
    assert verdict.onset is not None
    assert abs(verdict.onset - begun) <= 12
    [found] = [s for s in verdict.symptoms if s.kind is SymptomKind.GIBBERISH]
    assert answer == "" or found.end is not None


@pytest.mark.parametrize(
    "thought",
    [THOUGHT * 5, CZECH * 3, "用户想要一个故事。我应该从灯塔开始。" * 2, "Тут 3x + 2 = 11, x = 3. "],
)
def test_reasoning_in_any_language_is_none(thought: str) -> None:
    """A model may think in another language than it was asked to answer in."""
    verdict = judged(thought, story(4))
    assert [s for s in verdict.symptoms if s.kind is SymptomKind.GIBBERISH] == []


def test_each_part_counts_by_itself() -> None:
    """An answer of random letters after sound reasoning is dated in the answer."""
    verdict = judged(THOUGHT * 3, salad(200))
    begun = len(text_tokens(THOUGHT * 3))
    assert verdict.symptom is SymptomKind.GIBBERISH
    assert verdict.onset is not None
    assert begun < verdict.onset <= begun + 8
