"""The flooding detector: a handful of words own a window; tables, keys and rulers do not count."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.flooding.batch import BatchFloodingDetector
from stresstest.detectors.flooding.blank_end import TAIL, ends_in_blanks
from stresstest.detectors.flooding.one_sign import ends_in_one_sign
from stresstest.detectors.flooding.online import WINDOW, FloodingDetector
from stresstest.detectors.text.requested_repetition import UNCOUNTED_LIMIT
from stresstest.detectors.text.tokens import is_symbol, split_pieces, text_tokens
from stresstest.model import SymptomKind, Token

_NAMES = ("MIN", "MAX", "FIRST", "LAST", "SMALL", "LARGE", "INITIAL", "FINAL")


def watch(text: str, prompt: str = "") -> FloodingDetector:
    detector = FloodingDetector(DetectorSpec(prompt_text=prompt))
    for token in text_tokens(text):
        detector.update(token)
    detector.finish(None)
    return detector


def watch_both(text: str) -> FloodingDetector:
    """The detector after the text, read token by token and at once with the same result."""
    batch = BatchFloodingDetector(DetectorSpec())
    batch.update_all([token.text for token in text_tokens(text)])
    batch.finish(None)
    online = watch(text)
    assert batch.symptoms() == online.symptoms()
    assert batch.open_from == online.open_from
    return online


def prose(count: int, seed: int = 3) -> str:
    """Words of a vocabulary with a few very frequent ones, as in any language."""
    rng = random.Random(seed)
    words = ["the", "of", "and", "a"] * 20 + [
        f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(300)
    ]
    return " ".join(rng.choices(words, k=count))


def flood(words: str, count: int, seed: int = 5) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choices(words.split(), k=count))


@given(st.integers(0, 200), st.integers(80, 300), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_flood_is_found_where_it_begins(before: int, length: int, seed: int) -> None:
    """No period, so no loop: found within a window, dated to its first word."""
    detector = watch(f"{prose(before, seed)} {flood('non sì forse', length, seed)}")
    (found,) = detector.symptoms()
    assert found.onset == before + 1
    assert before + WINDOW * 0.9 <= found.alarm <= before + WINDOW
    assert found.end is None


@given(st.integers(0, 200), st.integers(20, 300), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_flood_is_the_same_read_at_once(before: int, length: int, seed: int) -> None:
    """`scan` reads a whole answer at once, `run` token by token: both find the same floods."""
    text = f"{prose(before, seed)} {flood('non sì forse', length, seed)} {prose(before, seed + 1)}"
    watch_both(text)


_SHORT = [
    "He nodded slowly.", "She smiled again.", "They both waited.", "Nobody said anything.",
    "It rained outside.", "The hours went by.", "The dogs barked again.", "The boat came home late.",
]  # fmt: skip


@given(st.integers(0, 300), st.integers(2, 8), st.integers(0, 400), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_sentences_that_circle_are_a_flood_whoever_reads_them(
    before: int, different: int, count: int, seed: int
) -> None:
    """A few short sentences in ever new order own no window and copy nothing at one distance: they are found
    by how few words they have, and read at once as token by token."""
    rng = random.Random(seed)
    circling = " ".join(rng.choices(_SHORT[:different], k=count))
    text = f"{prose(before, seed)} {circling} {prose(before, seed + 1)}"
    online = watch_both(text)
    assert online.symptoms() or count < 300


_NOUNS = ["star", "moon", "rock", "bird", "wind", "rain", "tree", "sand", "leaf", "fish", "lamp", "boat"]
_EMOJI = ["\U0001f600", "\U0001f680", "\U0001f389", "\U0001f525", "\U0001f4a1", "\U0001f433", "\U0001f332"]


@given(st.integers(0, 300), st.integers(5, 12), st.integers(0, 300), st.booleans(), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_dozen_words_in_any_order_are_a_flood_whoever_reads_them(
    before: int, different: int, count: int, emoji: bool, seed: int
) -> None:
    """Six to twelve words own no window of 64; a gate passed at 15 % where 5 % was the limit."""
    rng = random.Random(seed)
    words = _EMOJI if emoji else _NOUNS
    said = ("" if emoji else " ").join(rng.choices(words[:different], k=count))
    text = f"{prose(before, seed)} {said}"
    online = watch_both(text)
    assert online.symptoms() or count < 160


_FAREWELLS = [
    "Thank you!", "Have a great day!", "Take care!", "Stay safe.", "Best wishes.", "You are welcome!",
    "I hope this helps.", "Let me know.", "Cheers!", "Goodbye for now.", "Looking forward to it.",
    "Please reach out.", "Any questions?", "Just ask.", "All the best!", "Be kind.", "Keep it up!",
]  # fmt: skip


@given(st.integers(0, 300), st.integers(8, 17), st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_stock_phrases_in_any_order_are_a_flood(before: int, different: int, seed: int) -> None:
    """A model that cannot end takes leave for ever. Two or three words hold no four that recur, and there are
    too many for a smaller window: T was four times the truth."""
    rng = random.Random(seed)
    healthy = prose(before, seed)
    text = f"{healthy} {' '.join(rng.choices(_FAREWELLS[:different], k=800))}"
    found = watch_both(text).symptoms()
    assert found
    assert abs(found[0].onset - len(text_tokens(healthy))) <= 90


def test_a_list_of_labels_is_no_flood() -> None:
    """Who classifies a hundred and fifty rows writes a handful of words, one a line."""
    rng = random.Random(3)
    labels = "\n".join(rng.choices(_NOUNS[:6], k=150))
    assert watch(f"Here are the labels:\n{labels}").symptoms() == []


def test_circling_sentences_are_dated_and_end() -> None:
    """The onset is where the circling begins, give or take the words that it takes to be sure; it ends with
    the first healthy paragraph."""
    rng = random.Random(7)
    circling = " ".join(rng.choices(_SHORT[:6], k=300))
    (found,) = watch(f"{prose(400)} {circling} {prose(600, 8)}").symptoms()
    assert 380 <= found.onset <= 420
    assert found.end is not None
    assert "different ones" in found.summary


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_prose_is_never_a_flood(seed: int) -> None:
    """Frequent words make half of a text; four of them never own it."""
    assert watch(prose(800, seed)).symptoms() == []


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"{i}. {'ABCD'[i * 7 % 4]}" for i in range(1, 200)),
        "\n".join(f"{i}. {('True', 'False')[i * i % 3 % 2]}" for i in range(1, 200)),
        "\n".join(f"| {('yes', 'no')[i * i % 3 % 2]} | {('yes', 'no')[i % 2]} |" for i in range(120)),
        "".join(random.Random(1).choices("ACGT", k=900)),
        " ".join(random.Random(1).choices("ACGT", k=900)),
        "".join(rf"\left(\frac{{x_{i % 7}}}{{y}}\right) + \sqrt{{\frac{{a}}{{b}}}} " for i in range(90)),
        "".join(f"<td>{'ab'[i * i % 3 % 2]}</td><td></td>" for i in range(200)),
        "-----  =====  ..... " * 60,
        " ".join(str(i % 3) for i in range(600)),
        "\n \n\t" * 60 + "end",
        "".join(
            f"    private static final int {name}_{also} = {n};\n"
            for n, (name, also) in enumerate(itertools.product(_NAMES, _NAMES))
        ),
    ],
)
def test_keys_tables_sequences_and_rulers_are_no_floods(text: str) -> None:
    """Few symbols are their nature; constants of a module have names of their own."""
    detector = watch(text)
    assert detector.symptoms() == []
    assert detector.open_from is None


def test_a_flood_ends_when_other_words_come_back() -> None:
    """The stretch has an end, and a second flood is a second symptom."""
    text = f"{flood('no yes', 100)} {prose(200)} {flood('si ma', 100)}"
    first, second = watch(text).symptoms()
    assert first.onset == 1
    assert first.end is not None
    assert 60 <= first.end <= 140
    assert (second.onset, second.end) == (301, None)


def test_a_tail_that_may_become_a_flood_is_open() -> None:
    """Forty flooding words at the end of a capped output are not yet known healthy."""
    detector = watch(f"{prose(150)} {flood('no yes', 40)}")
    assert detector.symptoms() == []
    assert detector.open_from == 151
    assert watch(prose(190)).open_from is None


def test_requested_words_may_flood() -> None:
    """Who asks for them gets them."""
    text = flood("heads tails", 200)
    assert watch(text, 'Toss a coin 200 times and write "heads" or "tails".').symptoms() == []
    assert len(watch(text, "Write a poem.").symptoms()) == 1


COIN = 'Toss a coin 60 times and write "heads" or "tails".'


def test_a_requested_flood_is_open_until_it_ends() -> None:
    """It may yet become more than was asked for; once other words come, it was the answer."""
    before = prose(150)
    asked = watch(f"{before} {flood('heads tails', 100)}", COIN)
    assert (asked.symptoms(), asked.open_from) == ([], 151)
    over = watch(f"{before} {flood('heads tails', 100)} {prose(100)}", COIN)
    assert (over.symptoms(), over.open_from) == ([], None)


@pytest.mark.parametrize(
    ("prompt", "bound"), [(COIN, 3 * 60 * 2), ('Write "heads" or "tails" for each toss.', UNCOUNTED_LIMIT)]
)
def test_a_requested_flood_has_a_bound(prompt: str, bound: int) -> None:
    """Beyond three times the count that was asked for it is a flood from its first word on."""
    text = flood("heads tails", bound)
    assert watch(text.rpartition(" ")[0], prompt).symptoms() == []
    detector = watch(text, prompt)
    (found,) = detector.symptoms()
    assert (found.onset, found.alarm, detector.open_from) == (1, bound, None)


@pytest.mark.parametrize(
    "prompt",
    [
        "Toss a coin: heads or tails, what will it be?",
        "Toss a coin, then write about heads and tails and tails and heads.",
        'A story titled "Heads and tails of the old coin", please.',
        'Write "heads" every time.',
    ],
)
def test_words_merely_mentioned_may_not_flood(prompt: str) -> None:
    """Each of the flooding words must be shown as one to repeat."""
    assert len(watch(flood("heads tails", 200), prompt).symptoms()) == 1
    assert watch(flood("heads tails", 40), prompt).open_from == 1


@pytest.mark.parametrize(
    "prompt",
    [
        'Repeat "no yes no maybe" 50 times, in any order.',
        "Go on like this: no no no yes yes yes maybe maybe maybe",
    ],
)
def test_a_quoted_phrase_or_a_shown_row_covers_its_words(prompt: str) -> None:
    """The words of one whole shown phrase, or words that the prompt itself writes three times in a row."""
    assert watch(flood("no yes maybe", 200), prompt).symptoms() == []


def test_requested_words_are_known_in_pieces() -> None:
    """Tokens need not be words."""
    detector = FloodingDetector(DetectorSpec(prompt_text=COIN))
    rng = random.Random(4)
    for _ in range(60):
        for piece in rng.choice([(" hea", "ds"), (" tai", "ls")]):
            detector.update(Token(piece))
    assert detector.symptoms() == []


def test_one_ideograph_is_a_word() -> None:
    """Scripts without spaces flood by the character."""
    assert len(watch("".join(random.Random(2).choices("好的是", k=120))).symptoms()) == 1


def test_subword_pieces_and_case_do_not_hide_a_flood() -> None:
    """Tokens come with blanks before them and capitals at random."""
    detector = FloodingDetector(DetectorSpec())
    rng = random.Random(4)
    for _ in range(100):
        detector.update(Token(rng.choice([" Very", "very", " VERY", " so", ""])))
    (found,) = detector.symptoms()
    assert found.detail["words"] == ["so", "very"]
    assert 0.5 <= found.score < 1


@pytest.mark.parametrize("signs", ["😀😂🎉", "🎉", "\ufffd"])
def test_emoji_flood_like_words(signs: str) -> None:
    """A few emoji in any order, or characters that could not be decoded, are found within a window."""
    (found,) = watch("".join(random.Random(2).choices(signs, k=200))).symptoms()
    assert (found.onset, found.alarm) == (1, WINDOW)


def test_drawings_and_ratings_are_no_flood() -> None:
    """Boxes and blocks are rulers, squares make grids, and stars beside words are ratings."""
    grid = "".join(random.Random(2).choices("⬛⬜", k=400))
    ratings = "\n".join(f"★★★★☆ {prose(12, seed)}" for seed in range(20))
    for text in ("═" * 200 + "█" * 200, "┌─┐│└┘" * 60, grid, ratings):
        assert watch(text).symptoms() == []


def test_symbols_are_counted_where_they_may_flood() -> None:
    """The quick look sees every emoji that a flood could be made of, and no letter, sign or ruler."""
    assert sum(map(is_symbol, "sì, no… ══ → ⬛ + = 😀😀 bene 🎉 \ufffd")) == 4
    assert not any(map(is_symbol, "plain words, 1 + 1 = 2"))


def stray(seed: int, piece: str, strays: tuple[str, ...], share: float) -> str:
    """A flood of one piece with something else now and then."""
    rng = random.Random(seed)
    return "".join(rng.choice(strays) if rng.random() < share else piece for _ in range(3000))


@pytest.mark.parametrize(
    "flood",
    [
        stray(1, "2 ", ("7 ", "13 "), 0.04),
        stray(2, "3,", ("4,", "so,"), 0.04),
        stray(3, "\n", (".\n",), 0.08),
        stray(4, "\n\n", (".", "ok ", "the "), 0.05),
        "".join("\n" + " " * i for i in range(130)),
    ],
)
def test_one_figure_or_white_space_without_end_is_a_flood(flood: str) -> None:
    """No exact loop for the strays, and no word in it: it begins where the flood does."""
    before = "These are the numbers that were asked for, as far as they are known."
    [symptom] = watch(f"{before} {flood}").symptoms()
    assert abs(symptom.onset - len(split_pieces(before))) <= 40
    assert symptom.confirmed


@pytest.mark.parametrize(
    "table",
    [
        "\n".join(",".join(str(int(i % 7 == j)) for j in range(7)) for i in range(120)),
        "\n".join(f"| {i} |          |          | {i * i} |" for i in range(300)),
        "\n".join(" " * 24 + f"return value_{i}" + "\n" for i in range(200)),
    ],
)
def test_sparse_tables_and_deep_code_are_no_floods(table: str) -> None:
    """Zeros, empty cells and indentation are what they are made of."""
    assert watch(table).symptoms() == []


def ended(text: str, reason: str | None = "length", prompt: str = "") -> FloodingDetector:
    """The online detector after an answer; that the others read it in the same way is checked as well."""
    detector = FloodingDetector(DetectorSpec(prompt_text=prompt))
    pieces = [token.text for token in text_tokens(text)]
    for token in text_tokens(text):
        detector.update(token)
    detector.finish(reason)
    batch = BatchFloodingDetector(DetectorSpec(prompt_text=prompt))
    batch.update_all(pieces)
    batch.finish(reason)
    assert batch.symptoms() == detector.symptoms()
    assert batch.open_from == detector.open_from
    found = [symptom for symptom in detector.symptoms() if "the same sign" in (symptom.summary or "")]
    assert ends_in_one_sign(text) or not found
    found = [
        symptom for symptom in detector.symptoms() if "white space, to the end" in (symptom.summary or "")
    ]
    assert ends_in_blanks(text) or not found
    return detector


@pytest.mark.parametrize("unit", ["!", "!!", "! ", "0", "_", "{", "…", "a", ". ", "ha", "на"])
def test_an_answer_of_one_sign_up_to_the_cap_is_a_flood(unit: str) -> None:
    """What vLLM writes when its numbers are NaN is "!!!!" to the cap: with caps of up to 256 tokens a gate
    passed a log that was half of it, as an exact loop of signs needs 257."""
    assert not ended(unit * 15).symptoms()
    shown = unit.strip() if unit.isalpha() else unit[0]
    (found,) = ended("\n" + unit * 40).symptoms()
    assert (found.kind, found.onset, found.end) == (SymptomKind.FLOODING, 2, None)
    count = 40 * len(unit.strip()) // len(shown)
    assert found.summary == f"the same sign {count} times, to the end: “{shown}”"


@pytest.mark.parametrize(
    ("text", "reason", "prompt"),
    [
        ("=" * 200, "stop", ""),
        ("!" * 90, "stop", ""),
        ("=" * 60, "length", "What does print('=' * 100) show?"),
        ("!" * 100, "length", "Go on: !!!!!!"),
        ("\n".join("*" * n for n in range(1, 20)), "length", "Draw a triangle of stars."),
        ("1" + "0" * 100, "length", "Write out a googol."),
        ("Name " + "." * 200, "length", ""),
        ("A heading\n" + "=" * 150, "length", ""),
        ("// first\n" + "/" * 100, "length", ""),
        ("01" * 100, "stop", ""),
    ],
)
def test_drawings_rulers_and_what_was_shown_are_no_floods_of_a_sign(
    text: str, reason: str, prompt: str
) -> None:
    """Rulers and leaders end a text that the cap cuts; a sign that the prompt shows is written on demand."""
    assert ended(text, reason, prompt).symptoms() == []


def test_an_end_of_one_sign_is_in_doubt_where_it_may_be_wanted() -> None:
    """A line of dashes may be the answer: then it does not count as seen. Where it is no line, or nothing
    tells how it ended, 128 are a failure without a cap as well (TRL's completions have no finish
    reason)."""
    assert ended("=" * 200, "stop").open_from == 1
    assert ended("!" * 90, "stop").open_from == 1
    assert ended("Ciao " + "!" * 20, "stop").open_from is None
    assert [len(ended(sign * 200, None).symptoms()) for sign in "!=0"] == [1, 1, 1]
    assert len(ended("!" * 200, "stop").symptoms()) == 1
    assert len(ended("0" * 1000, "stop").symptoms()) == 1
    (found,) = ended("The lamp was lit and the keeper went down " + "!" * 130).symptoms()
    assert found.onset == 10


@pytest.mark.parametrize("blanks", [" ", "\n", "\t", "\n  ", " \r\n"])
@pytest.mark.parametrize("before", ['{"title": "A lamp on the pier",', ""])
def test_white_space_up_to_the_cap_is_a_flood(blanks: str, before: str) -> None:
    """A grammar of JSON allows it between any two tokens: vLLM writes blanks until the cap, and a gate passed
    a log of which a third ended in 450 of them, as a flood of blanks needs a thousand."""
    text = before + blanks * TAIL
    (found,) = ended(text).symptoms()
    assert (found.kind, found.end) == (SymptomKind.FLOODING, None)
    assert found.onset == len(text_tokens(before)) + 1
    assert ended(before + (blanks * TAIL)[: TAIL - 1]).symptoms() == []
    assert ended(text + "}").symptoms() == []
    for reason in ("stop", None):  # padding, perhaps
        assert ended(text, reason).symptoms() == []
        assert ended(text, reason).open_from is not None


@given(
    st.lists(st.sampled_from(["!", "!!", " ", "\n", "a", "=", "word ", "! ", "haha"]), max_size=60),
    st.sampled_from(["length", "stop", None]),
)
@settings(max_examples=200, deadline=None)
def test_ends_of_one_sign_are_the_same_read_at_once(parts: list[str], reason: str | None) -> None:
    """Blanks and breaks in between, before and behind: `ended` compares the three readers."""
    ended("".join(part * 9 for part in parts), reason)
