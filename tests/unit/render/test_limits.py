"""The cell of a table for a safe max_tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.model import Threshold
from stresstest.render.limits import safe_words

CERTIFIED = Threshold(0.1, 0.9, 1000, 38, 0, 0.06, certified=True)


@pytest.mark.parametrize(
    ("threshold", "safe", "cell"),
    [
        (CERTIFIED, 900, "900"),
        (replace(CERTIFIED, withheld="it would cut most"), None, "no cap"),
        (replace(CERTIFIED, withheld="no room", unfit=True), None, "unfit"),
        (Threshold(0.1, 0.9, lacking="too few"), None, "–"),
        (None, None, "–"),
    ],
)
def test_no_cap_is_not_the_same_as_nothing_certified(
    threshold: Threshold | None, safe: int | None, cell: str
) -> None:
    """A dash stood for both: for a model that needs no cap, and for one of which nothing is known."""
    assert safe_words(threshold, safe) == cell
