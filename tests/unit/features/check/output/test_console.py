"""What the terminal says of a check beside its verdict."""

from __future__ import annotations

import pytest
from rich.console import Console

from stresstest.features.check.output.console import MORE_DATA, print_check
from stresstest.features.check.output.wording import check_headline
from stresstest.model import CheckVerdict, Comparison, ComparisonSide, Subject
from stresstest.model.comparison import Finding, FindingKind


@pytest.mark.parametrize("cut_short", [False, True])
def test_an_interrupted_check_is_advised_nothing_but_to_be_repeated(cut_short: bool) -> None:
    """A stricter rigor was advised to somebody who had pressed Ctrl-C."""
    side = ComparisonSide("m", Subject("m", "narrative", "it"))
    found = Comparison(side, side, 2000, 0.05, 0.05, CheckVerdict.INCONCLUSIVE, lacking="too few")
    console = Console(width=400)
    with console.capture() as shown:
        print_check(console, found, cut_short=cut_short)
    assert (MORE_DATA in shown.get()) is not cut_short


@pytest.mark.parametrize(
    ("verdict", "onsets", "survival", "told"),
    [
        (
            CheckVerdict.PASS,
            17,
            True,
            "3 of 92 degenerate in the baseline and 17 of 108 in the candidate (to fail",
        ),
        (CheckVerdict.PASS, 4, False, "3 of 92 degenerate in the baseline and 4 of 108 in the candidate."),
        (CheckVerdict.PASS, 2, False, None),
        (CheckVerdict.REGRESSION, 17, True, None),
    ],
)
def test_a_pass_says_what_it_leaves_out(
    verdict: CheckVerdict, onsets: int, survival: bool, told: str | None
) -> None:
    """Degenerate answers went from 3 to 16 %, after the 106 tokens that the test was about, and the headline
    said "Pass: 2 of 107 generations at risk degenerate"."""
    subject = Subject("m", "narrative", "it")
    before = ComparisonSide("a", subject, generations=92, onsets=3, threshold=106)
    now = ComparisonSide("b", subject, generations=108, onsets=onsets, at_risk=107, failed=2)
    findings = (Finding(FindingKind.SURVIVAL, "earlier"),) if survival else ()
    found = Comparison(before, now, 106, 0.05, 0.05, verdict, interval=(0.001, 0.06), findings=findings)
    said = check_headline(found)
    assert ("The test ends at T: over whole answers" in said) is (told is not None)
    assert told is None or told in said
