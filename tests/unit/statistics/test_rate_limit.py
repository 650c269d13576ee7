"""A recorded rate beside a limit: decided by exact bounds, undecided where they do not decide."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from stresstest.model import Threshold
from stresstest.model.comparison import GateOutcome
from stresstest.model.scanned import GroupResult
from stresstest.statistics.rate_limit import RateJudgement, judge_rates


def group(degenerate: int, requests: int, share: float = 1.0) -> GroupResult:
    threshold = Threshold(0.05, 0.95)
    return GroupResult(
        {}, requests, degenerate, degenerate / requests, (0.0, 1.0), threshold, "words", effective_share=share
    )


def judge(*groups: tuple[int, int]) -> RateJudgement:
    return judge_rates([group(*each) for each in groups], 0.02)


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        pytest.param((0, 148), GateOutcome.INCONCLUSIVE, id="one too few"),
        pytest.param((0, 149), GateOutcome.PASS, id="Wilks"),
        pytest.param((20, 1000), GateOutcome.INCONCLUSIVE, id="at the limit"),
        pytest.param((29, 1000), GateOutcome.BREACH, id="above"),
        pytest.param((1, 10), GateOutcome.INCONCLUSIVE, id="ten answers prove nothing"),
    ],
)
def test_a_rate_is_judged_by_its_bounds(counts: tuple[int, int], outcome: GateOutcome) -> None:
    """The observed rate alone passes and fails nothing."""
    assert judge(counts).outcome is outcome
    assert judge(counts).needed == 149


def test_one_group_above_fails_all_and_all_must_be_within() -> None:
    assert judge((0, 500), (60, 1000)).outcome is GateOutcome.BREACH
    assert judge((0, 500), (0, 50)).outcome is GateOutcome.INCONCLUSIVE
    assert judge((0, 500), (0, 149)).outcome is GateOutcome.PASS


def test_outputs_of_one_prompt_count_for_less() -> None:
    """Three hundred answers to thirty prompts are no three hundred requests."""
    assert judge_rates([group(0, 300, share=0.1)], 0.02).outcome is GateOutcome.INCONCLUSIVE


@pytest.mark.parametrize("groups", [1, 12])
def test_a_gate_at_the_limit_fails_rarely_by_chance(groups: int) -> None:
    """At most one in twenty, however many groups are judged together."""
    rng = random.Random(4)
    failed = 0
    for _ in range(150):
        counts = [(sum(rng.random() < 0.02 for _ in range(200)), 200) for _ in range(groups)]
        failed += judge(*counts).outcome is GateOutcome.BREACH
    assert failed <= 150 * 0.05 + 6


@pytest.mark.parametrize(
    ("degenerate", "unseen", "outcome"),
    [(0, 0, GateOutcome.PASS), (0, 300, GateOutcome.INCONCLUSIVE), (100, 300, GateOutcome.BREACH)],
)
def test_what_nobody_saw_may_have_failed(degenerate: int, unseen: int, outcome: GateOutcome) -> None:
    """Answers without their text never make a gate pass; they make no failure either."""
    judged = judge_rates([replace(group(degenerate, 1000), in_doubt=unseen)], 0.02)
    assert judged.outcome is outcome
    assert judged.groups[0].low == judge((degenerate, 1000)).groups[0].low


def test_what_was_not_read_may_have_failed() -> None:
    """Damaged lines, and answers that the server stopped as repetitions, count against every group's upper
    bound; of a file that was not read to its end nobody knows how much they are."""
    whole = group(0, 1000)
    assert judge_rates([whole], 0.02, damaged=2).outcome is GateOutcome.PASS
    assert judge_rates([whole], 0.02, damaged=200).outcome is GateOutcome.INCONCLUSIVE
    assert judge_rates([whole], 0.02, unread=1).outcome is GateOutcome.INCONCLUSIVE
    assert judge_rates([replace(whole, in_doubt=200)], 0.02).outcome is GateOutcome.INCONCLUSIVE
    failed = judge_rates([group(100, 1000)], 0.02, damaged=200, unread=1)
    assert failed.outcome is GateOutcome.BREACH


@pytest.mark.parametrize(
    ("degenerate", "lost", "outcome"),
    [
        (40, 153, GateOutcome.INCONCLUSIVE),  # 40 of the 47 whole ones
        (0, 40, GateOutcome.PASS),
        (1, 101, GateOutcome.INCONCLUSIVE),  # 1 of 99, and most are missing
        (0, 60, GateOutcome.INCONCLUSIVE),
        (0, 200, GateOutcome.INCONCLUSIVE),
    ],
)
def test_answers_that_were_given_up_are_no_healthy_ones(
    degenerate: int, lost: int, outcome: GateOutcome
) -> None:
    """A dying engine ended 153 of 200 answers with an error before they could loop: 20 %, and "Passed"."""
    (judged,) = judge_rates([replace(group(degenerate, 200), lost=lost)], 0.3 if degenerate else 0.02).groups
    assert judged.outcome is outcome


@pytest.mark.parametrize(("degenerate", "limit"), [(6, 0.12), (6, 0.08), (1, 0.05), (0, 0.02)])
def test_the_size_that_decides_decides_at_the_same_rate(degenerate: int, limit: float) -> None:
    """With that many answers at the rate that was seen the judgement is no longer open, with half as many it
    is."""
    (open_,) = judge_rates([group(degenerate, 60)], limit).groups
    assert open_.outcome is GateOutcome.INCONCLUSIVE
    assert open_.deciding is not None
    rate, outcome = degenerate / 60, GateOutcome.PASS if degenerate / 60 < limit else GateOutcome.BREACH
    assert judge_rates([group(round(rate * open_.deciding), open_.deciding)], limit).outcome is outcome
    half = open_.deciding // 2
    assert judge_rates([group(round(rate * half), half)], limit).outcome is GateOutcome.INCONCLUSIVE


def test_a_rate_at_the_limit_is_decided_by_no_number_of_answers() -> None:
    """The search for one ends."""
    (open_,) = judge_rates([group(6, 60)], 0.1).groups
    assert (open_.outcome, open_.deciding) == (GateOutcome.INCONCLUSIVE, None)
