"""Tokens drawn at random from a vocabulary, and what only looks like them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.novelty import is_list
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import DetectorSuite, detect_text
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import SymptomKind, Token
from tests.support.paths import DATA
from tests.support.stories import story

VOCABULARY: list[str] = json.loads((DATA / "vocabulary.json").read_text(encoding="utf-8"))
"""2,500 of the 49,152 tokens of SmolLM2 (Apache-2.0), without those that are parts of characters."""
HEALTHY = "The village lies on a hill above the river, and the mill opens its doors to visitors in spring. "
BEFORE = {
    "prose": HEALTHY,
    "an open block of code": f"{HEALTHY}\n\n```python\ndef area(width, height):\n    return width * height\n",
    "code without a fence": "def area(width, height):\n    return width * height\n\ndef half(size):\n",
    "a table": f"{HEALTHY}\n\n| name | city |\n|---|---|\n| Ada | Rome |\n| Otto |",
}


def drawn(seed: int, tokens: int = 300) -> str:
    """Each once: in a whole vocabulary, hardly one comes twice."""
    return "".join(random.Random(seed).sample(VOCABULARY, tokens))


@pytest.mark.parametrize("before", BEFORE)
def test_tokens_drawn_at_random_are_gibberish_wherever_they_stand(before: str) -> None:
    """A third of a vocabulary is pieces of code, whose signs and names weighed against gibberish: 600 tokens
    of GPT-4's were found in nine of twenty texts, and in code in none."""
    lead = BEFORE[before]
    found = 0
    for seed in range(20):
        verdict = detect_text(lead + drawn(seed), DetectorSpec("en"), "length")
        assert detect_recorded(lead + drawn(seed), DetectorSpec("en"), "length").onset == verdict.onset
        if verdict.symptom is SymptomKind.GIBBERISH:
            begins = len(text_tokens(lead))
            found += begins - 25 <= (verdict.onset or 0) <= begins + 60
    assert found >= 18


def test_keys_have_a_digit_somewhere() -> None:
    """Each letter was looked at for every one before it: 120,000 without a digit or a blank took minutes."""
    for key, listed in (("A" * 80 + "/" + "b" * 80, False), ("A" * 80 + "/7" + "b" * 80, True)):
        assert is_list(HEALTHY * 3 + key) is listed


def test_they_are_found_in_reasoning_too() -> None:
    """Where neither language nor grammar is judged."""
    thought = "Okay, the user wants a plan. Let me think about what they need first. "
    suite = DetectorSuite(DetectorSpec("en"))
    for token in text_tokens(thought + drawn(3)):
        suite.update(Token(token.text, reasoning=True))
    assert suite.finish("length").symptom is SymptomKind.GIBBERISH


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_an_answer_that_falls_into_them_is_found_within_200_tokens(seed: int) -> None:
    """And not before: the text that leads into it is healthy."""
    lead = story(3, seed=seed)
    assert not detect_text(lead, DetectorSpec("en"), "length").degenerate
    verdict = detect_text(lead + " " + drawn(seed, 400), DetectorSpec("en"), "length")
    assert verdict.symptom is SymptomKind.GIBBERISH
    assert verdict.onset is not None
    assert verdict.onset >= len(text_tokens(lead)) - 25


WORDS = [
    token.strip() for token in VOCABULARY if token[:1] == " " and token[1:].islower() and len(token) > 6
][:60]
LATIN = (
    "Escherichia coli, Staphylococcus aureus, Bacillus subtilis, Quercus robur, Fagus sylvatica, "
    "Acer campestre, Betula pendula, Salix alba, Tilia cordata, Fraxinus excelsior, Ulmus glabra, "
    "Rosa canina, Carpinus betulus, Corylus avellana, Prunus spinosa, Crataegus monogyna, Taxus baccata, "
    "Juniperus communis, Pinus sylvestris, Picea abies, Larix decidua, Ilex aquifolium, Hedera helix"
)
LISTS = {
    "words without signs": " ".join(WORDS),
    "words with commas": ", ".join(WORDS),
    "one a line": "\n".join(f"- {word}" for word in WORDS),
    "quoted": "WORDS = [" + ", ".join(f'"{word}"' for word in WORDS) + "]",
    "of two": "; ".join(" ".join(WORDS[at : at + 2]) for at in range(0, len(WORDS), 2)),
    "a table": "\n".join(
        f"| {WORDS[at]} {WORDS[at + 1]} | {WORDS[at + 2]} |" for at in range(0, len(WORDS) - 2, 3)
    ),
    "attributes of styles": "NAMES = 'animationIterationCount aspectRatio borderImageOutset borderImageSlice "
    "borderImageWidth boxFlex boxFlexGroup boxOrdinalGroup columnCount columns flexGrow "
    "flexPositive flexShrink "
    "flexNegative flexOrder gridArea gridRow gridRowEnd gridRowSpan gridRowStart gridColumn gridColumnEnd "
    "lineClamp lineHeight opacity orphans scale tabSize widows zIndex zoom fillOpacity "
    "floodOpacity stopOpacity "
    "strokeDasharray strokeDashoffset strokeMiterlimit strokeOpacity strokeWidth MozAnimation msFlexAlign'"
    ".split(' ')",
    "species": LATIN,
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("fenced", [False, True])
def test_lists_of_words_are_not_drawn_at_random(kind: str, fenced: bool) -> None:
    """Each word comes once in them, as it should."""
    text = f"{HEALTHY}\n\n```\n{LISTS[kind]}\n```\n" if fenced else f"{HEALTHY}\n\n{LISTS[kind]}\n"
    found = detect_text(text, DetectorSpec("en"), "stop").symptoms
    assert [each.summary for each in found if each.detail.get("by") == "novelty"] == []
