"""What `scan` looks at before it runs the detector: the table of words, and marks of a broken text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.gibberish import screen
from stresstest.detectors.gibberish.screen import WordEvidenceTable
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.features import extract_features
from stresstest.model import SymptomKind
from tests.support.stories import story

words = st.text(alphabet="abcdefgilmnoprstuvàèò", min_size=1, max_size=9)


@pytest.mark.slow
@given(texts=st.lists(st.lists(words, min_size=1, max_size=60), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_table_that_grows_knows_what_a_large_one_knows(texts: list[list[str]]) -> None:
    """It begins small, since fifteen languages have fifteen tables, and loses nothing on the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "_LEAST_BITS", 4)
        small = WordEvidenceTable("it")
        patch.setattr(screen, "_LEAST_BITS", 20)
        large = WordEvidenceTable("it")
    for some in texts * 2:
        seen = extract_features([" ".join(some)])
        ours, theirs = small(seen), large(seen)
        assert [ours[i].tolist() for i in range(3)] == [theirs[i].tolist() for i in range(3)]


@pytest.mark.parametrize(
    "mark",
    [
        *(
            "\ufffd",
            "Ã©",
            "â€™",
            "â\x80\x99",
            "Ð´",
            "\x81",
        ),  # "’" is the third or the fourth, by how it is decoded
        *("<reserved_special_token_5>", "<dummy_3>", "<Unused7>", "[pad4]", "<|placeholder_9|>", "<0xE2>"),
    ],
)
def test_a_text_full_of_broken_characters_never_passes(mark: str) -> None:
    """The screen knows every mark that the detector counts: text that was decoded as Latin-1, or the unused
    tokens of a vocabulary, passed in `scan` and failed in `run`."""
    text = story(2) + " " + " ".join(f"the keeper{mark}s light {mark}" for _ in range(12)) + story(2, seed=3)
    for detect in (detect_text, detect_recorded):
        found = detect(text, DetectorSpec("en"), "length")
        assert SymptomKind.GIBBERISH in {each.kind for each in found.symptoms if each.confirmed}
