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
    "Q{n}: Yes, the answer is grounded in the context.",
)
OTHERS = (
    "Passage [{n}] is relevant to the query.",
    "{n}. The claim is not mentioned by the source.",
    "Statement {n}: This statement cannot be inferred from the context. Verdict: No",
    "Test case {n} failed with an assertion error.",
    '{{"id": {n}, "label": "neutral"}},',
    "Row {n}: Contains a phone number.",
    "Q{n}: No, the answer is not grounded in the context.",
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(SENTENCES)))
@pytest.mark.parametrize("items", [10, 30, 80])
def test_answers_to_the_items_of_the_prompt_are_no_loop(kind: int, items: int) -> None:
    """As many rows as items were asked about, whatever the verdicts are: all alike (up to 400 words), nearly
    all, some."""
    for share in (1.0, 0.85, 0.6) if items < 80 else (0.85, 0.6):
        assert found(verdicts(kind, items, items, share), asked(items)) == []


@pytest.mark.parametrize(("reason", "in_doubt"), [("stop", False), ("length", True), (None, True)])
def test_verdicts_are_in_doubt_where_they_were_cut(reason: str | None, in_doubt: bool) -> None:
    """A model that ended its list has answered; one that was cut in its rows may have been looping."""
    spec, pieces = DetectorSpec("en", prompt_text=asked(30)), split_pieces(verdicts(0, 30, 3))
    online, batch = NearLoopDetector(spec), BatchNearLoopDetector(spec)
    for piece in pieces:
        online.update(Token(piece))
    batch.update_all(pieces)
    for detector in (online, batch):
        detector.finish(reason)
        assert detector.symptoms() == []
        assert (detector.open_from is not None) is in_doubt


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


@pytest.mark.slow
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


LINES = "\n".join(f"{n:6d}\tdef f{n}(x): return x + {n}" for n in range(1, 251))


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompt",
    [
        f"Review this file.\n{LINES}",
        "Answer from the passages.\n" + "\n".join(f"[{n}] The {TOPICS[n % 8]} opened." for n in range(1, 51)),
        "You are a coding agent.\n" + "- Keep it short.\n" * 80 + "\nExplain the tests.",
    ],
    ids=["code", "passages", "rules"],
)
@pytest.mark.parametrize(
    "row",
    [
        "{n}. The function does not check that its argument is a number before it adds to it.",
        "Step {n}: Check that the value is correct, and then go on to the next step of the guide.",
        "- Reason {n} is that the keeper sleeps well at night because the lamp is lit.",
    ],
)
def test_a_long_prompt_hides_no_loop(prompt: str, row: str) -> None:
    """Line numbers, passages and rules are numbered too, and nobody asked for a verdict on each of them."""
    looping = "\n".join(row.format(n=n) for n in range(1, 60))
    assert found(looping, prompt) != []
    rng = random.Random(1)
    slips = (row.replace("the", rng.choice(["the"] * 9 + ["that"])).format(n=n) for n in range(1, 200))
    assert found("\n".join(slips), prompt) != []


@pytest.mark.parametrize(
    "prompt",
    [
        "Labels:\n- relevant\n- not relevant\n\n"
        + ", ".join(f'{{"id": {n}, "text": "The {TOPICS[n % 8]} opened."}}' for n in range(1, 31)),
        "\n".join(f"{n}. The {TOPICS[n % 8]} opened." for n in range(101, 131)),
    ],
    ids=["JSON behind two bullets", "second batch"],
)
def test_items_are_known_however_they_are_numbered(prompt: str) -> None:
    """A list of labels is not the list of items, JSON numbers its own, and a batch may begin at 101."""
    first = RequestedRepetition(prompt).items.start
    rng = random.Random(2)
    rows = (SENTENCES[0] if rng.random() < 0.85 else OTHERS[0] for _ in range(30))
    assert found("\n".join(row.format(n=n) for n, row in enumerate(rows, first)), prompt) == []


@pytest.mark.parametrize(
    ("prompt", "items"),
    [
        ("Say yes.", range(0)),
        ("1. One\n2. Two\n3. Three", range(0)),
        (asked(25), range(1, 26)),
        ("[0] a\n[1] b\n[2] c\n[3] d\n[4] e\n[5] f", range(6)),
        ("\n".join(f"Document {n}: text of (1) and (2)" for n in range(1, 8)), range(1, 8)),
        ("\n".join(f'{{"id": {n}, "text": "…"}}' for n in range(1, 31)), range(1, 31)),
        ("\n".join(f"TCK-{n}: a ticket" for n in range(4001, 4011)), range(4001, 4011)),
        ("Judge these:\n" + "- a comment\n" * 12, range(1, 13)),
        ("Labels:\n- good\n- bad\n\nA comment.", range(0)),
        ("Sales were 5 in 2019, 7 in 2020 and 12 in 2021.", range(0)),
    ],
)
def test_the_items_of_a_prompt_are_counted(prompt: str, items: range) -> None:
    """By the numbers at the beginning of its lines, in brackets or in JSON, or by its bullets."""
    assert RequestedRepetition(prompt).items == items
