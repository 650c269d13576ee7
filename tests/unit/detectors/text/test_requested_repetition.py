"""What a prompt asks to be repeated, and what merely stands in it: a loop on the latter is a loop."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable
from itertools import permutations
from unittest.mock import Mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.extra_turns import online as extra_turns
from stresstest.detectors.loop.online import LoopDetector, min_repeated_tokens
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text import requested_repetition
from stresstest.detectors.text.requested_repetition import (
    COUNT_TOLERANCE,
    UNCOUNTED_LIMIT,
    RequestedRepetition,
)
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.tasks import load_task

LINE = "I will not talk in class again."
"""Nine tokens a copy, its line break included."""


def watch(text: str, prompt: str, **spec: int) -> LoopDetector:
    detector = LoopDetector(DetectorSpec(prompt_text=prompt, **spec))  # type: ignore[arg-type]
    for token in text_tokens(text):
        detector.update(token)
    detector.finish("length")
    return detector


def found(text: str, prompt: str) -> list[Symptom]:
    return watch(text, prompt).symptoms()


def shipped() -> list[str]:
    """Every shipped prompt that a few topics give."""
    tasks = [load_task(name) for name in ("narrative", "qa", "technical")]
    return [
        task.prompt(language, index, 20).messages[-1].content
        for task in tasks
        for language in task.languages
        for index in range(3)
    ]


SHIPPED = shipped()


@given(
    words=st.integers(3, 30),
    at=st.integers(0, 400),
    size=st.integers(60, 400),
    before=st.integers(0, 40),
    marks=st.lists(
        st.sampled_from(["", "", "", ",", ".", ":", "\n", " –", ";\n\n", " 3"]), min_size=7, max_size=7
    ),
    closing=st.sampled_from(["", ",", ".", "!", "\n", "\n\n", " –"]),
)
@settings(max_examples=150, deadline=None)
def test_a_loop_on_words_of_the_prompt_is_found_at_its_second_copy(
    words: int, at: int, size: int, before: int, marks: list[str], closing: str
) -> None:
    """Any 3 to 30 words that stand there once and unquoted, wherever cut: exact onset, start and alarm."""
    vocabulary = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(size)]
    marked = [word + marks[i % len(marks)] for i, word in enumerate(vocabulary)]
    prompt = "Repeat 50 times what is asked. " + " ".join(marked)
    first = min(at, size - words)
    unit = " " + " ".join(marked[first : first + words]) + closing
    period = len(text_tokens(unit))
    assume(4 * words >= period)  # with more signs than that it is notation, which must repeat more
    lead = "".join(f" other{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(before))
    (loop,) = found(lead + unit * (2 + min_repeated_tokens(period) // period), prompt)
    assert (loop.start, loop.onset) == (before + 1, before + period + 1)
    assert loop.alarm == before + period + min_repeated_tokens(period)


@pytest.mark.slow
@given(st.sampled_from(SHIPPED), st.integers(3, 30), st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_the_shipped_prompts_exempt_nothing(prompt: str, words: int, seed: int) -> None:
    """Loops on their instructions and topics are judged as if there were no prompt."""
    parts = prompt.split(" ")
    first = random.Random(seed).randrange(max(1, len(parts) - words))
    fragment = " ".join(parts[first : first + words])
    assume(not set(fragment) & set("«»“”„\"'"))  # a unit's label is quoted, and alone may be repeated a while
    text = "Once more, then. " + f"{fragment} " * 40
    assert found(text, prompt) == found(text, "")
    assert found(text, prompt)


@pytest.mark.parametrize(
    ("prompt", "period"),
    [
        (
            "Tell a story. Carry the plot onward without summaries.",
            "carry the plot onward without summaries, ",
        ),
        (
            'He said: "The sea was calm and the wind was gone that day." Go on.',
            "The sea was calm and the wind. ",
        ),
        ("Use this:\n```\nfirst line here\nsecond line there\n```", "second line there\n"),
        ("1. Write in Italian, please.\n2. Never repeat yourself, ever.\n", "Never repeat yourself, ever. "),
        ("Don't say what the boys' mother won't say again.", "t say what the boys "),
        ("They had had enough of that that day.", "had "),
        ("Un piano nostro, la nonna no.", "no "),
        ("Answer 50 times a day: never mind.\nThe sea was calm and blue.", "The sea was calm and blue. "),
        ("Line 5: all is well here. Line 6: all is well here.", "Line 7: all is well here. "),
    ],
)
def test_what_is_merely_mentioned_is_not_requested(prompt: str, period: str) -> None:
    """Instructions, parts of a quotation, enumerated rules, apostrophes, a doubled word, a stuck counter."""
    assert RequestedRepetition(prompt).requested_copies(period) is None
    assert len(found(period * 80, prompt)) == 1


@pytest.mark.parametrize(
    ("prompt", "period"),
    [
        (f'Write "{LINE}" again and again.', LINE + "\n"),
        (f"Write «{LINE}» again and again.", "- " + LINE.lower() + "\n"),
        (f"Schreib „{LINE}“ immer wieder.", LINE + " "),
        (f"Write `{LINE}` on and on.", "talk in class again. I will not "),
        (f"Fill the page with:\n```text\n{LINE}\nI promise.\n```", f"promise.\n\n{LINE}\nI "),
        (f"Go on:\n1. {LINE}\n2. {LINE}\n", LINE + "\n"),
        (f"Go on: {LINE} {LINE}", f"class again. {LINE} I will not talk in "),
        (
            "Print blank forms.\nName: ____ Date: ____\nSigned: ____\n",
            "Signed: ____\nName: ____ Date: ____\n",
        ),
        ("Print blank forms.\nName: ____ Date: ____\nSigned: ____\n", "Signed: ________\n"),
        ("Write 'I won't be late' and 'I can't lie' in turn.", "I can't lie. I won't be late. "),
        ("请不断地写“我爱学习”。", "学习我爱"),
        ("请不断地写「我爱学习」。", "我爱学习。\n"),
        ("Write “ha ha ha” for a page.", "ha "),
        ("Write “😀🎉” for a page.", "🎉😀"),
    ],
)
def test_what_is_shown_for_repetition_is_requested(prompt: str, period: str) -> None:
    """Quoted, in a block, as a blank form or several times in a row: read from whichever token on."""
    assert RequestedRepetition(prompt).requested_copies(period) == 0


@pytest.mark.parametrize(
    ("prompt", "copies"),
    [
        (f'Write "{LINE}" 50 times.', 50),
        (f"Scrivi 50 volte la frase «{LINE}».", 50),
        (f"Write this line 50 times:\n{LINE}", 50),
        (f"请写五十次，即50次：“{LINE}”", 50),
        (f'Write "{LINE}" 1,200 times, not 3 times.', 1200),
        (f'Write "{LINE} {LINE}" 25x.', 50),
        (f'In 1984 he was 12. Write "{LINE}" for me.', 0),
        (f'Walk 70 times around.{" Then rest." * 30} Write "{LINE}" for me.', 0),
        (f'Never return more than 1000 rows. If the question is unrelated, answer "{LINE}"', 0),
    ],
)
def test_the_count_is_read_beside_the_text(prompt: str, copies: int) -> None:
    """A figure with a word for times, rows or copies, near by; any other figure counts nothing."""
    assert RequestedRepetition(prompt).requested_copies(LINE + "\n") == COUNT_TOLERANCE * copies


def test_units_without_a_number_are_a_count() -> None:
    """Unnumbered units may be alike; numbered ones are not, so their count allows for nothing."""
    assert (
        RequestedRepetition(f'Fill in "{LINE}" for each.', 30).requested_copies(LINE) == COUNT_TOLERANCE * 30
    )
    spec = DetectorSpec(prompt_text=f'"{LINE}"', units=900, unit_pattern=r"^(\d+)\.")
    detector = LoopDetector(spec)
    for token in text_tokens((LINE + "\n") * 60):
        detector.update(token)
    assert len(detector.symptoms()) == 1


@pytest.mark.parametrize(
    ("prompt", "needed"),
    [
        (f'Write "{LINE}" 50 times.', COUNT_TOLERANCE * 50 * 9),
        (f'Write "{LINE}" for a page.', UNCOUNTED_LIMIT),
    ],
)
def test_the_bound_ends_the_exemption(prompt: str, needed: int) -> None:
    """One token below it the run is open from its second copy; at it, it is a loop with that onset."""
    tokens = text_tokens("Yes, sir: " + (LINE + "\n") * (needed // 9 + 3))
    last = 4 + 9 + needed
    detector = LoopDetector(DetectorSpec(prompt_text=prompt))
    for n, token in enumerate(tokens[:last], 1):
        assert detector.symptoms() == []
        if n > 4 + 9 + 12:  # this one is still to come
            assert detector.open_from == 4 + 9 + 1
        detector.update(token)
    (loop,) = detector.symptoms()
    assert (loop.onset, loop.alarm) == (4 + 9 + 1, last)
    assert detector.open_from is None


def test_lines_alike_with_numbers_of_their_own_are_no_loop() -> None:
    """A form shown once and filled forty times has no period at all."""
    form = 'Fill in 40 of these: "Customer {n}: order received, paid in full, shipped on day {n}."'
    lines = [f"Customer {n}: order received, paid in full, shipped on day {n}.\n" for n in range(1, 41)]
    detector = watch("".join(lines), form)
    assert (detector.symptoms(), detector.open_from) == ([], None)


def test_words_split_by_the_tokenizer_do_not_matter() -> None:
    """The period may begin within a word."""
    pieces = [" pre", "sume", " I", " will", " not", " con", "sume", " I", " will", " not", " con", "sume"]
    tokens = [
        Token(piece, id=zlib.crc32(piece.encode()) & 0xFFFFFF) for piece in pieces[:1] + pieces[1:6] * 40
    ]
    for prompt, loops in (('Write "I will not consume" always.', 0), ("I will not consume more.", 1)):
        detector = LoopDetector(DetectorSpec(prompt_text=prompt))
        for token in tokens:
            detector.update(token)
        assert len(detector.symptoms()) == loops


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompt",
    ['"' * 60_000, "'a " * 40_000, '"a b" ' * 20_000, "```" * 30_000, "a_b " * 50_000, "50 times " * 20_000],
)
def test_a_hostile_prompt_costs_little(prompt: str) -> None:
    """Read in linear time: anything worse would not end here within a test run."""
    requests = RequestedRepetition(prompt)
    for period in ("a b ", "the sea was calm ", "a " * 3000):
        assert requests.requested_copies(period) in (None, 0, 150)
        requests.requested_words([period])


def test_four_of_many_phrases_in_turn_are_requested() -> None:
    """Some begin with one another."""
    shown = [
        " ".join(["go"] * n + [f"to {place}"]) for place in ("bed", "town", "sea", "work") for n in (1, 2)
    ]
    asked = RequestedRepetition("Say these again and again: " + ", ".join(f"'{each}'" for each in shown))
    for four in permutations(shown, 4):
        assert asked.requested_copies(" ".join(four) + " ") is not None


def test_texts_that_overlap_in_too_many_ways_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of 37 kB, and an answer that repeats it, held a guard's event loop for more than a minute."""
    words = [f"{first}{second}" for first in "bcdfgh" for second in "aeiou"]
    shown = [" ".join((words * 2)[at : at + n]) for at in range(len(words)) for n in range(1, 11)]
    asked = RequestedRepetition("The vocabulary: " + ", ".join(f'"{each}"' for each in shown))
    tried = Mock(side_effect=requested_repetition._lay_tiles)
    monkeypatch.setattr(requested_repetition, "_lay_tiles", tried)
    assert asked.requested_copies(" ".join(words * 2 + ["end"]) + " ") is None
    assert tried.call_count <= requested_repetition._MOST_TRIED


def test_a_period_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop asks at each of its copies, and a long prompt is read for each answer."""
    asked = RequestedRepetition("a " * 5000)
    looked = Mock(side_effect=requested_repetition._continues_in)
    monkeypatch.setattr(requested_repetition, "_continues_in", looked)
    assert {asked.requested_copies("a " * n) for n in range(1, 100)} == {0}
    assert looked.call_count <= 2


def test_a_prompt_is_read_once_for_all_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred loops in answer to 0.75 MB took three minutes: each detector read it for each of them."""
    read = Mock(side_effect=requested_repetition._shown_spans)
    monkeypatch.setattr(requested_repetition, "_shown_spans", read)
    prompt = "Tell me about the harbour. " * 40 + "This prompt is no other test's."
    spec = DetectorSpec("en", prompt_text=prompt)
    answers = [
        RecordedText(f"No. {n}: " + "and so it goes on and on " * 40, spec, "length") for n in range(5)
    ]
    assert all(verdict.degenerate for verdict in detect_many(answers))
    assert read.call_count == 1


@pytest.mark.parametrize(
    ("period", "copies"),
    [
        ("no rain, no rain today ", 0),
        ("Then the pressure is read from the gauge on the left side of the tank. ", None),
    ],
)
def test_a_sentence_twice_in_a_row_is_no_example(period: str, copies: int | None) -> None:
    """Histories, logs and the results of tools have loops in them; a few words twice are a pattern."""
    assert RequestedRepetition(f"Go on: {period}{period}").requested_copies(period) == copies


_FALLBACK = "The answer you are looking for is not found in the knowledge base!"
_RAG = (
    f'When all content is irrelevant to the question, your answer must include the sentence "{_FALLBACK}" '
    "Answers need to consider chat history."
)


@pytest.mark.parametrize(
    ("prompt", "finish", "loops"),
    [
        (_RAG, "length", True),
        (_RAG, None, True),
        (_RAG, "stop", False),
        (f'You help in real time. If nothing is found, say "{_FALLBACK}"', "length", True),
        (f'Answer in at most 20 lines. If unsure, say "{_FALLBACK}"', "length", True),
        (f'Write "{_FALLBACK}" forty times.', "length", False),
        (f'Write forty times: "{_FALLBACK}"', "length", False),
        (f'Write "{_FALLBACK}" 40 times.', "length", False),
        (f"Go on: {_FALLBACK} {_FALLBACK}", "length", True),
    ],
)
@pytest.mark.parametrize("cut", [0, 4, 9])
def test_a_sentence_that_a_prompt_quotes_for_one_case_is_no_request_to_repeat_it(
    prompt: str, finish: str | None, loops: bool, cut: int
) -> None:
    """RAGFlow's default prompt quotes what to answer where nothing was found: models loop on it up to the
    cap, and a gate passed. Wherever the cap cuts, within a word too."""
    text = f"{_FALLBACK} " * 17 + _FALLBACK[: 60 + cut]
    spec = DetectorSpec(prompt_text=prompt)
    (recorded,) = detect_many([RecordedText(text, spec, finish)])
    assert (recorded.symptom is SymptomKind.LOOP) == loops
    assert (detect_tokens(text_tokens(text), spec, finish).symptom is SymptomKind.LOOP) == loops


@pytest.mark.parametrize(
    "prompt",
    [
        "当所有知识库内容都与问题无关时，你的回答必须包括“知识库中未找到您要的答案！”这句话。回答需要考虑聊天历史。",
        "如果无法从中得到答案，请说“知识库中未找到您要的答案！”，不允许在答案中添加编造成分。",
    ],
)
def test_a_short_sentence_without_blanks_is_one_too(prompt: str) -> None:
    """RAGFlow's and Langchain-Chatchat's default prompts; 回 in "answer" is no word for times there."""
    text = "知识库中未找到您要的答案！" * 18
    (found,) = detect_many([RecordedText(text, DetectorSpec(prompt_text=prompt), "length")])
    assert found.symptom is SymptomKind.LOOP


@pytest.mark.parametrize(
    "prompt",
    [
        "Ты полезный ассистент. Отвечай чётко и по делу.",
        "Our mantra is: customers first. Answer the question.",
        "Um terço dos clientes usa o aplicativo.",
        "You are the assistant of a travel agency in Rosario, Argentina.",
    ],
)
def test_a_word_that_may_name_a_prayer_asks_for_no_repetition(prompt: str) -> None:
    """ "Clearly", "mantra" and "a third" stand in ordinary prompts, and any loop was healthy there."""
    assert RequestedRepetition(prompt).requested_copies(LINE) is None


def test_exclamation_marks_in_a_prompt_ask_for_none() -> None:
    """ "IMPORTANT!!!" made an answer of 256 of them healthy."""
    assert not RequestedRepetition("IMPORTANT!!! Answer in plain text.").shows_sign("!")
    assert RequestedRepetition('Write "!" again and again.').shows_sign("!")
    assert RequestedRepetition("Sign here: _______").shows_sign("_")


_SIGNS = [*"\"'`“”«»„‘’「」[(# 12:：,.ab\n_", "```", "12 times: ", '\n"id": ', "\n3. "]


@given(st.lists(st.sampled_from(_SIGNS), max_size=60).map("".join))
def test_a_prompt_is_searched_from_sign_to_sign(prompt: str) -> None:
    """That takes a tenth of the time, and finds the same."""

    def spans(matches: Iterable[re.Match[str]]) -> list[tuple[int, int]]:
        return [match.span() for match in matches]

    searched = requested_repetition
    quoted, (times, announced) = searched._QUOTED, searched._counted()
    assert spans(searched._matches(quoted, searched._OPENING, prompt)) == spans(quoted.finditer(prompt))
    for counted in (times, announced):
        assert spans(searched._matches(counted, searched._FIGURE, prompt)) == spans(counted.finditer(prompt))
    assert spans(searched._item_numbers(prompt)) == spans(searched._ITEM_NUMBER.finditer(prompt))


def test_a_healthy_answer_leaves_the_prompt_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of 50 KB took five times as long as a short answer to it, in one step."""
    read = Mock()
    monkeypatch.setattr(requested_repetition, "_item_numbers", read)
    monkeypatch.setattr(requested_repetition, "_shown_spans", read)
    monkeypatch.setattr(extra_turns, "counted_kinds", read)
    answer = "The old miller walks to the square and looks at the moon. His daughter has left early."
    detect_tokens(text_tokens(answer), DetectorSpec(prompt_text="Tell a story. " * 4000), "stop")
    assert not read.called
