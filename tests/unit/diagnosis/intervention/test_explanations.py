"""Why a link fails: entropy before the onset, other ways to ask, and what a decoding does to healthy text."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from stresstest.diagnosis.intervention.ablation import LONGER, OPEN, compare_ablation, open_prompts_needed
from stresstest.diagnosis.intervention.effects import lexical_diversity, recurring_terms, side_effects
from stresstest.diagnosis.intervention.entropy_shape import entropy_shape
from stresstest.diagnosis.intervention.forks import Fork
from stresstest.model import Generation, Token
from tests.support.generations import make, make_job


def answers(
    n: int, seed: int, *, drop: float = 0.0, lead: int = 64, measured: bool = True
) -> list[Generation]:
    """600 tokens each, failing between 200 and 500, entropy `drop` nats lower for `lead` tokens before."""
    rng = random.Random(seed)
    found = []
    for index in range(n):
        onset = rng.randint(200, 500)
        tokens = []
        for i in range(1, 601):
            level = 1.0 - (drop if onset - lead <= i < onset else 0.0)
            tokens.append(Token(" w", entropy=rng.gauss(level, 0.4) if measured else None))
        found.append(replace(make(make_job(index=index), 600, onset), tokens=tuple(tokens)))
    return found


def test_a_collapse_before_the_onset_is_supported_with_its_size_and_lead() -> None:
    """A known fall of 0.5 nats over 64 tokens is found, and said to begin about there."""
    every = answers(40, 1, drop=0.5)
    shape = entropy_shape(every, every)
    assert shape.verdict == "supported"
    assert shape.difference is not None
    assert -0.65 < shape.difference < -0.35
    assert shape.lead is not None
    assert 48 <= shape.lead <= 80
    assert shape.p is not None
    assert shape.p < 0.01
    assert [offset for offset, _ in shape.profile] == sorted(offset for offset, _ in shape.profile)


@pytest.mark.slow
def test_nothing_is_supported_by_chance() -> None:
    """Without a change the test holds its level: at 1 %, over 40 samples none or very few are significant."""
    hits = 0
    for seed in range(40):
        every = answers(20, seed)
        hits += entropy_shape(every, every).verdict == "supported"
    assert hits <= 2


def test_what_cannot_be_measured_is_said_to_be_so() -> None:
    """No logprobs, or nobody who stayed healthy past the place: not measurable, with the reason."""
    blind = answers(20, 1, measured=False)
    assert entropy_shape(blind, blind).verdict == "not measurable"
    alone = answers(3, 1)
    shape = entropy_shape(alone, alone)
    assert shape.verdict == "not measurable"
    assert shape.difference is None
    assert "8 are needed" in shape.sentence


def failing_at(onsets: list[int | None]) -> list[Generation]:
    return [make(make_job(index=i), 900, onset) for i, onset in enumerate(onsets)]


def test_the_structure_matters_where_open_text_stays_healthy() -> None:
    """Fisher's test of open against rigid answers, told in a sentence."""
    rigid = failing_at([500] * 36 + [None] * 2)
    healed = compare_ablation(OPEN, failing_at([None] * 8), rigid, 750)
    assert (healed.failed, healed.n, healed.run_failed, healed.run_n) == (0, 8, 36, 38)
    assert healed.p is not None
    assert healed.p < 1e-4
    assert "the numbering matters" in healed.sentence
    same = compare_ablation(OPEN, failing_at([480] * 8), rigid, 750)
    assert "they fail without the numbering, too (p = " in same.sentence


def test_open_text_that_ends_before_the_place_of_the_failure_proves_nothing() -> None:
    """It may end early for want of numbers to fill: neither "matters" nor "is not what fails"."""
    rigid = failing_at([500] * 38)
    early = [make(make_job(index=i), 300) for i in range(4)]
    found = compare_ablation(OPEN, early, rigid, 750)
    assert (found.n, found.p) == (0, None)
    assert "too few got that far" in found.sentence
    mixed = compare_ablation(OPEN, [*early, *failing_at([480, 490, None])], rigid, 750)
    assert (mixed.failed, mixed.n) == (2, 3)


def test_so_many_open_prompts_are_asked_as_it_takes() -> None:
    """Where every answer fails, three that do not are enough to see it; where half do, eight."""
    assert open_prompts_needed(failing_at([500] * 38), 750) == 3
    assert open_prompts_needed(failing_at([500] * 19 + [None] * 19), 750) == 8
    assert open_prompts_needed([], 750) == 8


def test_independence_of_length_needs_the_whole_interval() -> None:
    """Equal onsets are independent of the length asked for, twice as late ones are not, few say nothing."""
    run = failing_at([500 + i for i in range(30)])
    assert compare_ablation(LONGER, failing_at([505 + i for i in range(8)]), run, 750).independent is True
    assert compare_ablation(LONGER, failing_at([700 + i for i in range(8)]), run, 750).independent is False
    few = compare_ablation(LONGER, failing_at([500, None, None]), run, 750)
    assert few.ratio is None
    assert few.independent is None


def words(text: str, n: int) -> tuple[Token, ...]:
    pool = text.split()
    return tuple(Token(f" {pool[i % len(pool)]}", entropy=1.0) for i in range(n))


def test_lexical_measures_have_known_values() -> None:
    """Ten words over and over: a fifth of 50 is distinct; every term recurs."""
    tokens = words("alpha beta gamma delta epsilon zeta eta theta iota kappa", 200)
    assert lexical_diversity(tokens) == 0.2
    assert recurring_terms(tokens) == 10.0  # only "epsilon" has six letters
    assert lexical_diversity(tokens[:30]) is None
    assert recurring_terms(()) is None


def test_terms_that_vanish_are_a_side_effect() -> None:
    """The same forks before and after: a repeated term is gone, with p; too few forks measure nothing."""
    source = make(make_job(), 400, 300)
    text = words("router switch packet cable signal", 200)
    forks = [Fork(replace(source, job=make_job(index=i), tokens=text), 200, 150, 300, 450) for i in range(8)]
    gone = words("una due tre quattro cinque sei sette otto nove dieci", 200 + 8)
    after = {f.key: make(f.source.job, 200) for f in forks}
    after = {key: replace(g, tokens=gone[: 200 + i]) for i, (key, g) in enumerate(after.items())}
    changes = {c.what: c for c in side_effects(forks, after)}
    terms = changes["recurring terms per 100 words"]
    assert terms.before is not None
    assert terms.before > 50
    assert terms.after == 0.0
    assert terms.p is not None
    assert terms.p < 0.02
    assert all(c.before is None for c in side_effects(forks[:3], after))
