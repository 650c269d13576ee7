"""What the terminal says of a check beside its verdict."""

from __future__ import annotations

import pytest
from rich.console import Console

from stresstest.features.check.console import MORE_DATA, print_check
from stresstest.model import CheckVerdict, Comparison, ComparisonSide, Subject


@pytest.mark.parametrize("cut_short", [False, True])
def test_an_interrupted_check_is_advised_nothing_but_to_be_repeated(cut_short: bool) -> None:
    """A stricter rigor was advised to somebody who had pressed Ctrl-C."""
    side = ComparisonSide("m", Subject("m", "narrative", "it"))
    found = Comparison(side, side, 2000, 0.05, 0.05, CheckVerdict.INCONCLUSIVE, lacking="too few")
    console = Console(width=400)
    with console.capture() as shown:
        print_check(console, found, cut_short=cut_short)
    assert (MORE_DATA in shown.get()) is not cut_short
