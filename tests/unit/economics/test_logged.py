"""What a log's times say of their own unit."""

from __future__ import annotations

import pytest

from stresstest.economics.logged import clock_notes
from stresstest.model.cost import RequestSpan


@pytest.mark.parametrize(("unit", "told"), [(1.0, False), (1000.0, True)])
def test_times_in_milliseconds_are_told(unit: float, told: bool) -> None:
    """Times that begin at 0 may be in any unit: milliseconds made 48 hours of three minutes."""
    spans = [
        RequestSpan(id=str(n), submitted=unit * n, end=unit * (n + 6.0), output_tokens=120) for n in range(9)
    ]
    notes = clock_notes(spans)
    assert bool(notes) is told
    if told:
        assert notes[0].startswith("By the log's times, a typical request makes 0.02 tokens a second.")
