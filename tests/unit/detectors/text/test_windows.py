"""Array operations over words: what recurs, and where it occurred last, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.text import windows
from stresstest.detectors.text.windows import NO_EARLIER, distance_to_previous, repeated_runs

HASHES = st.lists(
    st.sampled_from([7, 7 << 48, (7 << 48) + 1, (1 << 64) - 1, *range(1000, 1012)]), max_size=60
)
"""Few different ones; some agree in most of their bits."""


@pytest.mark.parametrize("most", [0, 1 << 16])
@given(hashes=HASHES, gram=st.integers(1, 5))
def test_what_recurs_is_found_with_its_last_place(most: int, hashes: list[int], gram: int) -> None:
    """By radix and by comparison alike: every run that occurred before, and the nearest place of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_MOST_BY_RADIX", most)
        at, source = repeated_runs(np.array(hashes, np.uint64), gram)
    expected = {}
    last: dict[tuple[int, ...], int] = {}
    for n in range(len(hashes) - gram + 1):
        run = tuple(hashes[n : n + gram])
        if run in last:
            expected[n] = last[run]
        last[run] = n
    assert dict(zip(at.tolist(), source.tolist(), strict=True)) == (expected if len(hashes) > gram else {})


@pytest.mark.parametrize("most", [0, 1 << 16])
@given(texts=st.lists(HASHES, min_size=1, max_size=4))
def test_distances_stay_within_a_text(most: int, texts: list[list[int]]) -> None:
    """The last occurrence of each word in its own text; a fence and a first occurrence have none."""
    words, fences, expected = [], [], []
    for number, text in enumerate(texts):
        last: dict[int, int] = {}
        for n, word in enumerate(text):
            expected.append(n - last[word] if word in last else NO_EARLIER)
            last[word] = n
        words += [*text, (1 << 60) + number]
        fences.append(len(words) - 1)
        expected.append(NO_EARLIER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_MOST_BY_RADIX", most)
        found = distance_to_previous(np.array(words, np.uint64), np.array(fences))
    assert found.tolist() == expected
