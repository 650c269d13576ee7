"""Structure breaks: numbering that fails and text that shrinks, against all that only looks like it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.structure.online import StructureDetector
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.model import Symptom, SymptomKind, Token
from tests.support.numbered_paragraphs import (
    _ENDS,
    _SUBJECTS,
    PATTERN,
    heading,
    sentence,
    story,
    token_of,
    tokens,
)


def watch(
    text: str, *, pattern: str | None = PATTERN, units: int | None = None, reason: str | None = "stop"
) -> StructureDetector:
    """A detector that saw the whole text."""
    feed = TextSegmenter()
    detector = StructureDetector(DetectorSpec(language="it", unit_pattern=pattern, units=units), feed)
    for piece in tokens(text):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
    detector.finish(reason)
    return detector


def confirmed(detector: StructureDetector) -> list[Symptom]:
    """The symptoms that prove something."""
    return [s for s in detector.symptoms() if s.confirmed]


@pytest.mark.parametrize(
    ("text", "pattern", "headings"),
    [
        ("Paragrafo 1. Una storia che fu tagliata prima che", PATTERN, 1),
        ("Una storia senza numeri.\n\nE la sua fine.", PATTERN, 0),
        ("Una storia senza numeri.", None, None),
    ],
)
def test_units_that_were_begun_are_counted(text: str, pattern: str | None, headings: int | None) -> None:
    """An answer that was cut in its first unit follows the numbering, although no unit is complete."""
    assert watch(text, pattern=pattern, reason="length").headings == headings


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_story_is_silent_and_counted(seed: int) -> None:
    """No symptom in good order; every unit counted; nothing left open after a chosen end."""
    detector = watch(story(list(range(1, 31)), seed))
    assert confirmed(detector) == []
    assert detector.units == 30
    assert detector.open_from is None


@pytest.mark.parametrize(
    ("numbers", "first_bad", "occurrence"),
    [
        ([*range(1, 14), 13, 13, 13], 13, 1),
        ([*range(1, 14), 14, 13, 14, 13], 13, 1),
        ([*range(1, 13), 14, 17, 18], 14, 0),
        ([*range(1, 13), 5, 6, 7, 8], 5, 1),
        ([*range(1, 13), 12, 13, 13, 14], 12, 1),
    ],
    ids=["sticks", "swings", "skips", "goes-back", "stumbles-twice"],
)
def test_numbering_that_fails_is_found_at_its_first_slip(
    numbers: list[int], first_bad: int, occurrence: int
) -> None:
    """Two slips within three units: confirmed, with the onset at the first offending heading."""
    text = story(numbers)
    found = confirmed(watch(text))
    assert found[0].kind is SymptomKind.STRUCTURE_BREAK
    assert found[0].onset == heading(text, first_bad, occurrence)
    assert found[0].alarm > found[0].onset


@pytest.mark.parametrize(
    "numbers",
    [
        [*range(1, 13), *range(14, 20)],
        [*range(1, 13), *range(12, 20)],
        [*range(1, 13), 3, *range(13, 20)],
        [*range(1, 13), 1998, *range(13, 20)],
    ],
    ids=["skip", "double", "stray-back", "stray-year"],
)
def test_one_slip_alone_is_only_a_warning(numbers: list[int]) -> None:
    """A single miscount in a healthy text is human: warned of, closed after units in good order."""
    (symptom,) = watch(story(numbers)).symptoms()
    assert not symptom.confirmed
    assert symptom.end is not None


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"Paragrafo {n}. La casa sul fiume" for n in range(1, 9)) + "\n\n" + story([*range(1, 9)]),
        story([*range(1, 9)]) + "\n\nFine.",
        "Ecco la storia richiesta:\n\n" + story([*range(1, 9)]).replace("Paragrafo", "**Paragrafo"),
        "\n\n".join(
            u + " Come detto nel Paragrafo 2. Era vero." for u in story([*range(1, 9)]).split("\n\n")
        ),
        story([*range(1, 9)]) + "\n\n" + story([1, 2, 3]),
    ],
    ids=["contents-first", "fine", "preface", "numbers-in-the-body", "summary-after-the-last"],
)
def test_legitimate_numbering_is_silent(text: str) -> None:
    """Contents, prefaces, numbers in running text and a summary after the last unit break nothing."""
    assert watch(text, units=8).symptoms() == []


def test_headings_without_bodies_break_the_structure() -> None:
    """A model that only goes on counting has stopped writing units."""
    text = story([*range(1, 9)]) + "".join(f"\n\nParagrafo {n}." for n in range(9, 14))
    assert confirmed(watch(text))[0].onset == heading(text, 9)


def test_units_that_collapse_are_dated_to_the_first_short_one() -> None:
    """Paragraphs under a third of the early ones, four in a row: compression."""
    text = story([*range(1, 11)]) + "".join(
        f"\n\nParagrafo {n}. Sorrise e se ne andò." for n in range(11, 17)
    )
    found = confirmed(watch(text))
    assert found[0].onset == heading(text, 11)
    assert found[0].detail["event"] in ("units", "sentences")


def test_sentences_that_lose_parts_are_dated_to_their_start() -> None:
    """Sentences far below every early one, over several units that still count right."""
    rng = random.Random(3)
    broken = "".join(
        f"\n\nParagrafo {n}. "
        + " ".join(f"{rng.choice(_SUBJECTS)} {rng.choice(_ENDS)[:8]}." for _ in range(3))
        for n in range(11, 15)
    )
    text = story([*range(1, 11)]) + broken
    found = confirmed(watch(text))
    assert found[0].onset == heading(text, 11)


def test_one_slip_beside_shrinking_sentences_confirms_both() -> None:
    """Neither proves alone; together they do, and the earlier gives the onset."""
    bodies = " Sorrise piano. Poi tornò. " + sentence(random.Random(1)) + " E rise."
    text = story([*range(1, 11)]) + f"\n\nParagrafo 11.{bodies}\n\nParagrafo 11.{bodies}"
    assert confirmed(watch(text))[0].onset == heading(text, 11)
    healthy = (
        story([*range(1, 11)]) + f"\n\nParagrafo 11.{bodies}\n\nParagrafo 12. {sentence(random.Random(2))}"
    )
    assert confirmed(watch(healthy)) == []


def test_a_dialogue_or_a_list_is_no_compression() -> None:
    """Short lines of speech and bullets have lengths of their own."""
    talk = "\n".join(f"— {w}." for w in ("Sì", "No", "Forse", "Domani", "Va bene", "Addio", "Mai", "Certo"))
    bullets = "\n".join(f"- {w}" for w in ("pane", "vino", "olio", "sale", "acqua", "miele", "uva", "noci"))
    text = story([*range(1, 9)]) + f"\n{talk}\n{bullets}\n\n" + story([*range(9, 14)], seed=2)
    assert confirmed(watch(text)) == []


def test_without_a_pattern_nothing_is_confirmed() -> None:
    """Free prose may change its pace: a warning at most, and no units."""
    rng = random.Random(4)
    text = (
        " ".join(sentence(rng) for _ in range(20))
        + " Sorrise. Pianse. Tornò. Dormì. Sognò. Rise. Partì. Morì."
    )
    detector = watch(text, pattern=None)
    assert detector.units is None
    assert [s.confirmed for s in detector.symptoms()] == [False]


def test_a_cut_text_is_open_from_its_unfinished_sentence() -> None:
    """The last unit of a text that hit the cap is not complete, its last sentence not judged."""
    text = story([*range(1, 9)]) + " Ed ecco che"
    detector = watch(text, reason="length")
    assert detector.units == 7
    assert detector.open_from == token_of(text, text.index("Ed ecco"))


def test_an_open_slip_holds_the_observed_part_back() -> None:
    """After one slip the text counts as healthy only up to it until three good units have passed."""
    text = story([*range(1, 9), 8, 9])
    assert watch(text, reason="length").open_from == heading(text, 8, 1)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=3, max_size=14),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
def test_the_cut_into_tokens_does_not_change_the_findings(numbers: list[int], sizes: list[int]) -> None:
    """The same text gives the same symptoms at the same characters, however it arrives."""
    text = story(numbers)

    def findings(pieces: list[int]) -> tuple[StructureDetector, TextSegmenter]:
        feed = TextSegmenter()
        detector = StructureDetector(DetectorSpec(unit_pattern=PATTERN), feed)
        at, turn = 0, 0
        while at < len(text):
            token = Token(text[at : at + pieces[turn % len(pieces)]])
            feed.update(token)
            detector.update(token)
            at, turn = at + len(token.text), turn + 1
        detector.finish("stop")
        return detector, feed

    (whole, _), (parts, feed) = findings([1]), findings(sizes)
    expected = [(feed.token_at(s.onset - 1), s.confirmed, s.detail["event"]) for s in whole.symptoms()]
    assert [(s.onset, s.confirmed, s.detail["event"]) for s in parts.symptoms()] == expected
    assert whole.units == parts.units


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=3, max_size=20))
def test_a_reported_onset_never_moves(numbers: list[int]) -> None:
    """The panel and the user see each onset once; confirmation may come later, a new date may not."""
    text = story(numbers)
    feed = TextSegmenter()
    detector = StructureDetector(DetectorSpec(unit_pattern=PATTERN), feed)
    seen: list[int] = []
    for piece in tokens(text):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
        now = [s.onset for s in detector.symptoms()]
        assert all(now.count(onset) >= seen.count(onset) for onset in seen)
        seen = now


def test_a_number_cut_by_the_cap_is_no_step_back() -> None:
    """An output that its cap cuts inside "Paragraph 430" ends in "Paragraph 4": no numbering went back."""
    bodies = (
        "The old keeper lit the lamp.",
        "Rain came over the hills.",
        "Nobody answered the door that night.",
    )
    units = [f"Paragraph {i}. {body}" for i, body in enumerate(bodies, start=427)]
    text = "\n\n".join(units) + "\n\nParagraph 4"
    spec = DetectorSpec(language="en", unit_pattern=r"^Paragraph (\d+)")
    events = [s.detail.get("event") for s in detect_text(text, spec, "length").symptoms]
    assert "back" not in events
    went_on = [
        s.detail.get("event") for s in detect_text(text + ". Nobody spoke.\n\n", spec, "stop").symptoms
    ]
    assert "back" in went_on


EVEN = [60, 70] * 8
"""Lengths of sentences that are proof when they are lost."""
UNEVEN = [30, 150] * 8
"""Lengths of which a loss proves nothing without a second sign."""
ODD = [15, 15, 15]


def sized(lengths: list[int], end: str = "") -> str:
    """A story in units of two sentences with these lengths."""
    cut = [("Parola" + " parola" * 40)[: n - 1].rsplit(" ", 1)[0].ljust(n - 1, "e") for n in lengths]
    said = [each + "." for each in cut]
    pairs = [" ".join(said[i : i + 2]) for i in range(0, len(said), 2)]
    return "\n\n".join(f"Paragrafo {n}. {body}" for n, body in enumerate(pairs, 1)) + end


@pytest.mark.parametrize(
    ("text", "reason", "doubt"),
    [
        (sized([*UNEVEN, *ODD]), "stop", False),
        (sized([*UNEVEN, *ODD]), "length", True),
        (sized([*UNEVEN, *ODD], " E poi"), "stop", True),
        (sized([*EVEN, *ODD]), "stop", True),
        (sized([*EVEN, *ODD, 65, 65, 65, 65]), "stop", False),
        (story([1, 2, 3, 4, 5, 6, 7, 9]), "stop", True),
    ],
    ids=[
        "uneven",
        "uneven, cut",
        "uneven, unfinished",
        "even, to the end",
        "even, passed",
        "a slip at the end",
    ],
)
def test_what_could_not_prove_itself_is_over_with_an_orderly_end(text: str, reason: str, doubt: bool) -> None:
    """An answer that ended in good order stays in doubt only where more of the same would have been proof, or
    where the numbering is not in order."""
    (warning,) = watch(text, reason=reason).symptoms()
    assert not warning.confirmed
    assert (warning.end is None) is doubt


@pytest.mark.parametrize("reached", [3, 8, 9, 14])
def test_more_or_fewer_units_than_were_asked_for_are_no_break(reached: int) -> None:
    """A short answer is counted as short; one that goes on in good order wastes tokens and makes sense."""
    text = story(list(range(1, reached + 1)))
    assert not confirmed(watch(text, units=8))


@pytest.mark.parametrize("before", [0, 2])
def test_headings_with_nothing_under_them_are_a_break_from_the_first_on(before: int) -> None:
    """An empty unit may be a slip; three in a row count and say nothing. Titles are a table of contents."""
    lead = story(list(range(1, before + 1)))
    numbers = range(before + 1, before + 8)
    text = f"{lead}\n\n" + "\n\n".join(f"Paragrafo {n}." for n in numbers)
    first = confirmed(watch(text))[0]
    assert first.onset == token_of(text, text.index(f"Paragrafo {before + 1}."))
    titles = "\n\n".join(f"Paragrafo {n}. La {_SUBJECTS[n % 4]}" for n in numbers)
    assert not confirmed(watch(f"{titles}\n\n{story(list(range(1, 8)))}", units=before + 7))


@given(st.sampled_from([", ", " ", "\n", "; ", ". "]), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_counting_without_content_is_a_break_where_units_of_prose_were_asked_for(
    by: str, before: int
) -> None:
    """Figures after figures are an answer to some requests, and to none for a story."""
    counting = by.join(str(n) for n in range(1, 120))
    text = f"{story(list(range(1, before + 1)))}\n\n{counting}"
    found = [s for s in confirmed(watch(text, reason="length")) if s.detail["event"] == "counting"]
    assert [s.onset for s in found] == [token_of(text, text.rindex(counting))]
    assert not confirmed(watch(text, pattern=None, reason="length"))


def test_figures_in_prose_are_no_counting() -> None:
    """Dates, sums, a short table."""
    table = "\n".join(f"| {n} | 2026 | {n}0,5 |" for n in range(1, 9))
    text = f"{story([1, 2])}\n\nNel 1914, nel 1918 e nel 1939:\n\n{table}\n\n{story([3, 4])}"
    assert not confirmed(watch(text))
