"""Counts of headings that nobody described: kept for long and then lost, and all the ways in which healthy
texts number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.structure.inferred import KEPT, InferredCounts
from stresstest.detectors.suite import detect_text
from stresstest.model import SymptomKind
from tests.support.stories import story

LOST = [12, 12, 17, 17, 16, 16, 17, 14]
"""As the simulated structure break writes on, after a Mistral that loses its place."""


def numbered(numbers: list[int], form: str = "Paragraph {}.") -> str:
    parts = story(len(numbers)).split("\n\n")
    bodies = (part.partition(". ")[2] for part in parts)
    return "\n\n".join(f"{form.format(n)} {body}" for n, body in zip(numbers, bodies, strict=True))


def is_lost(numbers: list[int]) -> bool:
    counts = InferredCounts()
    return any(counts.add(f"Step {number}:", at) for at, number in enumerate(numbers))


@pytest.mark.parametrize("form", ["Paragraph {}.", "**Step {}:**", "## Chapitre {}\n", "- Kapitel {}) "])
def test_a_lost_count_is_a_structure_break(form: str) -> None:
    """Online and from a log, without a unit pattern; the onset is the first heading that sticks."""
    numbers = [*range(1, 13), *LOST]
    text = numbered(numbers, form)
    spec = DetectorSpec(None, prompt_text="Write a long text.")
    found = detect_text(text, spec, "length")
    assert found.symptom is SymptomKind.STRUCTURE_BREAK
    (recorded,) = detect_many([RecordedText(text, spec, "length")])
    assert recorded.onset == found.onset
    assert found.onset is not None
    kept = detect_text(numbered(numbers[:12], form), spec, "stop")
    assert not kept.degenerate
    assert abs(found.onset - kept.tokens) < 8


@pytest.mark.parametrize(
    "numbers",
    [
        [*range(1, 31)],
        [*range(1, 11), *range(1, 11), *range(1, 11)],
        [n for n in range(1, 15) for _ in range(2)],
        [*range(1, 9), *[n for n in range(9, 15) for _ in range(2)]],
        [*range(1, 11), 7, 3, 5, 2, 9],
        [*range(1, 11), 12, 15, 20, 30, 50],
        [*range(20, 0, -1)],
        [*range(1, 12), 11, 12, 13, 14, 15, 14, 15, 16, 17],
        [n for start in (1, 8, 15) for n in range(start, start + 7)],
    ],
    ids=[
        "plain",
        "each week",
        "twice a day",
        "later twice",
        "review",
        "skips",
        "countdown",
        "slips",
        "weeks",
    ],
)
def test_healthy_numbering_is_kept(numbers: list[int]) -> None:
    """Restarts, pairs, reviews, skips and single slips are what people write."""
    assert not is_lost(numbers)


def test_one_number_again_and_again_is_lost() -> None:
    """Stuck without going back: two headings may share a number, five do not."""
    assert is_lost([*range(1, 20), 19, 19, 19, 19])
    assert not is_lost([*range(1, 20), 19, 19, 20, 21])


@given(st.lists(st.integers(1, 6), max_size=200))
def test_a_count_that_was_never_kept_is_never_lost(numbers: list[int]) -> None:
    """Players, teams and tables come in any order."""
    assert KEPT > 6
    assert not is_lost(numbers)


@given(st.integers(KEPT, 60), st.integers(0, 30))
def test_a_count_in_order_is_never_lost(length: int, start: int) -> None:
    """Wherever it begins."""
    assert not is_lost([*range(start, start + length)])
