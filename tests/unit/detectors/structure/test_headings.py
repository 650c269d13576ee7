"""Headings that a task's pattern does not know: another word, huge numbers; and what only looks so."""

from __future__ import annotations

import re

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.structure.numbering import HeadingReader
from stresstest.detectors.structure.online import StructureDetector
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.tasks import load_task
from stresstest.unit_pattern import UnitPattern

PATTERN = r"(?i)^[#* ]*(?:Sezione|Paragrafo) (\d{1,6})(?!\d)"
BODY = "Il vecchio pescatore guardava il mare mentre scendeva la sera, senza dire una parola a nessuno."


def numbers(*heads: str) -> list[tuple[int, bool] | None]:
    """What is read of line heads in order: number and whether the word is new."""
    headings = HeadingReader(UnitPattern(PATTERN))
    read, last = [], None
    for head in heads:
        found = headings.parse_line(head, last)
        last = found.number if found else last
        read.append((found.number, found.renamed) if found else None)
    return read


def watch(*units: str, reason: str = "stop") -> list[Symptom]:
    """Structure symptoms of units, each a heading with or without a body."""
    feed = TextSegmenter()
    detector = StructureDetector(DetectorSpec(language="it", unit_pattern=PATTERN), feed)
    for piece in re.findall(r"\s*\w{1,5}|\s*\W", "\n\n".join(units)):
        feed.update(Token(piece))
        detector.update(Token(piece))
    detector.finish(reason)
    return detector.symptoms()


def test_the_units_word_in_another_language_is_the_units_heading() -> None:
    """ "Paragraph 3." in a story of "Paragrafo"s is read; only the change of the word is marked."""
    read = numbers(
        "Paragrafo 1. Era", "Paragrafo 2. Poi", "Paragraph 3. Then", "Paragraph 3.", "Paragrafo 4."
    )
    assert read == [(1, False), (2, False), (3, True), (3, False), (4, False)]


def test_a_heading_before_any_of_the_task_s_own_is_known_by_the_pattern_s_word() -> None:
    """A story that begins "Paragraphe 1." where the pattern spells "Paragrafo"."""
    assert numbers("Paragraphe 1. Le vieux", "Paragraph 3. Una") == [(1, True), (3, False)]


def test_a_number_that_no_counter_has_is_still_a_heading() -> None:
    """The pattern refuses nine digits, and the unit would go on for ever."""
    assert numbers("Paragrafo 12. Quando", "Paragrafo 133213332. La") == [(12, False), (133213332, False)]


def test_a_word_that_takes_the_numbering_over_is_followed_once_it_goes_on() -> None:
    """An unrelated word is believed when it continues the count twice."""
    read = numbers("Sezione 1. A", "Sezione 2. B", "Chapter 3. C", "Chapter 4. D", "Chapter 4. E")
    assert read == [(1, False), (2, False), None, (4, True), (4, False)]


@pytest.mark.parametrize(
    "heads",
    [
        ["Passo 1. Apri", "Passo 2. Chiudi", "Passo 3. Salva", "Passo 4. Esci"],
        ["Figura 3: il porto", "Tabella 4: i costi", "Articolo 12. Comma"],
        ["Figura 3: il porto"],
        ["Luglio 1998. Faceva caldo", "Luglio 1999. Pioveva"],
        ["Paragrafo tre. Era", "Nel 1998. Era"],
    ],
    ids=["steps", "captions", "one caption", "dates", "no numbers of units"],
)
def test_other_numbered_lines_are_no_units(heads: list[str]) -> None:
    """Steps, captions, articles and dates within a unit have words and counts of their own."""
    read = numbers("Paragrafo 1. Era", "Paragrafo 2. Poi", *heads, "Paragrafo 3. Infine")
    assert read == [(1, False), (2, False), *[None] * len(heads), (3, False)]


def test_numbering_that_falls_apart_under_another_word_is_a_break() -> None:
    """What an under-trained model writes: the word changes and the count skips and sticks."""
    units = [f"Paragrafo {n}. {BODY}" for n in (1, 2, 3)] + [f"Paragraph {n}. {BODY}" for n in (5, 5, 7)]
    found = [s for s in watch(*units) if s.confirmed]
    assert found[0].kind is SymptomKind.STRUCTURE_BREAK
    assert found[0].detail == {"event": "skip", "number": 5, "before": 3}


def test_one_renamed_heading_is_only_a_warning() -> None:
    """A single slip into another word, counted on in good order, is no failure."""
    names = ["Paragrafo"] * 4 + ["Paragraph"] + ["Paragrafo"] * 6
    (warning,) = watch(*(f"{name} {n}. {BODY}" for n, name in enumerate(names, 1)))
    assert (warning.confirmed, warning.detail["event"]) == (False, "renamed")
    assert warning.end is not None


@pytest.mark.parametrize("language", ["it", "en", "fr", "de", "es", "pt"])
def test_headings_of_the_shipped_tasks_are_read_as_before(language: str) -> None:
    """The shipped narrative's own headings give their numbers, whatever stands around them."""
    pattern = load_task("narrative").language(language).unit_pattern
    assert pattern is not None
    words = {"it": "Paragrafo", "en": "Paragraph", "fr": "Paragraphe", "de": "Absatz", "es": "Párrafo"}
    word = words.get(language, "Parágrafo")
    headings = HeadingReader(UnitPattern(pattern))
    for head in (f"{word} 7.", f"**{word} 7**", f"### {word} 7: X", "§ 7"):
        found = headings.parse_line(head, 6)
        assert found is not None
        assert (found.number, found.renamed) == (7, False)


def test_a_heading_whose_unit_was_never_written_ends_in_mid_structure() -> None:
    """The model ends by itself right after "Paragrafo 5.": truncation, at that heading."""
    units = [f"Paragrafo {n}. {BODY}" for n in range(1, 5)]
    (found,) = watch(*units, "Paragrafo 5.")
    assert (found.kind, found.confirmed) == (SymptomKind.TRUNCATION, True)
    assert watch(*units, "Paragrafo 5.", reason="length") == []
    assert watch(*units, "Paragrafo 5. Fine.") == []
    headings = watch(*(f"Paragrafo {n}." for n in range(1, 9)))
    assert [s.kind for s in headings if s.confirmed] == [SymptomKind.STRUCTURE_BREAK]


def test_units_whose_label_nothing_follows_were_not_filled_in() -> None:
    """Eight questions, each with an empty "Risposta:": the first one is the onset. One alone is a slip, and a
    label in a heading, or with its text on the next line, is none."""
    asked = [f"Sezione {n}. Di quale colore è il mare della costa {n}?" for n in range(1, 9)]
    (found,) = watch(*(f"{question}\n**Risposta:**" for question in asked))
    assert (found.kind, found.confirmed, found.end) == (SymptomKind.STRUCTURE_BREAK, True, None)
    assert found.detail == {"event": "unanswered", "number": 3, "before": None}
    onset = "".join(re.findall(r"\s*\w{1,5}|\s*\W", f"{asked[0]}\n**Risposta:**")[: found.onset])
    assert onset.endswith("?\n*")
    answers = [f"{question}\nRisposta: blu, come il cielo." for question in asked]
    assert watch(*answers[:3], f"{asked[3]}\nRisposta:", *answers[4:]) == []
    assert watch(*(f"Sezione {n}. Premessa:\n\n{BODY}" for n in range(1, 9))) == []
    assert watch(*(f"{question}\nRisposta:\n{BODY}" for question in asked)) == []
