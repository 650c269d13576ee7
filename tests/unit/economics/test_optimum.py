"""The cheapest cap: the curve against brute force, censored answers, and what it must never do."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.economics.optimum import (
    AttemptOutcome,
    CostAttempt,
    attempts_from_spans,
    cost_curve,
    find_cheapest_cap,
)
from stresstest.model.cost import RequestSpan
from stresstest.render.cap_cost import optimum_document, optimum_lines

BY_ITSELF = st.sampled_from([AttemptOutcome.USEFUL, AttemptOutcome.USELESS])


def attempts(lengths: list[int], ending: AttemptOutcome = AttemptOutcome.USEFUL) -> list[CostAttempt]:
    return [CostAttempt(length, ending) for length in lengths]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), BY_ITSELF), min_size=1, max_size=60), st.integers(0, 20))
def test_without_censoring_the_curve_is_the_plain_ratio(
    drawn: list[tuple[int, AttemptOutcome]], loops: int
) -> None:
    """When every end is known, a useful answer costs sum(min(length, cap)) / useful by cap, at every cap."""
    found = [CostAttempt(*each) for each in drawn] + attempts([500] * loops, AttemptOutcome.ENDLESS)
    if not any(each.ending is AttemptOutcome.USEFUL for each in found):
        with pytest.raises(ValueError, match="no attempt was useful"):
            cost_curve(found)
        return
    for point in cost_curve(found):
        useful = sum(a.ending is AttemptOutcome.USEFUL and a.tokens <= point.cap for a in found)
        spent = sum(min(a.tokens, point.cap) for a in found)
        assert point.tokens == pytest.approx(spent / useful)
        assert point.useful == pytest.approx(useful / len(found))


def test_loops_pull_the_cap_down_to_where_healthy_answers_end() -> None:
    """Healthy answers up to 400 tokens, loops to 4,000: the cheapest cap lies at the healthy lengths."""
    rng = random.Random(1)
    found = attempts([rng.randint(100, 400) for _ in range(180)]) + attempts(
        [4_000] * 20, AttemptOutcome.ENDLESS
    )
    best = find_cheapest_cap(found)
    assert best is not None
    assert 350 <= best.cap <= 400
    assert best.lo <= best.cap <= best.hi
    assert best.saved > 0.5
    assert best.lacking is None
    assert best.uncapped.cap == 4_000


def test_without_loops_a_larger_cap_costs_nothing() -> None:
    """Nothing burns: the curve's lowest point lets (nearly) everybody end, and no cap is recommended."""
    best = find_cheapest_cap(attempts(list(range(100, 300))))
    assert best is not None
    assert best.cap >= 280
    assert best.saved < 0.01
    assert best.lacking is not None
    assert "no answer went wrong" in best.lacking


def test_answers_that_a_cap_cut_are_no_evidence_against_longer_caps() -> None:
    """Half the sample was cut at 200 while healthy: the curve beyond is that of the other half."""
    rng = random.Random(2)
    lengths = [rng.randint(50, 600) for _ in range(400)]
    whole = cost_curve(attempts(lengths))
    cut = [
        CostAttempt(200, AttemptOutcome.CUT)
        if n % 2 and length > 200
        else CostAttempt(length, AttemptOutcome.USEFUL)
        for n, length in enumerate(lengths)
    ]
    assert cost_curve(cut)[-1].tokens == pytest.approx(whole[-1].tokens, rel=0.06)


def test_too_few_healthy_answers_tell_no_optimum() -> None:
    """Absent is absent: fewer than twenty healthy answers give None."""
    assert find_cheapest_cap(attempts([100] * 19)) is None


def test_repeats_of_a_prompt_are_no_independent_answers() -> None:
    """Twelve requests asked 25 times: "1,504 to 1,504 in 95 % of resamples", where twelve others of the same
    source have a cheapest cap hundreds of tokens away."""
    lengths = [130, 365, 420, 590, 712, 1_000, 1_130, 1_250, 1_400, 1_504]
    once = attempts(lengths) + attempts([3_600] * 2, AttemptOutcome.ENDLESS)
    canary = [replace(each, cluster=str(n)) for n, each in enumerate(once)] * 25
    best = find_cheapest_cap(canary)
    assert best is not None
    assert (best.cap, best.n, best.prompts) == (1_504, 300, 12)
    assert best.lo < 1_000
    assert best.hi == 1_504
    unknown = find_cheapest_cap([replace(each, cluster="") for each in canary])
    assert unknown is not None
    assert (unknown.lo, unknown.hi, unknown.prompts) == (1_504, 1_504, 300)
    [line] = [line for line in optimum_lines(best) if "resamples" in line]
    assert "Based on 300 answers to 12 prompts: 250 useful, 50 without an end. So few prompts say" in line
    document = optimum_document(best)
    assert document is not None
    assert document["prompts"] == 12


def test_requests_become_attempts() -> None:
    """A loop to its cap never ends, one that recovered is useless, an unjudged request is no attempt."""
    spans = [
        RequestSpan("a", 0, 1, 10, degenerate=False),
        RequestSpan("b", 0, 1, 20, degenerate=False, capped=True),
        RequestSpan("c", 0, 1, 30, degenerate=True, loops=True, capped=True),
        RequestSpan("d", 0, 1, 40, degenerate=True, loops=True),
        RequestSpan("e", 0, 1, 50),
        RequestSpan("f", 0, 1, 60, degenerate=False, failure="cut"),
    ]
    endings = [(a.tokens, a.ending) for a in attempts_from_spans(spans)]
    assert [a.cluster for a in attempts_from_spans([replace(s, cluster="q") for s in spans])] == ["q"] * 4
    assert endings == [(10, "useful"), (20, "cut"), (30, "endless"), (40, "useless")]
