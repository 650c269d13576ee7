"""Pairs of answers: what may stand beside what, whatever the answers are."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.features.export.answers import SHORT, AskedPrompt, ExportedAnswer
from stresstest.features.export.pairing import (
    at_most_per_prompt,
    distinct,
    is_held_out,
    pair_answers,
    with_known_prompts,
)
from stresstest.model import Decoding, Message, Subject

SUBJECTS = (Subject("a", "narrative", "en"), Subject("b", "narrative", "en"))


def length_difference(one: ExportedAnswer, other: ExportedAnswer) -> int:
    """In tokens where both are counted, else in words."""
    if one.tokens is None or other.tokens is None:
        return abs(one.words - other.words)
    return abs(one.tokens - other.tokens)


def prompt(number: int) -> AskedPrompt:
    return AskedPrompt(f"p{number}", (Message("user", f"Tell me story number {number}."),))


@st.composite
def answers(draw: st.DrawFn) -> ExportedAnswer:
    """Few prompts, models, decodings and texts, so that everything collides with everything."""
    length = draw(st.integers(1, 6))
    bad = draw(st.booleans())
    text = " ".join(draw(st.lists(st.sampled_from("xyz"), min_size=length, max_size=length)))
    return ExportedAnswer(
        source="r",
        key=str(draw(st.integers(0, 10**6))),
        prompt=prompt(draw(st.integers(0, 4))),
        subject=draw(st.sampled_from(SUBJECTS)),
        decoding=Decoding(temperature=draw(st.sampled_from([0.2, 0.7]))),
        text=text,
        tokens=draw(st.sampled_from([length, None])),
        onset=1 if bad else None,
        symptom="loop" if bad else None,
        flaw=None if bad else draw(st.sampled_from([None, None, SHORT])),
    )


MANY = st.lists(answers(), max_size=40)


@pytest.mark.slow
@given(MANY, MANY, st.integers(1, 3))
def test_a_pair_is_one_prompt_once_answered_well_and_once_badly(
    own: list[ExportedAnswer], elsewhere: list[ExportedAnswer], most: int
) -> None:
    """Chosen is healthy, rejected degenerate, nothing is in two pairs, no prompt has more than it may; an
    answer of another decoding or model only stands in from elsewhere."""
    kept = distinct(own)
    others = [*distinct(elsewhere), *kept[::2]]  # some may stand in for others of their own source
    pairs = pair_answers(kept, others, most)
    for pair in pairs:
        assert pair.chosen.healthy
        assert pair.rejected.degenerate
        assert pair.chosen.prompt.key == pair.rejected.prompt.key
        same = (pair.chosen.subject.model, pair.chosen.decoding) == (
            pair.rejected.subject.model,
            pair.rejected.decoding,
        )
        assert same or any(pair.chosen is each for each in others)
    used = [id(answer) for pair in pairs for answer in (pair.chosen, pair.rejected)]
    assert len(used) == len(set(used))
    counts = Counter(pair.rejected.prompt.key for pair in pairs)
    assert all(n <= most for n in counts.values())


@pytest.mark.slow
@given(MANY)
def test_a_prompt_with_both_under_one_decoding_is_paired_by_the_nearest_length(
    own: list[ExportedAnswer],
) -> None:
    """No pair that is possible is left out, and of all possible ones the nearest is there."""
    kept = distinct(own)
    pairs = pair_answers(kept, [], 1)
    for number in range(5):
        key = prompt(number).key
        possible = [
            length_difference(good, bad)
            for bad in kept
            for good in kept
            if bad.degenerate and good.healthy and bad.prompt.key == good.prompt.key == key
            if (bad.subject.model, bad.decoding) == (good.subject.model, good.decoding)
        ]
        found = [length_difference(p.chosen, p.rejected) for p in pairs if p.rejected.prompt.key == key]
        assert found == ([min(possible)] if possible else [])


@pytest.mark.slow
@given(MANY, st.integers(1, 40))
def test_of_all_possible_pairs_the_nearest_are_taken_in_turn(own: list[ExportedAnswer], most: int) -> None:
    """Exactly those that a sorted table of all pairs gives, which is n² rows."""
    kept = [replace(each, prompt=prompt(0), decoding=Decoding()) for each in own]
    kept = [replace(each, subject=SUBJECTS[0]) for each in kept]
    bad, good = [a for a in kept if a.degenerate], [a for a in kept if a.healthy]
    possible = sorted((length_difference(g, b), i, j) for i, b in enumerate(bad) for j, g in enumerate(good))
    expected: list[tuple[int, int]] = []
    for _, i, j in possible:
        if len(expected) < most and all(i != x and j != y for x, y in expected):
            expected.append((i, j))
    found = [(id(pair.rejected), id(pair.chosen)) for pair in pair_answers(kept, [], most)]
    assert found == [(id(bad[i]), id(good[j])) for i, j in expected]


@pytest.mark.slow
def test_many_answers_to_one_prompt_are_paired_in_little_memory() -> None:
    """A log of one prompt with 2,000 loops and 2,000 healthy answers makes four million possible pairs."""
    answers = [
        ExportedAnswer(
            "r",
            str(n),
            prompt(0),
            SUBJECTS[0],
            Decoding(),
            f"{n}",
            tokens=n,
            symptom="loop" if n % 2 else None,
        )
        for n in range(4_000)
    ]
    tracemalloc.start()
    try:
        pairs = pair_answers(answers, answers, 4)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [length_difference(pair.chosen, pair.rejected) for pair in pairs] == [1, 1, 1, 1]
    assert peak < 20 * 2**20


@pytest.mark.slow
@given(MANY)
def test_what_repeats_is_read_once(own: list[ExportedAnswer]) -> None:
    """Of equal texts to one prompt under one decoding the first is kept."""
    kept = distinct(own)
    seen = [(a.prompt.key, a.subject.model, a.decoding, a.degenerate, a.text) for a in kept]
    assert len(seen) == len(set(seen))
    assert distinct(kept) == kept


@pytest.mark.slow
@given(MANY, st.integers(1, 3))
def test_single_answers_are_capped_per_prompt_and_label(own: list[ExportedAnswer], most: int) -> None:
    """KTO takes good and bad answers of a prompt alike, and none that is neither."""
    kept = at_most_per_prompt(own, most)
    assert all(answer.degenerate or answer.healthy for answer in kept)
    assert all(n <= most for n in Counter((a.prompt.key, a.degenerate) for a in kept).values())


@given(st.integers(0, 10**9), st.floats(0, 0.99), st.floats(0, 0.99))
def test_a_prompt_is_held_out_by_its_hash_alone(number: int, share: float, other: float) -> None:
    """What is held out at a share is so at every larger one, and for nothing of none."""
    low, high = sorted((share, other))
    assert not is_held_out(prompt(number), 0.0)
    assert is_held_out(prompt(number), high) or not is_held_out(prompt(number), low)


def test_about_the_share_is_held_out_and_a_topic_is_never_on_both_sides() -> None:
    """Twenty paragraphs and forty about the sea are one topic: knowing the one helps with the other."""
    held = sum(is_held_out(prompt(n), 0.2) for n in range(2_000))
    assert 330 <= held <= 470
    for n in range(50):
        sizes = {
            is_held_out(
                AskedPrompt(f"{n}/{units}", (Message("user", f"{units} of {n}"),), topic=f"t/{n}"), 0.5
            )
            for units in (10, 20, 40)
        }
        assert len(sizes) == 1


def test_an_answer_shorter_than_its_task_asked_for_is_no_example() -> None:
    """Also where its own source had the prompt from a file: another source knows how much was asked."""
    asked = (Message("user", "Write 3 numbered lines."),)
    known = AskedPrompt("a", asked, topic="lines", units=3, unit_pattern=r"^(\d+)\.")
    filed = AskedPrompt("b", asked)
    texts = {"whole": "1. a\n2. b\n3. c", "short": "1. a\n2. b"}
    read = [ExportedAnswer("r", "x", known, SUBJECTS[0], Decoding(), "1. a\n1. a", symptom="loop", onset=3)]
    read += [ExportedAnswer("f", key, filed, SUBJECTS[0], Decoding(), text) for key, text in texts.items()]
    loop, whole, short = with_known_prompts(read)
    assert (loop.flaw, whole.flaw, short.flaw) == (None, None, SHORT)
    assert {a.prompt for a in (loop, whole, short)} == {known}
