"""What is alike by design: templates with something new in their slots, and plans whose days come round."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.near_loop.batch import BatchNearLoopDetector
from stresstest.detectors.near_loop.bounds import TEMPLATE_COPIED_WORDS
from stresstest.detectors.near_loop.online import NearLoopDetector
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom, SymptomKind

LETTERS = ("ba", "do", "fe", "gu", "ki", "lo", "ma", "ne", "pi", "ru", "sa", "tev", "vin", "zor")
"""Syllables of invented names, so that no two slots hold the same."""

ARTICLE = (
    "Article {n}. The tenant undertakes to {x}. If the tenant fails to do so, the landlord may, after a"
    " notice that has remained without effect for one month, terminate this agreement and claim damages."
)
STATION = (
    "So the boy went on until he came to the {x}. “I am a poor boy far from home,” he said, “and I look for"
    " my fortune. Have you any work for me?” And he worked there from dawn to dusk, and then went on his way."
)
VERSE = (
    "There were {x} in the bed and the little one said: roll over! So they all rolled over and one fell out."
)
LETTER = (
    "Subject: post of {x}\n\nDear Madam,\nI would like to apply for the post of {x} in your company. I am"
    " punctual and precise, and what I learned as {x} can be of use to you.\nYours faithfully, Sam Porter"
)
CASE = (
    "TC-{n}: The user can open the page of the {x}.\nSteps:\n1. Open the application.\n2. Go to the {x}.\n"
    "3. Click the button.\n4. Observe the result.\nExpected result: The {x} is updated and a message shown."
)
TEMPLATES = (ARTICLE, STATION, VERSE, LETTER, CASE)
DAY = (
    ("Push-ups: {a} sets of 12", "Dips: {a} sets of 10", "Rows with the bar: {a} sets of 12"),
    ("Squats: {a} sets of 15", "Lunges: {a} sets of 12 a leg", "Calf raises: {a} sets of 20"),
    ("A walk of half an hour", "Stretching for the whole body", "A good night of sleep"),
)


def found(text: str) -> list[Symptom]:
    """The near-loops; the same whether the text is taken token by token or read at once."""
    tokens = text_tokens(text)
    online, at_once = NearLoopDetector(DetectorSpec()), BatchNearLoopDetector(DetectorSpec())
    for token in tokens:
        online.update(token)
    at_once.update_all([token.text for token in tokens])
    for detector in (online, at_once):
        detector.finish(None)
    assert at_once.symptoms() == online.symptoms()
    assert at_once.open_from == online.open_from
    return online.symptoms()


def names(count: int, seed: int = 1) -> list[str]:
    """So many different invented words."""
    rng = random.Random(seed)
    made = dict.fromkeys("".join(rng.choices(LETTERS, k=3)) for _ in range(3 * count))
    return list(made)[:count]


def filled(template: str, fillers: list[str], first: int = 1) -> str:
    """One copy of the template a filler."""
    return "\n\n".join(template.format(n=n, x=x) for n, x in enumerate(fillers, first))


@given(st.sampled_from(TEMPLATES), st.integers(0, 1000), st.integers(4, 20))
@settings(max_examples=30, deadline=None)
def test_what_says_something_new_in_its_slot_is_no_near_loop(template: str, seed: int, copies: int) -> None:
    """Articles, the stations of a tale, verses, letters, test cases: as many as a person would write."""
    assert found(filled(template, names(copies, seed))) == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_without_end_is_a_near_loop(template: str) -> None:
    """The bound is generous, not absent, and the onset is the second copy all the same."""
    text = filled(template, names(120))
    (loop,) = found(text)
    copy = len(text_tokens(filled(template, names(1))))
    assert loop.detail["copied"] >= TEMPLATE_COPIED_WORDS
    assert abs(loop.onset - copy) <= 16


@pytest.mark.parametrize("template", TEMPLATES)
def test_names_in_turn_are_nothing_new(template: str) -> None:
    """A slot in which the same five words come round is soon a near-loop."""
    few = names(5)
    symptoms = found(filled(template, few * 12))
    assert symptoms
    assert symptoms[0].alarm < len(text_tokens(filled(template, few * 5)))


def test_a_word_changed_here_and_there_fills_no_slot() -> None:
    """One new word in every copy, each time elsewhere, is a small edit."""
    rng = random.Random(2)
    copies = []
    for name in names(16):
        words = STATION.split()
        words[rng.randrange(len(words))] = name
        copies.append(" ".join(words))
    (loop,) = found("\n\n".join(copies))
    assert loop.detail["copied"] < TEMPLATE_COPIED_WORDS


def test_items_that_come_round_whole_say_nothing() -> None:
    """Four questions in turn under new numbers are a near-loop, also when two of them hold a new word."""
    four = (
        "Should schools have a policy against using electronic devices during {x}?",
        "Should students be allowed to use the school bathroom during lunch?",
        "Should schools have a policy against using the school bathroom for non-bathroom purposes?",
        "Should students be required to take a class on {x}?",
    )
    own = names(60)
    text = "\n".join(f"{n}. {four[n % 4].format(x=own[n])}" for n in range(60))
    (loop,) = found(text)
    assert loop.alarm < TEMPLATE_COPIED_WORDS


def plan(days: int, kinds: int) -> str:
    """A plan that begins anew after so many kinds of days, a little harder each time."""
    lines = []
    for n in range(days):
        exercises = "\n".join(f"- {line.format(a=3 + n // kinds)}" for line in DAY[n % kinds])
        lines.append(
            f"Day {n + 1}\n- Warm-up: 5 minutes of light jogging\n{exercises}\n- Cool-down: stretching"
        )
    return "\n\n".join(lines)


def test_a_plan_may_begin_anew_but_not_for_ever() -> None:
    """Three kinds of days come round for a month; one kind of day is a near-loop; so is no end of them."""
    assert found(plan(30, 3)) == []
    assert found(plan(30, 1))
    assert found(plan(1000, 3))


def test_weeks_of_one_menu_are_a_plan() -> None:
    """Weekdays need no number."""
    week = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    dishes = names(21)
    menu = "\n".join(
        f"{day}: {dishes[3 * n]} soup for lunch, {dishes[3 * n + 1]} with {dishes[3 * n + 2]} for dinner"
        for n, day in enumerate(week)
    )
    text = "\n\n".join(f"Week {n}\n{menu}" for n in range(1, 7))
    assert found(text) == []
    assert found(text.replace("day", "ness"))


def test_records_of_which_only_the_number_changes_are_a_near_loop() -> None:
    """Rows of data say something in their figures, unless these only count."""
    record = '{{"id": {n}, "name": "{x}", "country": "France", "visited": true}},\n'
    assert found("[\n" + "".join(record.format(n=n, x=x) for n, x in enumerate(names(100)))) == []
    assert found("[\n" + "".join(record.format(n=n, x="Paris") for n in range(100)))


@pytest.mark.parametrize("language", ["en", None])
def test_a_puzzle_that_is_solved_step_by_step_is_healthy(language: str | None) -> None:
    """The towers of Hanoi: five words and three letters, and every move another one."""
    moves: list[str] = []

    def move(disk: int, source: str, target: str, spare: str) -> None:
        if disk:
            move(disk - 1, source, spare, target)
            moves.append(f"{len(moves) + 1}. Move disk {disk} from peg {source} to peg {target}.")
            move(disk - 1, spare, target, source)

    move(6, "A", "C", "B")
    assert detect_text("\n".join(moves), DetectorSpec(language=language), "stop").onset is None
    assert (
        detect_text("\n".join(moves[:2] * 40), DetectorSpec(language=language), "stop").symptom
        is SymptomKind.LOOP
    )
