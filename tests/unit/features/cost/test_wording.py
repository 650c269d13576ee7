"""The last sentence of a cost: what it comes to, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.economics.account import Prices
from stresstest.economics.fit import fit_engine
from stresstest.economics.logged import logged_cost
from stresstest.economics.optimum import CapOptimum, CostPoint
from stresstest.features.cost.markdown import cost_markdown
from stresstest.features.cost.wording import conclusion, cost_rows
from stresstest.model.cost import Cost, CostRatio, RequestSpan

_POINT = CostPoint(550, 600.0, 0.9)
_LARGEST = CostPoint(8_000, 900.0, 0.95)
CHEAPEST = CapOptimum(550, 500, 600, _POINT, _LARGEST, (_POINT, _LARGEST), 160, 150, 6, 160)
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
            Cost(requests=100, degenerate=0, failed=40),
            None,
            "40 of 100 were given up, and whether they were loops is not known.",
        ),
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


def test_loops_that_delay_nobody_still_use_the_gpu() -> None:
    """One request every 30 s: "GPU seconds 0.0 for loops (1,375 used, 157 of them by loops)", "money for
    loops 0", and "there is nothing to do about their cost" beside 11.4 % wasted tokens."""
    sparse = Cost(
        requests=200,
        degenerate=10,
        share_of_time=0.0,
        gpu_seconds=0.0,
        gpu_seconds_used=1375.0,
        gpu_seconds_after_onset=157.0,
        gpu_hour_price=3.6,
        money=0.0,
    )
    assert "but 11 % of the GPU seconds in use" in conclusion(sparse, None)
    assert "nothing to do" not in conclusion(sparse, None)
    told = {name: words for name, words, _ in cost_rows(sparse)}
    assert told["GPU seconds that loops use"] == "157 of 1,375, 11.4 %"
    assert told["GPU seconds that loops add"] == "0.0"
    assert told["price of what loops use"] == "0.16 (0.79 per 1,000 requests) at 3.6 a GPU-hour"
    assert told["price of what loops add"] == "0 (0 per 1,000 requests) at 3.6 a GPU-hour"
    few = replace(sparse, gpu_seconds_after_onset=3.0)
    assert "nothing to do about their cost" in conclusion(few, None)


def test_loops_that_end_early_leave_no_room() -> None:
    """A guard ended each loop long before a healthy answer ends: "the load leaves room", for a client
    that was always busy."""
    cut = Cost(
        requests=200,
        degenerate=50,
        share_of_time=-0.3,
        gpu_seconds_after_onset=60.0,
        gpu_seconds_used=600.0,
    )
    said = conclusion(cut, None)
    assert "ended sooner than healthy answers in their place" in said
    assert "room" not in said


def test_a_rate_of_what_could_be_seen_is_not_given() -> None:
    """Of texts that a log had cut, only the 17 failures were judged: "17 of 17 requests, 100 %"."""
    spans = [
        RequestSpan(f"{n}", n, n + 5.0, 100, degenerate=True if n < 17 else None, loops=n < 17, onset=50)
        for n in range(200)
    ]
    cost = logged_cost(spans, fit_engine(spans), Prices())
    assert cost.rate is None
    [row] = [row for row in cost_rows(cost) if row[0] == "degenerate"]
    assert row[1] == "at least 17 of 200 requests; most were not seen whole"
    assert "183 of 200 requests not all was seen" in conclusion(cost, None)
