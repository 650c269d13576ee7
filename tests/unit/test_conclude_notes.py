"""What a reader is told of a run's sample beside its number."""

from __future__ import annotations

from stresstest.model import RIGORS
from stresstest.threshold import certified_threshold
from stresstest.workflows.conclude import _sample_notes
from tests.unit.test_threshold_bound import sample


def test_a_limit_right_before_the_onsets_is_no_thin_sample() -> None:
    """T ends one token before the earliest of many onsets: that is where the model fails, and no onset by T
    is no absence of onsets."""
    rigor = RIGORS["quick"]
    failing = sample([*([None] * 30), *([90] * 30)], [121] * 60)
    threshold = certified_threshold(failing, rigor)
    assert (threshold.onsets, threshold.censored_at, threshold.tokens) == (0, None, 89)
    (note,) = _sample_notes(failing, threshold, 80)
    assert note == "A cap of 80 would have cut 30 of 30 healthy answers of this sample."
    calm = sample([None] * 30, [121] * 30)
    (note,) = _sample_notes(calm, certified_threshold(calm, rigor), 80)
    assert note.startswith(
        "No onset was seen: T is where the sample thins out (30 of 30 answers ran that long)"
    )
