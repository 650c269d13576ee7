"""Structure breaks: numbering that fails and text that shrinks, against all that only looks like it."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors import judge_text
from stresstest.detectors.base import PanelSpec
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.structure import StructureDetector
from stresstest.model import Symptom, SymptomKind, Token

PATTERN = r"^[#* ]*Paragrafo (\d+)"
_SUBJECTS = ["Il vecchio pescatore", "La maestra del paese", "Un ragazzo silenzioso", "Sua sorella maggiore"]
_VERBS = [
    "camminava piano",
    "guardava il mare",
    "pensava al viaggio",
    "contava le barche",
    "leggeva una lettera",
]
_PLACES = ["lungo la riva del fiume", "davanti alla chiesa", "nella piazza vuota", "dietro il mulino"]
_ENDS = [
    "mentre scendeva la sera",
    "senza dire una parola",
    "come faceva ogni giorno",
    "con il cuore leggero",
]


def sentence(rng: random.Random) -> str:
    """One healthy sentence of about 70 characters."""
    return " ".join(rng.choice(words) for words in (_SUBJECTS, _VERBS, _PLACES, _ENDS)) + "."


def unit(number: int, rng: random.Random, sentences: int = 3) -> str:
    """One healthy numbered paragraph."""
    return f"Paragrafo {number}. " + " ".join(sentence(rng) for _ in range(sentences))


def story(numbers: list[int], seed: int = 1) -> str:
    """Healthy paragraphs under the given numbers."""
    rng = random.Random(seed)
    return "\n\n".join(unit(n, rng, 2 + rng.randrange(3)) for n in numbers)


def tokens(text: str) -> list[str]:
    """Pieces of about the size of a model's tokens."""
    return re.findall(r"\s*\w{1,5}|\s*\W", text)


def watch(
    text: str, *, pattern: str | None = PATTERN, units: int | None = None, reason: str | None = "stop"
) -> StructureDetector:
    """A detector that saw the whole text."""
    feed = TextFeed()
    detector = StructureDetector(PanelSpec(language="it", unit_pattern=pattern, units=units), feed)
    for piece in tokens(text):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
    detector.finish(reason)
    return detector


def confirmed(detector: StructureDetector) -> list[Symptom]:
    """The symptoms that prove something."""
    return [s for s in detector.symptoms() if s.confirmed]


def token_of(text: str, at: int) -> int:
    """1-based token that holds the character at `at`."""
    seen = 0
    for number, piece in enumerate(tokens(text), 1):
        seen += len(piece)
        if seen > at:
            return number
    raise AssertionError(at)


def heading(text: str, number: int, occurrence: int = 0) -> int:
    """First token of a unit's heading."""
    places = [m.start() for m in re.finditer(rf"Paragrafo {number}\.", text)]
    return token_of(text, places[occurrence])


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

    def findings(pieces: list[int]) -> tuple[StructureDetector, TextFeed]:
        feed = TextFeed()
        detector = StructureDetector(PanelSpec(unit_pattern=PATTERN), feed)
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
    feed = TextFeed()
    detector = StructureDetector(PanelSpec(unit_pattern=PATTERN), feed)
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
    spec = PanelSpec(language="en", unit_pattern=r"^Paragraph (\d+)")
    events = [s.detail.get("event") for s in judge_text(text, spec, "length").symptoms]
    assert "back" not in events
    went_on = [s.detail.get("event") for s in judge_text(text + ". Nobody spoke.\n\n", spec, "stop").symptoms]
    assert "back" in went_on
