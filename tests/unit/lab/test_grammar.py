"""The lab's oracle must be right before anything is judged by it."""

from __future__ import annotations

import random

import pytest

from tests.lab.grammar import LANGUAGES, MIN_SENTENCE_CHARS, TASKS, StoryWriter, numbered
from tests.lab.parser import parse, token_index_of_char, true_onset


def story(language: str, task: str, units: int, seed: int = 1) -> list[str]:
    """Unit bodies of a sampled text."""
    return StoryWriter(language, task, random.Random(seed)).units(units)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_sampled_texts_parse_without_a_fault(language: str, task: str) -> None:
    """Whatever the sampler writes the parser accepts: else a healthy model would look sick.
    Every sentence is long enough for a language detector, and none returns within a story."""
    for seed in range(20):
        report = parse(numbered(language, task, story(language, task, 20, seed)), language, task, ended=True)
        texts = [s.text for s in report.sentences]
        assert report.reasons() == {}
        assert report.onset is None
        assert min(map(len, texts)) >= MIN_SENTENCE_CHARS
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_unnumbered_prose_is_healthy_and_a_late_label_is_not(language: str) -> None:
    """The open prompt asks for prose without numbers: no numbering is expected there."""
    bodies = story(language, "narrative", 8)
    assert true_onset("\n\n".join(bodies), language, "narrative") is None
    labelled = "\n\n".join([*bodies[:5], numbered(language, "narrative", bodies[5:])])
    onset = true_onset(labelled, language, "narrative")
    assert onset is not None
    assert onset.reason == "numbering"
    assert onset.char == labelled.index(bodies[4]) + len(bodies[4]) + 2


def test_another_language_is_found_at_its_first_sentence() -> None:
    """A model that drifts into English speaks well-formed English: only the language is wrong."""
    italian, english = story("it", "narrative", 10), story("en", "narrative", 4)
    text = numbered("it", "narrative", [*italian[:6], *english, *italian[6:]])
    onset = true_onset(text, "it", "narrative")
    assert onset is not None
    assert (onset.reason, onset.unit) == ("language", 7)
    assert text[onset.char :].startswith("Paragrafo 7. " + english[0])


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_that_lose_words_are_malformed(language: str) -> None:
    """Past its limit the lab model compresses sentences; a lost word must not parse."""
    bodies = story(language, "narrative", 9)
    broken = [" ".join(w for i, w in enumerate(b.split()) if i % 6 != 2) for b in bodies[6:]]
    text = numbered(language, "narrative", bodies[:6] + broken)
    onset = true_onset(text, language, "narrative")
    assert onset is not None
    assert (onset.reason, onset.unit) == ("malformed", 7)


def test_one_or_two_bad_sentences_are_a_warning_not_an_onset() -> None:
    """The definition asks for 3 of 5: a single slip in a healthy story is no collapse."""
    bodies = story("en", "narrative", 8)
    bodies[3] = "The the baker was slept. " + bodies[3]
    report = parse(numbered("en", "narrative", bodies), "en", "narrative")
    assert report.reasons() == {"malformed": 1}
    assert report.onset is None


def test_stuck_numbers_are_found_at_the_first_repeated_number() -> None:
    """The numbers "13 … 13 … 13": the sentences stay healthy, the numbering does not."""
    bodies = story("it", "narrative", 8)
    text = numbered("it", "narrative", bodies[:5]) + "".join(f"\n\nParagrafo 5. {b}" for b in bodies[5:])
    onset = true_onset(text, "it", "narrative")
    assert onset is not None
    assert onset.reason == "numbering"
    assert onset.char == text.index("Paragrafo 5. " + bodies[5])


def test_a_text_cut_from_the_middle_may_start_at_any_number() -> None:
    """The context arm of a diagnosis continues from paragraph k: that is no fault of the text."""
    text = numbered("fr", "narrative", story("fr", "narrative", 6), first=17)
    assert set(parse(text, "fr", "narrative").reasons()) == {"numbering"}
    assert parse(text, "fr", "narrative", first=None).reasons() == {}


def test_repeated_paragraphs_are_found_at_the_second_copy() -> None:
    """The onset of a loop is its second copy; the first is legitimate text. The copy is found
    though its numbers count on, and however far back it lies."""
    bodies = story("en", "narrative", 12)
    text = numbered("en", "narrative", bodies + bodies[2:5])
    onset = true_onset(text, "en", "narrative")
    assert onset is not None
    assert (onset.reason, onset.unit) == ("repeat", 13)


def test_one_sentence_over_and_over_is_a_repeat_from_its_second_time() -> None:
    """The tightest loop has a period of one sentence."""
    bodies = story("fr", "narrative", 4)
    looped = StoryWriter("fr", "narrative", random.Random(9)).sentence()
    text = numbered("fr", "narrative", [*bodies, " ".join([looped] * 6)])
    onset = true_onset(text, "fr", "narrative")
    assert onset is not None
    assert onset.reason == "repeat"
    assert onset.char == text.index(looped) + len(looped) + 1


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_last_sentence_cut_by_the_cap_is_no_failure(cut: int) -> None:
    """Reaching the cap is no symptom, wherever in a sentence, a label or a number it falls."""
    text = numbered("it", "narrative", story("it", "narrative", 6))[:-cut]
    report = parse(text, "it", "narrative")
    assert report.reasons() == {}


def test_ending_in_mid_sentence_is_truncation() -> None:
    """The same cut is the model's own fault when it ended by itself."""
    text = numbered("it", "technical", story("it", "technical", 6))[:-30]
    onset = true_onset(text, "it", "technical", ended=True)
    assert onset is not None
    assert onset.reason == "truncation"


def test_a_sentence_that_never_ends_is_a_failure_before_its_full_stop() -> None:
    """A run like "in the end of the end of …" has no full stop: waiting for one would hide the collapse."""
    bodies = story("en", "narrative", 5)
    text = numbered("en", "narrative", bodies) + "\n\nParagraph 6. In the end" + " of the end" * 60
    onset = true_onset(text, "en", "narrative")
    assert onset is not None
    assert (onset.reason, onset.unit) == ("malformed", 6)


def test_tokens_are_counted_from_one() -> None:
    """Onsets are 1-based token indices; a character inside a token belongs to that token."""
    tokens = ["Par", "", "agrafo", " 1", "."]
    assert [token_index_of_char(tokens, c) for c in (0, 2, 3, 9, 11)] == [1, 1, 3, 4, 5]
    with pytest.raises(IndexError):
        token_index_of_char(tokens, 12)


def test_the_parser_judges_a_long_broken_text_to_its_end() -> None:
    """A 4,000-token text, a third of it broken: every sentence of it gets a verdict."""
    bodies = story("it", "narrative", 60)
    broken = [b.replace(" la ", " ") for b in story("it", "narrative", 30, seed=2)]
    text = numbered("it", "narrative", bodies + broken)
    report = parse(text, "it", "narrative")
    assert report.onset is not None
    assert report.sentences[-1].end == len(text)
    assert len(report.sentences) == text.count(".") - text.count("Paragrafo ")
