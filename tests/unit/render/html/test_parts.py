"""The pieces under the HTML report: marked texts, what fits, steps of curves."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stresstest.model import Symptom, SymptomKind, Token
from stresstest.render.html.curves import step_values
from stresstest.render.html.parts import GAP, excerpt_parts, fit_parts
from stresstest.render.text import sanitize
from tests.support.reported_runs import healthy, looping

_PARTS = st.lists(st.tuples(st.just("after"), st.text(max_size=400)), max_size=6)


@given(st.integers(20, 400), st.integers(1, 300), st.integers(0, 400))
def test_parts_are_the_text_in_its_order(onset: int, period: int, more: int) -> None:
    """Nothing is invented and nothing is told twice: the shown pieces follow each other in the answer."""
    period = min(period, onset - 2)
    generation = looping(0, onset, onset + more, period=period)
    whole, at = sanitize(generation.text), 0
    for kind, text in excerpt_parts(generation):
        if kind != GAP:
            found = whole.find(text, at)
            assert found >= 0
            at = found + len(text)


@given(st.integers(20, 200), st.integers(3, 15))
def test_the_second_copy_begins_with_the_onset(onset: int, period: int) -> None:
    """The mark stands at the first degenerate token, where the threshold was counted from."""
    generation = looping(0, onset, onset + 100, period=period)
    told = excerpt_parts(generation)
    marked = next(text for kind, text in told if kind == "second")
    first = generation.tokens[onset - 1].text
    assert marked.startswith(first)
    assert len(marked.split()) == period
    assert [kind for kind, _ in told if kind in ("first", "second")] == ["first", "second"]


def test_a_symptom_without_copies_is_only_degenerate() -> None:
    """Gibberish has no first copy: nothing is marked as one."""
    generation = looping(0, 100, 200)
    symptom = Symptom(SymptomKind.GIBBERISH, 100, 120)
    verdict = replace(generation.verdict, symptom=SymptomKind.GIBBERISH, symptoms=(symptom,))
    kinds = [kind for kind, _ in excerpt_parts(replace(generation, verdict=verdict))]
    assert kinds == ["before", "after"]


def test_a_healthy_answer_shows_both_its_ends() -> None:
    """Long ones are cut in the middle, and say by how much."""
    assert [kind for kind, _ in excerpt_parts(healthy(0, 30))] == ["plain"]
    long = excerpt_parts(healthy(0, 1_000, text="e poi "))
    assert [kind for kind, _ in long] == ["plain", "gap", "plain"]
    assert long[1][1] == "680 tokens"


def test_steering_characters_never_reach_the_page() -> None:
    """Bidi overrides and escapes are gone before anything is marked."""
    generation = healthy(0, 3)
    generation = replace(generation, tokens=(Token("a\u202eb"), Token("\x1b[31mc"), Token("\ud800d")))
    assert excerpt_parts(generation) == [("plain", "abcd")]


@given(_PARTS, st.integers(0, 1_000))
def test_fitted_parts_take_no_more_room_than_given(found: list[tuple[str, str]], room: int) -> None:
    """The page's size is a promise; no part disappears, and what fits is left alone."""
    kept = fit_parts(found, room)
    assert [kind for kind, _ in kept] == [kind for kind, _ in found]
    size = sum(len(text.encode("utf-8", "replace")) for _, text in kept)
    assert size <= room + 8 * len(found)
    for (_, before), (_, after) in zip(found, kept, strict=True):
        assert after == before or (after.endswith("…") and before.startswith(after[:-1]))


def test_a_curve_is_held_until_its_next_point() -> None:
    """Between two onsets survival does not change; outside the points nothing is known."""
    points = [(0.0, 1.0), (10.0, 0.8), (20.0, 0.5)]
    assert step_values(points, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]) == [1.0, 1.0, 0.8, 0.8, 0.5, None]
    assert step_values(points, [-1.0, 5.0, 10.0, 25.0], backwards=True) == [1.0, 0.8, 0.8, None]
    assert step_values([], [1.0]) == [None]
