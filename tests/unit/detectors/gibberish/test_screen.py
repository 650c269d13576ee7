"""The table of words that `scan` looks at: whatever its size, a word's evidence is the lexicon's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.gibberish import screen
from stresstest.detectors.gibberish.screen import WordEvidenceTable
from stresstest.detectors.text.features import extract_features

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
