"""Lists of verdicts on many items are what was asked for; a loop with a counter is not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.near_loop.batch import BatchNearLoopDetector
from stresstest.detectors.near_loop.online import NearLoopDetector
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.requested_repetition import RequestedRepetition
from stresstest.detectors.text.tokens import split_pieces
from stresstest.model import Symptom, SymptomKind, Token

SENTENCES = (
    "Passage [{n}] is not relevant to the query.",
    "{n}. The claim is supported by the source.",
    "Statement {n}: This statement can be inferred from the context. Verdict: Yes",
    "Test case {n} passed without errors.",
    '{{"id": {n}, "label": "positive"}},',
    "Row {n}: No personal data found.",
)
OTHERS = (
    "Passage [{n}] is relevant to the query.",
    "{n}. The claim is not mentioned by the source.",
    "Statement {n}: This statement cannot be inferred from the context. Verdict: No",
    "Test case {n} failed with an assertion error.",
    '{{"id": {n}, "label": "neutral"}},',
    "Row {n}: Contains a phone number.",
)
TOPICS = ("harbour", "bridge", "garden", "library", "market", "station", "tower", "school")


def asked(items: int) -> str:
    """A prompt that numbers so many items."""
    rng = random.Random(items)
    rows = (
        f"{n}. The {rng.choice(TOPICS)} opened in {rng.randrange(1800, 2000)}." for n in range(1, items + 1)
    )
    return "Judge each of the following statements.\n\n" + "\n".join(rows)


def verdicts(kind: int, items: int, seed: int, share: float = 0.85) -> str:
    rng = random.Random(seed)
    rows = (SENTENCES[kind] if rng.random() < share else OTHERS[kind] for _ in range(items))
    return "\n".join(row.format(n=n) for n, row in enumerate(rows, 1))


def found(text: str, prompt: str = "") -> Sequence[Symptom]:
    """What both forms of the detector find, which must be the same."""
    spec, pieces = DetectorSpec("en", prompt_text=prompt), split_pieces(text)
    online, batch = NearLoopDetector(spec), BatchNearLoopDetector(spec)
    for piece in pieces:
        online.update(Token(piece))
    batch.update_all(pieces)
    assert online.symptoms() == batch.symptoms()
    assert online.open_from == batch.open_from
    return online.symptoms()


@pytest.mark.parametrize("kind", range(len(SENTENCES)))
@pytest.mark.parametrize("items", [10, 30, 80])
def test_answers_to_the_items_of_the_prompt_are_no_loop(kind: int, items: int) -> None:
    """As many rows as items were asked about, whatever the verdicts are: all alike, nearly all, some."""
    for share in (1.0, 0.85, 0.6):
        assert found(verdicts(kind, items, items, share), asked(items)) == []


@pytest.mark.parametrize("kind", range(len(SENTENCES)))
def test_a_list_that_goes_on_beyond_the_items_is_a_loop(kind: int) -> None:
    """Ten items, two hundred rows, all alike: the rows after the tenth answer nothing."""
    text = verdicts(kind, 200, 1, 1.0)
    [loop] = found(text, asked(10))
    assert loop.kind is SymptomKind.NEAR_LOOP
    assert detect_text(text, DetectorSpec("en", prompt_text=asked(10)), "length").degenerate


@pytest.mark.parametrize("kind", range(len(SENTENCES)))
def test_a_verdict_that_does_not_go_on_is_a_loop(kind: int) -> None:
    """The third item is judged for ever: its number answers one of the items, and only once."""
    stuck = SENTENCES[kind].format(n=3) + "\n"
    text = verdicts(kind, 2, 1) + "\n" + stuck * 60
    assert detect_text(text, DetectorSpec("en", prompt_text=asked(40)), "length").degenerate


@pytest.mark.parametrize("kind", [0, 1, 3])
def test_verdicts_without_a_rule_in_their_order_are_no_loop(kind: int) -> None:
    """The prompt is not known: sentences that alternate say something, up to the bound of a template."""
    loops = [len(found(verdicts(kind, 40, seed, 0.6))) for seed in range(40)]
    assert sum(loops) <= 2


def test_rows_that_say_the_same_or_go_round_are_a_loop() -> None:
    """The prompt is not known: nothing in the order of the rows says anything."""
    assert found(verdicts(0, 100, 1, 1.0)) != []
    rounds = (row.format(n=n) for n, row in enumerate([SENTENCES[0], OTHERS[0]] * 50, 1))
    assert found("\n".join(rounds)) != []


def test_a_healthy_list_that_falls_into_one_row_is_a_loop() -> None:
    """Different rows, and then one for ever: it comes back to none of them."""
    healthy = [f"{n}. The {topic} of {topic}ville opened in spring." for n, topic in enumerate(TOPICS[:5], 1)]
    looping = [f"{n}. The lighthouse was closed for the winter season." for n in range(6, 60)]
    assert found("\n".join([*healthy, *looping])) != []


@pytest.mark.parametrize(
    ("prompt", "items"),
    [
        ("Say yes.", 0),
        ("1. One\n2. Two\n3. Three", 0),
        (asked(25), 25),
        ("[0] a\n[1] b\n[2] c\n[3] d\n[4] e\n[5] f", 5),
        ("\n".join(f"Document {n}: text of (1) and (2)" for n in range(1, 8)), 7),
        ("\n".join(f'{{"id": {n}, "text": "…"}}' for n in range(1, 31)), 30),
        ("Judge these:\n" + "- a comment\n" * 12, 12),
        ("Sales were 5 in 2019, 7 in 2020 and 12 in 2021.", 0),
    ],
)
def test_the_items_of_a_prompt_are_counted(prompt: str, items: int) -> None:
    """By the numbers at the beginning of its lines or in brackets, from 0 or 1 on, or by its bullets."""
    assert RequestedRepetition(prompt).items == items
