"""Word forms: what is listed is always found, and hardly anything else is."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish.word_evidence import trigrams
from stresstest.detectors.languages.word_forms import (
    MIN_LETTERS,
    WordForms,
    fold,
    languages_with_forms,
    word_forms,
)
from stresstest.detectors.suite import detect_text


@given(st.sets(st.text(st.characters(categories=["L"]), min_size=1, max_size=20), max_size=60))
def test_a_listed_form_is_found(words: set[str]) -> None:
    """A word taken for an invented one accuses a healthy text; the filter errs to the other side only."""
    forms = WordForms.of(words)
    assert all(fold(word) in forms for word in words if len(fold(word)) >= MIN_LETTERS)
    assert all(fold(word) in WordForms(forms.data) for word in words if len(fold(word)) >= MIN_LETTERS)


def test_a_form_that_is_not_listed_is_hardly_ever_found() -> None:
    """One in 45 is missed as an invented word, not more."""
    forms = WordForms.of(f"word{n}" for n in range(4_000))
    assert sum(f"other{n}" in forms for n in range(4_000)) < 160


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("it", "perché società biblioteca scrissero portandogli PAESE più"),
        ("fr", "cœur élève marchions sœur bibliothèques naïve"),
        ("en", "harbour harbor wandering bibliographies café"),
    ],
)
def test_the_languages_of_the_tasks_know_their_words(language: str, words: str) -> None:
    """With and without accents, inflected; random letters are no words."""
    forms = word_forms(language)
    assert forms is not None
    assert all(fold(word) in forms for word in words.split() if len(word) >= MIN_LETTERS)
    rng = random.Random(5)
    strange = ["".join(rng.choices(string.ascii_lowercase, k=9)) for _ in range(500)]
    assert sum(word in forms for word in strange) <= 25


def test_the_languages_are_those_that_have_a_file() -> None:
    """A language without one is judged by its letters and its grammar alone."""
    assert set(languages_with_forms()) >= {"en", "fr", "it"}
    assert word_forms("xx") is None


@pytest.mark.parametrize("language", ["/etc/passwd", "../../it", "x" * 5000, "..", "", "a\0b", "\x1b[31m"])
def test_a_language_is_no_path(language: str) -> None:
    """A language may come from a store or a settings file that somebody else wrote: it opens no file, and
    unknown ones are judged without what is known of a language."""
    text = " ".join(f"The miller number {n} walks home and says nothing more." for n in range(30))
    assert word_forms(language) is None
    assert trigrams(language) == {}
    detect_text(text, DetectorSpec(language=language))
