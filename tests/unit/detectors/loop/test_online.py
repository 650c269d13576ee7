"""The exact-loop detector: planted loops with a known truth, false friends, and its boundaries."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.loop.online import (
    LONG_REPEATED,
    MIN_REPEATED,
    OPEN_REPEATED,
    SAME_CHARACTER_LIMIT,
    LoopDetector,
    min_repeated_tokens,
)
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom, SymptomKind, Token


def watch(tokens: Iterable[Token], prompt: str = "", finish_reason: str | None = None) -> LoopDetector:
    """A detector that has seen all tokens."""
    detector = LoopDetector(DetectorSpec(prompt_text=prompt))
    for token in tokens:
        detector.update(token)
    detector.finish(finish_reason)
    return detector


def by_id(ids: Iterable[int]) -> list[Token]:
    return [Token(f" word{i}", id=i) for i in ids]


def in_text(text: str, prompt: str = "") -> list[Symptom]:
    return watch(text_tokens(text), prompt).symptoms()


@st.composite
def planted(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    """(ids, period, index of the second copy, repeated tokens) of random text that ends in a loop.

    All ids of the text before and of the period are distinct, so the truth is exact.
    """
    period = draw(st.one_of(st.integers(1, 12), st.integers(13, 400)))
    before = draw(st.integers(0, 120))
    repeated = min_repeated_tokens(period) + draw(st.integers(0, 60))
    ids = list(range(1000))
    random.Random(draw(st.integers(0, 10_000))).shuffle(ids)
    prefix, unit = ids[:before], ids[before : before + period]
    tail = [unit[i % period] for i in range(period + repeated)]
    return prefix + tail, period, before + period, repeated


@given(planted())
@settings(max_examples=60, deadline=None)
def test_a_planted_loop_is_found_at_its_second_copy(case: tuple[list[int], int, int, int]) -> None:
    """Any period, no maximum: exact onset, start, primitive period and exponent, alarm at the bound."""
    ids, period, second, repeated = case
    (loop,) = watch(by_id(ids)).symptoms()
    assert loop.onset == second + 1
    assert loop.start == second - period + 1
    assert loop.end is None
    assert loop.alarm == second + min_repeated_tokens(period)
    assert loop.detail["period"] == period
    assert loop.detail["exponent"] == pytest.approx((repeated + period) / period, abs=0.01)


@given(planted(), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_what_was_reported_never_changes_its_onset(case: tuple[list[int], int, int, int], after: int) -> None:
    """Online answers are kept: onset and alarm stay as first reported while the text goes on, also
    after the loop has broken off; and no alarm comes before its onset or before it could be known."""
    ids, *_ = case
    detector = LoopDetector(DetectorSpec())
    seen: dict[int, int] = {}
    for n, token in enumerate(by_id([*ids, *range(5000, 5000 + after)]), 1):
        detector.update(token)
        for symptom in detector.symptoms():
            assert symptom.onset <= symptom.alarm <= n
            assert seen.setdefault(symptom.onset, symptom.alarm) == symptom.alarm
    detector.finish("stop")
    assert [s.onset for s in detector.symptoms()] == list(seen)
    assert detector.symptoms()[0].end == len(ids)


@given(st.integers(0, 10_000), st.integers(1, 1500))
@settings(max_examples=30, deadline=None)
def test_random_text_holds_no_loop(seed: int, length: int) -> None:
    """Words drawn from a small vocabulary repeat phrases by chance; that is no loop."""
    rng = random.Random(seed)
    detector = watch(by_id(rng.choices(range(60), k=length)))
    assert detector.symptoms() == []
    assert not detector.loop_active


@pytest.mark.parametrize("period", [1, 2, 6, 7, 24, 60, 100, 137, 500])
def test_one_token_below_the_bound_is_no_loop(period: int) -> None:
    """The bound is exact: one repeated token less is an open candidate from its second copy on."""
    unit = list(range(period))
    tail = [unit[i % period] for i in range(period + min_repeated_tokens(period))]
    short = watch(by_id(tail[:-1]))
    assert short.symptoms() == []
    assert short.open_from == period + 1
    assert [s.onset for s in watch(by_id(tail)).symptoms()] == [period + 1]


def test_the_bound_asks_for_three_copies_or_a_long_second_one() -> None:
    """Short periods: 48 repeated tokens; middle ones: three copies; long ones: two and a third begun."""
    assert min_repeated_tokens(1) == min_repeated_tokens(24) == MIN_REPEATED
    assert min_repeated_tokens(60) == 120
    assert min_repeated_tokens(130) == LONG_REPEATED
    assert min_repeated_tokens(1000) == 1064


def test_a_candidate_is_open_from_twelve_repeated_tokens_on() -> None:
    """What was observed is cut at a run that may become a loop, and not at every stock phrase."""
    phrase = list(range(100, 100 + OPEN_REPEATED))
    text = [*phrase, 1, 2, 3, 4, 5, *phrase]
    assert watch(by_id(text[:-1])).open_from is None
    assert watch(by_id(text)).open_from == len(phrase) + 6
    assert watch(by_id([*text, 999])).open_from is None


def test_a_passage_that_stands_twice_is_no_loop() -> None:
    """A text restated once, however long, is judged by what follows: only a third copy makes a loop."""
    passage = list(range(700))
    assert watch(by_id([*passage, *passage, 5000, 5001, 5002])).symptoms() == []


def test_a_refrain_between_different_verses_is_no_loop() -> None:
    """Copies that are not adjacent have no period."""
    refrain = list(range(100))
    text = [i for verse in range(8) for i in [*refrain, *range(1000 + 90 * verse, 1090 + 90 * verse)]]
    assert watch(by_id(text)).symptoms() == []


@pytest.mark.parametrize(
    "text",
    [
        "-" * 200,
        "=" * 200,
        "- " * 120,
        "| --- " * 50 + "|\n",
        "." * 200,
        "_" * 200,
        "_" * 1000,
        "Total:" + " " * 1000 + "12",
        "\n" * 200,
        " \n" * 100,
        "0, " * 100,
        "a" * 2000,
        "哈" * 200,
        "|   |   |   |   |\n" * 20,
        "| Name |" + " " * 600 + "|\n|------|" + "-" * 600 + "|",
        "+" + "-----+" * 100,
    ],
)
def test_separators_and_one_character_runs_are_no_loops_below_a_generous_length(text: str) -> None:
    """Rulers, dotted lines, form blanks, empty cells, zeros and laughter are typography."""
    assert in_text(f"A heading\n{text}\nand the text goes on.") == []


@pytest.mark.parametrize("blank", [" ", "\t", " \t", "\u00a0", "\u3000", "_", "0"])
def test_blanks_and_signs_that_tokens_hold_by_the_dozen(blank: str) -> None:
    """A server asked for JSON that writes blanks up to its cap: few tokens, many characters, no words."""
    for text in (f'{{"name": "Anna",{blank * 3000}', f"The form: {blank * 3000}"):
        assert [loop.onset for loop in in_text(text)] != []


@pytest.mark.parametrize("word", [" 0", " 583920", " 1,000", " x", ", 42", "\t00"])
@pytest.mark.parametrize(
    ("copies", "reason", "loops"), [(70, "length", 1), (16, "length", 0), (70, "stop", 0)]
)
def test_one_number_up_to_the_cap(word: str, copies: int, reason: str, loops: int) -> None:
    """Thirty of 300 answers wrote one number 200 times, until they were cut, and a gate passed."""
    told = watch(text_tokens(f"The result of the sum is{word * copies}"), finish_reason=reason).symptoms()
    assert len(told) == loops


def test_a_matrix_of_zeros_may_be_cut() -> None:
    """Its rows are what was asked for."""
    text = "The matrix:\n" + ("0 " * 12 + "\n") * 12
    assert watch(text_tokens(text), finish_reason="length").symptoms() == []


def test_the_digits_of_a_number_may_be_tokens() -> None:
    """Qwen's and Gemma's tokenizers make a token of each: at a cap of 1,024, six digits were never a loop."""
    tokens = [Token(each) for each in "The result is" + " 583920" * 40]
    (loop,) = watch(tokens, finish_reason="length").symptoms()
    assert loop.detail["period"] == 7


def test_a_ruler_without_end_is_a_loop() -> None:
    """Generous is not unlimited: more than a thousand dashes are a failure like any other."""
    (loop,) = in_text("A heading\n" + "- " * 1100)
    assert loop.alarm - loop.onset + 1 == SAME_CHARACTER_LIMIT
    assert loop.detail["period"] == 1


NOTATIONS = [
    r"(25[0-5]|2[0-4]\d|1?\d?\d)\.",
    "| G2 FG A2 | B2 AG E2 | D2 FG A2 | B2 z2 |\n",
    "\\\\ \\hline\n\\cellcolor{gray} & & & & & & & &\n",
]


@pytest.mark.parametrize("notation", NOTATIONS)
def test_notation_repeats_as_it_should(notation: str) -> None:
    """The four numbers of an address in a pattern, a line of a tune that is played four times and the empty
    rows of a table are no loop; what goes on without end is one, from its second copy on."""
    assert in_text(f"As wanted:\n{notation * 4}\nIt is complete.") == []
    (loop,) = in_text(f"As wanted:\n{notation * 40}")
    assert loop.onset <= len(text_tokens(f"As wanted:\n{notation * 2}"))


def test_code_and_capitals_that_repeat_are_still_loops() -> None:
    """A quarter of the tokens as words is enough for the usual bound, however many signs surround them."""
    for unit in ('    "name": None,\n', "print(x) ", "HELP! ", "I do - "):
        (loop,) = in_text("So it begins: " + unit * 40)
        assert loop.detail["repeated"] >= MIN_REPEATED


def test_numbered_lists_and_tables_are_no_loops() -> None:
    """A counter in every row breaks the period: that is structure, or a near-loop, never an exact loop."""
    assert in_text("".join(f"{i}. Check the pressure gauge and write it down.\n" for i in range(1, 80))) == []
    assert in_text("".join(f"| {i} | yes | no | {i * i} |\n" for i in range(1, 80))) == []


def test_a_sentence_over_and_over_is_a_loop_in_plain_text() -> None:
    """Text without token ids works alike; the onset is the first word of the second copy."""
    (loop,) = in_text("It was late! " + "The sea was calm and the wind was gone. " * 8)
    assert loop.detail["period"] == 10
    assert (loop.start, loop.onset) == (5, 15)
    assert "The sea was calm" in loop.summary


def test_the_period_is_primitive() -> None:
    """Words that alternate are one period of two, not a longer one repeated less often."""
    (loop,) = in_text("no yes " * 60)
    assert loop.detail["period"] == 2


@pytest.mark.parametrize(
    "prompt",
    [
        "Write the line  'I will not\ntalk in class again.' forty times.",
        "Copy: I will not talk in class again. I will not talk in class again. And so on.",
    ],
)
def test_requested_repetition_is_exempt(prompt: str) -> None:
    """The prompt's own template, white space aside, is what was asked for; while it stands it is open,
    never observed as healthy."""
    answer = "I will not talk in class again.\n" * 40
    assert in_text(answer, prompt) == []
    assert watch(text_tokens(answer), prompt).open_from == 10
    assert watch(text_tokens(answer + "That was it, teacher."), prompt).open_from is None
    assert len(in_text(answer, "Write a story about a school.")) == 1


def test_a_common_word_in_the_prompt_exempts_nothing() -> None:
    """The prompt holds "the", as every prompt does; a flood of "the" was not asked for."""
    assert len(in_text("the " * 80, "Write about the sea and the wind.")) == 1
    assert in_text("ha " * 80, 'Write "ha" a hundred times.') == []


def test_a_loop_that_ends_by_itself_has_an_end() -> None:
    """Recovered loops are told from standing ones."""
    detector = watch(by_id([*(i % 9 for i in range(90)), *range(100, 140)]), finish_reason="stop")
    (loop,) = detector.symptoms()
    assert loop.end == 90
    assert not detector.loop_active


def test_a_loop_cut_within_a_token_still_stands() -> None:
    """A cap or a lost stream may halve the last token; that is no recovery. A model that stops is."""
    cut = by_id([*(i % 9 for i in range(90)), 777])
    assert watch(cut, finish_reason="length").symptoms()[0].end is None
    assert watch(cut, finish_reason="stop").symptoms()[0].end == 90


def test_a_loop_that_falls_back_into_its_period_is_one_loop() -> None:
    """One changed word in a loop of thousands must not make two loops, nor a recovery."""
    ids = [i % 9 for i in range(200)]
    ids[150] = 777
    (loop,) = watch(by_id(ids)).symptoms()
    assert (loop.onset, loop.end) == (10, None)


def test_short_loops_inside_a_long_period_do_not_pile_up() -> None:
    """A long loop whose period holds a short one stays one standing loop."""
    unit = [*range(50), *([999] * 60)]
    loops = watch(by_id(unit * 30)).symptoms()
    assert any(loop.detail["period"] == len(unit) and loop.end is None for loop in loops)
    assert len(loops) <= 4


def test_a_loop_over_turns_of_reasoning_and_answer() -> None:
    """Forty copies of a thought and an answer were healthy: each change threw away what was read."""
    copy = [Token(f"t{i}", id=i, reasoning=True) for i in range(60)] + [
        Token(f"a{i}", id=100 + i) for i in range(40)
    ]
    (loop,) = watch(copy * 10).symptoms()
    assert loop.onset == len(copy) + 1


def test_an_answer_may_quote_its_reasoning() -> None:
    """No run crosses from the reasoning into the answer; a loop inside the reasoning is a loop."""
    draft = list(range(300))
    thought = [Token(f"w{i}", id=i, reasoning=True) for i in draft * 2]
    assert watch([*thought, *by_id(draft)]).symptoms() == []
    looping = [Token(f"word{i % 7}", id=i % 7, reasoning=True) for i in range(100)]
    assert len(watch([*looping, *by_id(range(100, 300))]).symptoms()) == 1


def test_the_score_grows_with_the_loop() -> None:
    """Monotone in evidence, from a half at the bound towards one."""
    scores = [watch(by_id(i % 5 for i in range(n))).symptoms()[0].score for n in (53, 80, 200, 2000)]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(0.5)
    assert scores[-1] > 0.95


@pytest.mark.parametrize("blanks", ["", " ", "\n", "\n\n \n"])
@pytest.mark.parametrize("reason", ["stop", "length", None])
def test_blanks_at_the_end_do_not_end_a_loop(blanks: str, reason: str | None) -> None:
    """A last line break says nothing else than the loop; a sentence after it does."""
    (loop,) = watch(text_tokens("sempre " * 120 + blanks), finish_reason=reason).symptoms()
    assert loop.end is None
    text = "sempre " * 120 + blanks + "Poi la storia finì bene e tutti furono contenti."
    (ended,) = watch(text_tokens(text), finish_reason=reason).symptoms()
    assert ended.end is not None


@pytest.mark.parametrize("pieces", [["\uff9e"], ["", "", "\uff9e"], ["\u0301"], ["", ""], ["\ufffd", ""]])
def test_signs_that_are_no_characters_of_their_own_loop_too(pieces: list[str]) -> None:
    """Combining marks, and tokens that hold a part of a character (a server sends them with no text): a real
    model's tail of such tokens once ended the detector instead of the answer."""
    tokens = [Token(piece, id=number) for _ in range(700) for number, piece in enumerate(pieces)]
    detector = watch([*by_id(range(100, 120)), *tokens])
    assert detector.loop_active


@pytest.mark.slow
@given(st.lists(st.text(max_size=3), min_size=1, max_size=6), st.integers(1, 400))
@settings(max_examples=150, deadline=None)
def test_any_text_repeated_ends_no_detector(pieces: list[str], copies: int) -> None:
    """Whatever characters a period is made of, with ids or without."""
    for numbered in (True, False):
        watch(
            Token(piece, id=n if numbered else None) for _ in range(copies) for n, piece in enumerate(pieces)
        )


def test_ids_that_cannot_be_true_are_not_believed() -> None:
    """A server that names one id for every token would make a loop of every answer; its texts are read, from
    the first token on."""
    sentence = "The old boat left the quiet harbour before the morning bell, and nobody waited on the pier. "
    healthy = [Token(each.text, id=0) for each in text_tokens("".join(f"{i} {sentence}" for i in range(3)))]
    assert watch(healthy).symptoms() == []
    plain = text_tokens(sentence * 20)
    [by_text], [found] = watch(plain).symptoms(), watch([Token(t.text, id=7) for t in plain]).symptoms()
    assert found == by_text


def test_one_true_id_in_uneven_pieces_is_a_loop() -> None:
    """A chunk of one repeated token may have been cut into pieces that are not the token's text."""
    pieces = [" the", " the", " t", "he"] * 40
    [found] = watch([Token(piece, id=5) for piece in pieces]).symptoms()
    assert (found.onset, found.detail["period"]) == (2, 1)


def test_what_the_server_stopped_as_a_repetition_is_a_loop() -> None:
    """vLLM's repetition detection ends an answer long before 48 tokens repeat. Words that repeat there are a
    loop, unless they were asked for; of a ruling nobody knows whether the server was right."""
    text = "At night the song was quiet." + " Then the river rose again." * 4
    (loop,) = watch(text_tokens(text), finish_reason="repetition").symptoms()
    assert (loop.kind, loop.confirmed) == (SymptomKind.LOOP, True)
    assert watch(text_tokens(text), finish_reason="length").symptoms() == []
    asked = 'Write "Then the river rose again." ten times.'
    assert watch(text_tokens(text), asked, finish_reason="repetition").symptoms() == []
    assert watch(text_tokens("A title\n" + "-=" * 20), finish_reason="repetition").symptoms() == []


@pytest.mark.parametrize(("period", "copies"), [("142857", 400), ("Wait", 200), ("hello", 160), ("01", 1200)])
def test_a_loop_without_blanks_is_one_in_plain_text_too(period: str, copies: int) -> None:
    """One endless word, as text without tokens shows it: a gate passed two hundred of them."""
    text = f"The share is the whole divided by seven, and the result is 0.{period * copies}"
    found = detect_text(text, DetectorSpec(language="en"), "length")
    assert found.symptom is SymptomKind.LOOP
    assert detect_recorded(text, DetectorSpec(language="en"), "length").onset == found.onset


@pytest.mark.parametrize(
    ("unit", "copies", "loops"),
    [
        (" He did not know what to say.", 5, True),
        (" I'm sorry.", 12, True),
        (" He did not know what to say.", 3, False),
        (" I'm sorry.", 8, False),
        ("\n| | | | |", 9, False),
    ],
)
def test_a_cap_may_cut_a_loop_before_its_bound(unit: str, copies: int, loops: bool) -> None:
    """A short cap leaves a loop no room for 48 repeated tokens: at two thirds of them, in the fourth copy, it
    is one, where the output ended at the cap. One that the model ended itself is a refrain."""
    text = (
        f"The keeper climbed the stairs and lit the lamp. Rain fell on the roofs of the town.{unit * copies}"
    )
    for reason, expected in (("length", loops), ("stop", False)):
        found = detect_text(text, DetectorSpec(language="en"), reason)
        assert any(s.kind is SymptomKind.LOOP for s in found.symptoms) is expected, reason
        recorded = detect_recorded(text, DetectorSpec(language="en"), reason)
        assert (recorded.onset, recorded.alarm) == (found.onset, found.alarm)


@pytest.mark.parametrize("row", ["</td></tr></table>", "</td>\n</tr>\n</table>\n", "</div>", "</div>\n"])
def test_nested_elements_are_closed_one_after_the_other(row: str) -> None:
    """Tables in e-mails stand in each other: eight levels that are closed are no loop. 400 tags are, and
    sixty that a cap has cut."""
    opened = "<html><body>" + "".join(f'<table><tr><td class="c{n}">' for n in range(8))
    text = f"{opened}<p>Your invoice for the month of May. Please pay within thirty days of receipt.</p>"
    tags = row.count("</")
    closed = row * (8 if tags == 3 else 13)
    assert in_text(f"{text}{closed}</body></html>") == []
    [loop] = in_text(text + row * (400 // tags))
    assert loop.end is None
    assert watch(text_tokens(text + row * (60 // tags)), finish_reason="length").symptoms()
