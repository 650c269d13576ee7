"""The last sentence of a cost: what it comes to, and what to do."""

from __future__ import annotations

import pytest

from stresstest.economics.optimum import CapOptimum, CostPoint
from stresstest.features.cost.markdown import cost_markdown
from stresstest.features.cost.wording import conclusion
from stresstest.model.cost import Cost, CostRatio

_POINT = CostPoint(550, 600.0, 0.9)
_LARGEST = CostPoint(8_000, 900.0, 0.95)
CHEAPEST = CapOptimum(550, 500, 600, _POINT, _LARGEST, (_POINT, _LARGEST), 160, 150, 6)
MEASURED = Cost(
    requests=160,
    degenerate=6,
    share_of_time=0.36,
    healthy_slowdown=CostRatio(1.32, 1.2, 1.45, 8),
    labels={"share_of_time": "measured"},
)


@pytest.mark.parametrize(
    ("cost", "best", "sentence"),
    [
        (
            MEASURED,
            CHEAPEST,
            "Loops cost 36 % of the observed time (measured) and make healthy requests take 32 % longer. "
            "To reduce that: set max_tokens to 550, the cheapest cap for these requests (modelled); "
            "stresstest run certifies a safe one.",
        ),
        (
            Cost(requests=160, degenerate=6),
            None,
            "6 of 160 requests degenerate; the time they cost was not measured. To reduce that: "
            "stresstest run certifies a max_tokens, and stresstest guard ends loops early.",
        ),
        (Cost(requests=9, degenerate=0), None, "No request degenerates, so there is no cost to reduce."),
        (
            Cost(requests=120, degenerate=0, rate=CostRatio(0.0, 0.0, 0.03, 100)),
            None,
            "What loops cost is not known: of 20 of 120 requests not all was seen.",
        ),
        (Cost(requests=9), None, "The log has no text, so whether loops cost anything is not known"),
        (Cost(requests=9, degenerate=1, share_of_time=0.001), CHEAPEST, "less than 1 % of the observed time"),
    ],
)
def test_the_last_sentence_says_what_to_do(cost: Cost, best: CapOptimum | None, sentence: str) -> None:
    """Figures alone leave the reader to work out whether anything must change."""
    assert sentence in conclusion(cost, best)
    assert cost_markdown(cost, best).endswith(f"**{conclusion(cost, best)}**\n")


def test_a_slowdown_that_chance_explains_is_not_claimed() -> None:
    """Its interval holds 1."""
    unsure = Cost(
        requests=9, degenerate=1, share_of_time=0.3, healthy_slowdown=CostRatio(1.08, 0.73, 1.58, 8)
    )
    assert "healthy" not in conclusion(unsure, None)


@pytest.mark.parametrize(
    ("ratio", "known"),
    [
        (CostRatio(0.924, 0.635, 1.344, 3), False),
        (CostRatio(0.98), False),
        (CostRatio(1.002, 0.998, 1.006, 40), True),
        (CostRatio(1.4, 1.1, 1.8, 8), True),
    ],
)
def test_noise_is_not_called_free(ratio: CostRatio, known: bool) -> None:
    """Three pairs on a shared server: −7.6 % (−36.5 to +34.4 %), with 21 of 22 requests looping."""
    measured = Cost(requests=22, degenerate=21, share_of_time=1 - 1 / ratio.value, wall_clock_ratio=ratio)
    said = conclusion(measured, None)
    assert ("What loops cost is not known" in said) is not known
    assert ("nothing to do" in said) is (known and ratio.value < 1.01)
