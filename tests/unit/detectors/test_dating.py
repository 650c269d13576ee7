"""Where a proven failure began: it is looked back for, and sound text is never part of it."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.detectors.dating import OnsetDating
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Token


def dating(words: Sequence[tuple[str, float | None]], language: str | None) -> OnsetDating:
    """Of an answer of words with their log probabilities, a token each."""
    feed = TextSegmenter()
    made = OnsetDating(language, feed)
    tokens = [Token(text=f"{word} ", logprob=logprob) for word, logprob in words]
    made.add(tokens)
    for token in tokens:
        feed.update(token)
    return made


def test_what_never_made_sense_began_with_the_first_word() -> None:
    """Before the evidence is strong enough to accuse, the model was already surprised by every word."""
    assert dating([("word", -7.0)] * 40, "en").sense_lost(30) == 1


def test_sound_text_before_the_failure_is_not_part_of_it() -> None:
    """Words that the model was sure of use the head start up: the onset is where surprise began."""
    words = [("word", -1.0)] * 60 + [("word", -9.0)] * 40
    assert dating(words, "en").sense_lost(80) == 61
    assert dating(words, "en").sense_lost(61) == 61


def test_invented_words_lead_up_to_a_failure() -> None:
    """A word that the language does not have says more than the surprise that it was."""
    words = [
        ("segreramento", -4.0),
        ("viaggiolamento", -4.0),
        ("accremperare", -4.0),
        ("persofoco", -4.0),
    ] * 10
    assert dating(words, "it").sense_lost(30) == 1
    sound = [("la", -1.0), ("casa", -1.0), ("nella", -1.0), ("sera", -1.0)] * 10
    assert dating([*sound, *words], "it").sense_lost(60) == 41


def test_without_logprobs_nothing_is_dated_back() -> None:
    """Ordinary words say too little of sense: a drift at the tenth word of an answer began there."""
    words: list[tuple[str, float | None]] = [("segreramento", None), ("persofoco", None)] * 20
    assert dating(words, "it").sense_lost(30) == 30


def test_languages_without_blanks_are_not_dated_back() -> None:
    """A sentence without blanks would count as one surprising word."""
    assert dating([("言葉", -9.0)] * 40, "ja").sense_lost(30) == 30
