"""`repetition_detection` stops exactly where vLLM does."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from stresstest.simulation.engine.request import RepetitionDetection
from stresstest.simulation.engine.stopping import RepetitionStop


def _plainly(ids: Sequence[int], settings: RepetitionDetection) -> bool:
    """The definition, written down: some size's last `min_count` windows are equal."""
    if settings.max_pattern_size <= 0 or settings.min_count < 2:
        return False
    for size in range(max(1, settings.min_pattern_size), settings.max_pattern_size + 1):
        if size * settings.min_count <= len(ids):
            tail = list(ids[-size * settings.min_count :])
            windows = {tuple(tail[i : i + size]) for i in range(0, len(tail), size)}
            if len(windows) == 1:
                return True
    return False


def _stops(ids: Sequence[int], settings: RepetitionDetection) -> list[bool]:
    watch = RepetitionStop(settings)
    return [watch.update(token) for token in ids]


_SETTINGS = st.builds(
    RepetitionDetection,
    max_pattern_size=st.integers(0, 9),
    min_pattern_size=st.integers(0, 4),
    min_count=st.integers(0, 5),
)


@given(
    parts=st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 5)), max_size=6
    ),
    settings=_SETTINGS,
)
def test_agrees_with_the_definition_after_every_token(
    parts: list[tuple[list[int], int]], settings: RepetitionDetection
) -> None:
    """The online counters say what a comparison of the whole tail says, at every position."""
    ids = [token for pattern, times in parts for token in pattern * times]
    assert _stops(ids, settings) == [_plainly(ids[:end], settings) for end in range(1, len(ids) + 1)]


def test_first_stop_is_at_the_end_of_the_last_copy_asked_for() -> None:
    """Three copies of a 20-token pattern stop at the third one's last token, not a token later."""
    ids = [900, *list(range(20)) * 4]
    assert _stops(ids, RepetitionDetection(32, 4, 3)).index(True) == 60


def test_a_longer_pattern_than_the_maximum_is_invisible() -> None:
    """vLLM sees no repetition of a pattern longer than `max_pattern_size`."""
    assert not any(_stops(list(range(50)) * 10, RepetitionDetection(49, 1, 3)))


def test_a_frequent_token_costs_no_memory_without_end() -> None:
    """One token repeated for long stays detected while old places are forgotten."""
    assert all(_stops([5] * 1_000, RepetitionDetection(4, 1, 3))[2:])
