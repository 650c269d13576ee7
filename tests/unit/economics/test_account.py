"""The whole account: labels, contract, and the span of a streamed generation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.economics.account import Prices, measured_cost, modelled_cost
from stresstest.economics.timeline import generation_span, has_repeated_tail
from stresstest.features.cost.document import cost_document
from stresstest.features.cost.markdown import cost_markdown
from stresstest.features.cost.wording import cost_rows
from stresstest.model import (
    FailureKind,
    Generation,
    GenerationVerdict,
    Job,
    Phase,
    ServiceFailure,
    SymptomKind,
    Token,
)
from stresstest.model.cost import CostArm, RequestSpan

CONTRACT = {
    "requests", "degenerate", "rate", "rate_ci", "dharma_rate", "wall_clock_s", "counterfactual_s",
    "share_of_time", "inflation", "healthy_slowdown", "step_ratio", "wasted_tokens", "gpu_seconds", "money",
}  # fmt: skip


def batch(pair: int, arm: CostArm, *, slow: float, loop_end: float) -> list[RequestSpan]:
    """Three healthy requests of two seconds and a loop from second one on."""
    healthy = [
        RequestSpan(
            id=f"h{i}", submitted=0.0, first_token=0.1, end=2.0 * slow, output_tokens=100, prompt_tokens=20,
            degenerate=False, dharma=False, batch=f"{pair}/{arm}", arm=arm, pair=pair,
        )
        for i in range(3)
    ]  # fmt: skip
    loop = RequestSpan(
        id="loop", submitted=0.0, first_token=0.1, end=loop_end, output_tokens=int(100 * loop_end),
        prompt_tokens=20, degenerate=True, loops=True, onset=101, onset_at=1.0, capped=True, dharma=True,
        batch=f"{pair}/{arm}", arm=arm, pair=pair,
    )  # fmt: skip
    return [*healthy, loop]


def pairs(count: int) -> list[RequestSpan]:
    found = []
    for n in range(count):
        found += batch(n, CostArm.LOOPS, slow=1.5 + 0.01 * n, loop_end=10.0)
        found += batch(n, CostArm.CAPPED, slow=1.0, loop_end=2.5)
    return found


def test_pairs_measure_and_one_batch_models() -> None:
    """The same key is measured with pairs and modelled without, and says which."""
    measured = measured_cost(pairs(4), prices=Prices(2, 3.6))
    assert measured.labels["counterfactual_s"] == "measured"
    assert measured.wall_clock == pytest.approx(10.0)
    assert measured.counterfactual == pytest.approx(2.5)
    assert measured.gpu_seconds == pytest.approx(7.5 * 4 * 2)
    assert measured.money == pytest.approx(7.5 * 4 * 2 / 1000)
    assert measured.requests == 16
    assert measured.degenerate == 4
    modelled = modelled_cost([s for s in pairs(4) if s.arm == CostArm.LOOPS])
    assert modelled.labels["counterfactual_s"] == "modelled"
    assert modelled.healthy_slowdown is None
    assert modelled.modelled
    assert measured.share_of_time is not None
    assert measured.inflation is not None
    assert measured.share_of_time == pytest.approx(measured.inflation / (1 + measured.inflation))


def test_the_document_has_the_contracts_keys_and_null_for_what_is_not_measured() -> None:
    """Every key of the contract is there, also when nothing could be judged; nothing is a made-up zero."""
    blind = [replace(s, degenerate=None, loops=False, onset=None, dharma=None) for s in pairs(1)]
    for cost in (measured_cost(pairs(4)), modelled_cost(blind)):
        assert cost_document(cost).keys() >= CONTRACT
    document = cost_document(modelled_cost(blind))
    for key in (
        "degenerate",
        "rate",
        "dharma_rate",
        "counterfactual_s",
        "wasted_tokens",
        "gpu_seconds",
        "money",
    ):
        assert document[key] is None, key
    assert document["healthy_slowdown"]["ratio"] is None


def test_energy_is_counted_only_where_every_batch_has_a_reading() -> None:
    """A gap in the power readings is no saving."""
    spans = pairs(3)
    joules = {
        f"{n}/{arm}": 100.0 if arm == "loops" else 40.0 for n in range(3) for arm in ("loops", "capped")
    }
    assert measured_cost(spans, joules=joules).energy_joules == pytest.approx(180.0)
    del joules["2/capped"]
    assert measured_cost(spans, joules=joules).energy_joules is None


def test_a_loop_that_appears_in_the_capped_batch_makes_the_ratios_a_lower_bound() -> None:
    """Sampling under load does not repeat itself; what that does to the number is said."""
    spans = [
        replace(s, degenerate=True, loops=True) if s.id == "h0" and s.arm == CostArm.CAPPED else s
        for s in pairs(3)
    ]
    assert any("lower bound" in note for note in measured_cost(spans).notes)
    assert not any("lower bound" in note for note in measured_cost(pairs(3)).notes)


def test_the_table_never_shows_a_models_markup() -> None:
    """A hostile source or note cannot break out of a Markdown cell, nor steer a terminal."""
    cost = replace(measured_cost(pairs(3)), notes=("a | b\x1b[2J",))
    text = cost_markdown(cost)
    assert "\x1b" not in text
    assert "a \\| b" in text
    assert {row[2] for row in cost_rows(cost)} <= {"measured", "modelled", "planted"}


def generation(**changed: object) -> Generation:
    job = Job(Phase.COST, 0, 7, None, 7, 1, 500, "loops")
    tokens = tuple(Token("bla ", arrived=10.0 + i / 10) for i in range(1, 41))
    verdict = GenerationVerdict(40, 40, onset=21, alarm=30, symptom=SymptomKind.LOOP, loops_to_end=True)
    made = Generation(
        job, "p7", "?", verdict, tokens=tokens, finish_reason="length", prompt_tokens=9, output_tokens=40,
        started=10.0, first_token=10.1, ended=14.2,
    )  # fmt: skip
    return replace(made, **changed)  # type: ignore[arg-type]


def test_a_generation_becomes_a_span_with_its_onset_in_time() -> None:
    """The onset is the arrival of its token; marks thin the rest out but keep both ends."""
    span = generation_span(generation(), batch="0/loops", arm=CostArm.LOOPS, pair=0)
    assert span.onset_at == 12.1
    assert span.marks[0] == (1, 10.1)
    assert span.marks[-1] == (40, 14.0)
    assert len(span.marks) == 6
    assert (span.loops, span.dharma, span.capped, span.healthy) == (True, True, True, False)


def test_a_proxy_that_holds_answers_back_shows_no_time_of_a_token() -> None:
    """All tokens came at the end, when the engine had long written them: loops used no GPU seconds."""
    held = tuple(Token("bla ", arrived=14.2) for _ in range(40))
    made = generation(tokens=held, first_token=14.2)
    span = generation_span(made, batch="0/loops", arm=CostArm.LOOPS, pair=0)
    assert (span.first_token, span.marks) == (None, ())
    assert span.onset_at == pytest.approx(10.0 + 4.2 * 21 / 40)


def test_a_stand_in_is_healthy_up_to_its_matched_length_and_is_no_natural_loop() -> None:
    """What the request itself prolongs counts as the loop's part, but never as a degenerate answer."""
    healthy = GenerationVerdict(40, 40)
    made = generation(verdict=healthy)
    span = generation_span(made, batch="0/loops", arm=CostArm.LOOPS, pair=0, planted_at=25)
    assert (span.onset, span.degenerate, span.planted, span.healthy) == (26, False, True, False)
    broken = generation_span(generation(), batch="0/loops", arm=CostArm.LOOPS, pair=0, planted_at=30)
    assert broken.onset == 21
    within = generation_span(made, batch="0/capped", arm=CostArm.CAPPED, pair=0, planted_at=40)
    assert within.onset is None
    cost = modelled_cost([span])
    assert (cost.degenerate, cost.planted, cost.rate) == (0, 1, None)


def test_a_lost_request_is_not_judged() -> None:
    """A stream that broke off in health might have looped later: it is neither healthy nor degenerate."""
    failure = ServiceFailure(FailureKind.CUT, "the connection was cut")
    span = generation_span(
        generation(verdict=GenerationVerdict(40, 40), failure=failure, finish_reason=None),
        batch="0/loops", arm=CostArm.LOOPS, pair=0,
    )  # fmt: skip
    assert (span.degenerate, span.dharma, span.healthy) == (None, None, False)


def test_the_sources_tail_rule() -> None:
    """Fifteen characters at the tail, four times: the public rule, as `scan` applies it."""
    assert has_repeated_tail("the same words. " * 4)
    assert not has_repeated_tail("the same words. " * 3)
    assert not has_repeated_tail("")
