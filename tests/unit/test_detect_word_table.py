"""The table of words that `scan` looks at: whatever its size, a word's evidence is the lexicon's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors import word_table
from stresstest.detectors.features import features
from stresstest.detectors.word_table import WordTable

words = st.text(alphabet="abcdefgilmnoprstuvàèò", min_size=1, max_size=9)


@given(texts=st.lists(st.lists(words, min_size=1, max_size=60), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_table_that_grows_knows_what_a_large_one_knows(texts: list[list[str]]) -> None:
    """It begins small, since fifteen languages have fifteen tables, and loses nothing on the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_table, "_LEAST_BITS", 4)
        small = WordTable("it")
        patch.setattr(word_table, "_LEAST_BITS", 20)
        large = WordTable("it")
    for some in texts * 2:
        seen = features([" ".join(some)])
        ours, theirs = small(seen), large(seen)
        assert [ours[i].tolist() for i in range(3)] == [theirs[i].tolist() for i in range(3)]
