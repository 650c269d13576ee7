"""Near-loops: planted ones with a known truth, false friends, and the bounds of the accusation."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.loop.online import SEPARATOR_REPEATED
from stresstest.detectors.near_loop.batch import BatchNearLoopDetector
from stresstest.detectors.near_loop.online import CIRCLING_WORDS, THIRD_COPY_WORDS, NearLoopDetector
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import Symptom, SymptomKind, Token
from tests.support.near_loop_texts import false_friends, prose


def watch(tokens: list[Token], prompt: str = "") -> NearLoopDetector:
    """A detector that has seen all tokens."""
    detector = NearLoopDetector(DetectorSpec(prompt_text=prompt))
    for token in tokens:
        detector.update(token)
    detector.finish(None)
    return detector


def found(text: str, prompt: str = "") -> list[Symptom]:
    return watch(text_tokens(text), prompt).symptoms()


def read_both_ways(text: str) -> NearLoopDetector:
    """The online detector at the end of a text; read at once, the text has the same near-loops and the same
    open candidate."""
    tokens = text_tokens(text)
    online, at_once = watch(tokens), BatchNearLoopDetector(DetectorSpec())
    at_once.update_all([token.text for token in tokens])
    at_once.finish(None)
    assert at_once.symptoms() == online.symptoms()
    assert at_once.open_from == online.open_from
    return online


def sentences(seed: int, words: int) -> str:
    """A passage of about so many words that stands in no other text of the same seed."""
    body = [w for w in prose(seed, 30).split() if not w.rstrip(".").isdigit() and w != "Paragraph"]
    return " ".join(body[:words]).rstrip(".,") + "."


def length(text: str) -> int:
    return len(text_tokens(text))


POOL = [f"{sentences(seed, 8 + seed % 3).rstrip('.')}." for seed in range(40, 52)]
"""Twelve short sentences."""


@pytest.mark.parametrize("size", [8, 10, 12])
def test_known_sentences_in_random_order_are_found(size: int) -> None:
    """Short sentences drawn at random from a few: no period, and no copy that goes on for long, but nothing
    new for hundreds of words. Dated to where they begin to recur, and the same in recorded text."""
    rng = random.Random(size)
    written = " ".join(rng.choice(POOL[:size]) for _ in range(110))
    text = f"{sentences(7, 150)} {written}"
    symptom = found(text)[0]
    begun = length(sentences(7, 150))
    assert begun < symptom.onset <= begun + length(" ".join(POOL[:size])) * 3
    assert detect_recorded(text, DetectorSpec(language="en"), "length").symptom is SymptomKind.NEAR_LOOP
    batch = BatchNearLoopDetector(DetectorSpec())
    batch.update_all([token.text for token in text_tokens(text)])
    assert batch.symptoms() == found(text)


def figures_anew(seed: int, copies: int) -> str:
    """A thought that comes again and again with other figures in it."""
    rng = random.Random(seed)
    said = (
        "Wait, let me compute that step again. {} times {} is {}, and adding {} gives {}. That is not equal "
        "to the target, so let me try once more with another value."
    )
    return " ".join(said.format(*(rng.randint(10, 9999) for _ in range(5))) for _ in range(copies))


@pytest.mark.slow
@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_sentences_of_which_only_the_figures_change_are_a_template(seed: int) -> None:
    """Figures without an order are content, as in any worked example: thirty such sentences are healthy so
    far, and open. A hundred say nothing any more. The same in recorded text."""
    lead = sentences(7, 60)
    begun = length(lead)
    for copies, degenerate in ((30, False), (100, True)):
        online = read_both_ways(f"{lead} {figures_anew(seed, copies)}")
        first = online.symptoms()[0].onset if degenerate else online.open_from
        assert first is not None
        assert begun < first <= begun + 3 * length(figures_anew(0, 1))


def test_sentences_that_recur_between_new_ones_are_healthy() -> None:
    """A refrain after every few lines, questions with the same answers to choose from: something new comes
    before the known has gone on for long."""
    rng = random.Random(3)
    lines = [
        f"{sentences(200 + n, 14)} {rng.choice(POOL)} {rng.choice(POOL)} {rng.choice(POOL)}"
        for n in range(60)
    ]
    assert found(" ".join(lines)) == []


@given(
    seed=st.integers(0, 5000),
    words=st.integers(6, 90),
    first=st.integers(1, 120),
    label=st.sampled_from(["Paragraph {n}. ", "{n}) ", "Day {n}: ", "§ {n} ", "Chapter {n}\n"]),
    before=st.integers(0, 6),
)
@example(seed=1166, words=8, first=1, label="{n}) ", before=0)  # two lone letters, which no bound counts
@settings(max_examples=80, deadline=None)
def test_a_loop_with_a_counter_is_found_at_its_second_copy(
    seed: int, words: int, first: int, label: str, before: int
) -> None:
    """ "Paragraph 17 … Paragraph 18 …" with one body, any length of it, after healthy text or none: found
    within a few words of the second copy, standing at the end."""
    unit = sentences(seed, words)
    copies = max(4 + 120 // words, 14)
    healthy = prose(seed + 1, before) + "\n\n" if before else ""
    units = [label.format(n=first + i) + unit + "\n\n" for i in range(copies)]
    text = healthy + "".join(units)
    second = length(healthy + units[0]) + 1
    (loop,) = found(text)
    assert loop.kind is SymptomKind.NEAR_LOOP
    # The grammar's own phrases may lead into the copy: by up to 47 words in 2,500 draws.
    assert -64 <= loop.onset - second <= 10
    assert loop.start is not None
    assert loop.start < loop.onset <= loop.alarm
    assert loop.end is None
    assert loop.detail["period_words"] >= min(words, 8)


def edited(rng: random.Random, words: list[str], rate: float) -> list[str]:
    """The words with some of them changed, left out or followed by another."""
    out: list[str] = []
    for word in words:
        kind = rng.randrange(3) if rng.random() < rate else -1
        out += {0: ["something"], 1: [], 2: [word, "again"]}.get(kind, [word])
    return out


@pytest.mark.slow
def test_loops_with_small_edits_are_found() -> None:
    """Every copy differs from the first in 3 % of its words: at least 95 % of a hundred found, half of
    them within a few words of the second copy."""
    late = []
    for seed in range(100):
        rng = random.Random(seed)
        unit = sentences(seed, rng.choice([15, 25, 40, 70])).split()
        healthy = prose(seed + 1, 5) + "\n\n"
        copies = [" ".join(edited(rng, unit, 0.03)) + "\n\n" for _ in range(3 + 300 // len(unit))]
        symptoms = found(healthy + "".join(copies))
        if symptoms:
            late.append(symptoms[0].onset - length(healthy + copies[0]) - 1)
    assert len(late) >= 95
    assert median(late) <= 12
    assert min(late) >= -30


def test_a_changed_name_is_a_small_edit() -> None:
    """One body, another name in every copy."""
    names = ["Anna", "Marco", "Giulia", "Peter", "Sophia", "Carlo", "Hans", "Marie", "John", "Lucy", "Emma"]
    unit = "{} opened the door of the old house and found a letter on the table by the window in the hall."
    text = prose(3, 4) + "\n\n"
    onset = length(text + unit.format(names[0]) + " ") + 1
    text += " ".join(unit.format(names[i % 11]) for i in range(24))
    (loop,) = found(text)
    assert abs(loop.onset - onset) <= 4


def test_phrases_in_ever_new_order_circle() -> None:
    """What greedy decoding of the lab model writes on real vLLM: no period, no news."""
    phrases = [
        "perché il bosco di cercare un ritratto fragile, ",
        "perché il bosco di cercare una lettera dimenticata, ",
        "mentre il bosco di cercare una lettera dimenticata, ",
    ]
    rng = random.Random(5)
    healthy = prose(2, 5, "it") + " "
    circle = [rng.choice(phrases) for _ in range(12)]
    (loop,) = found(healthy + "".join(circle))
    assert 0 <= loop.onset - length(healthy) <= length("".join(circle[:3]))
    assert loop.end is None


@pytest.mark.parametrize("name", sorted(false_friends()))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_false_friends_pass(name: str, seed: int) -> None:
    """Lists, tables, rulers, multiple choice, citations, timestamps, JSON, code, screenplays, refrains and
    boilerplate say something new in every item."""
    assert found(false_friends(seed)[name]) == []


@pytest.mark.slow
@given(
    st.integers(0, 100_000),
    st.sampled_from(["it", "en", "fr"]),
    st.sampled_from(["narrative", "technical"]),
)
@settings(max_examples=40, deadline=None)
def test_healthy_text_is_never_a_near_loop(seed: int, language: str, task: str) -> None:
    """Texts of a small grammar, which uses the same phrases again and again, hold no near-loop; and at
    their end not much of them is still open."""
    text = prose(seed, 40, language, task)
    detector = watch(text_tokens(text))
    assert detector.symptoms() == []
    opened = detector.open_from
    assert opened is None or length(text) - opened < 400


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_a_passage_that_stands_twice_is_no_near_loop(seed: int, edits: int) -> None:
    """A text restated, with or without edits, is open while it might go on, and no near-loop."""
    passage = sentences(seed, 220)
    again = " ".join(edited(random.Random(seed), passage.split(), edits / 100))
    text = f"{passage}\n\n{again}"
    detector = watch(text_tokens(text))
    assert detector.symptoms() == []
    opened = detector.open_from
    assert opened is not None
    assert length(passage) - 40 <= opened <= length(passage) + 120
    assert found(f"{text}\n\n{prose(seed + 1, 20)}") == []


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_tokenizer_does_not_matter(data: st.DataObject) -> None:
    """However the text is cut into tokens (digit by digit, in the middle of words), the near-loop is the
    same, and its onset lies in the same word."""
    unit = sentences(data.draw(st.integers(0, 500)), data.draw(st.integers(8, 40)))
    text = prose(7, 2) + "".join(f"\n\nParagraph {n}. {unit}" for n in range(95, 121))
    pieces: list[str] = []
    rng = random.Random(data.draw(st.integers(0, 500)))
    at = 0
    while at < len(text):
        step = rng.randint(1, 7)
        pieces.append(text[at : at + step])
        at += step
    (cut,) = watch([Token(piece, id=n) for n, piece in enumerate(pieces)]).symptoms()
    (whole,) = found(text)
    words = text_tokens(text)
    begins = len("".join(t.text for t in words[: whole.onset - 1]))
    assert cut.detail["period_words"] == whole.detail["period_words"]
    assert abs(len("".join(pieces[: cut.onset - 1])) - begins) <= 8


@given(
    st.lists(
        st.sampled_from(
            [
                prose(1, 3),
                "\n\n".join(
                    f"Paragraph {n}. The keeper lit the lamp and counted the boats." for n in range(12)
                ),
                " because the old mill, while the old mill, because the wood," * 9,
                " no" * 60,
                "\n-----\n| 1 | 2 |\n",
                "漁船が港に戻り、灯台守は灯をともした。" * 9,
            ]
        ),
        max_size=5,
    ),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_what_was_reported_never_changes(pieces: list[str], data: st.DataObject) -> None:
    """Onsets and alarms stay as first reported; no alarm before its onset or before it could be known;
    asking in between changes nothing."""
    tokens = text_tokens("".join(pieces))
    asked = NearLoopDetector(DetectorSpec())
    every = data.draw(st.integers(1, 9))
    seen: dict[int, int] = {}
    for n, token in enumerate(tokens, 1):
        asked.update(token)
        if n % every == 0:
            for symptom in asked.symptoms():
                assert symptom.onset <= symptom.alarm <= n
                assert seen.setdefault(symptom.onset, symptom.alarm) == symptom.alarm
    asked.finish(None)
    final = asked.symptoms()
    assert final == watch(tokens).symptoms()
    assert set(seen) <= {s.onset for s in final}
    assert [s.onset for s in final] == sorted({s.onset for s in final})
    assert all(s.end is None or s.onset <= s.end <= len(tokens) for s in final)


def test_an_output_is_open_from_the_second_copy_on() -> None:
    """What becomes a near-loop is open, from its onset or before, a few words into its second copy: what is
    observed of an output that ends there does not reach into the near-loop."""
    unit = sentences(11, 30)
    text = prose(4, 3) + "".join(f"\n\nParagraph {n}. {unit}" for n in range(20, 30))
    tokens = text_tokens(text)
    (loop,) = watch(tokens).symptoms()
    for end in range(loop.onset + 30, loop.alarm):
        opened = watch(tokens[:end]).open_from
        assert opened is not None
        assert opened <= loop.onset


def test_a_near_loop_that_ends_is_left_behind() -> None:
    """After it the text goes on healthily: the end is known, and nothing stays open."""
    unit = sentences(9, 25)
    text = "".join(f"Paragraph {n}. {unit}\n\n" for n in range(1, 12))
    (loop,) = found(text + prose(77, 12))
    assert loop.end is not None
    assert abs(loop.end - length(text)) <= 16
    assert watch(text_tokens(text + prose(77, 12))).open_from is None


def test_rows_that_only_count_are_given_a_generous_bound() -> None:
    """A numbered list of one and the same item: dozens of rows may be a form, hundreds are not."""
    rows = [f"{n}. Rice\n" for n in range(1, 1001)]
    assert found("".join(rows[:60])) == []
    assert found("".join(rows[:200])) != []


@pytest.mark.slow
@given(seed=st.integers(0, 1000), names=st.integers(1, 6), shuffled=st.booleans(), bold=st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_list_that_says_the_same_few_items_under_new_numbers_is_found(
    seed: int, names: int, shuffled: bool, bold: bool
) -> None:
    """Its figures only number the items, so they say nothing. The same in recorded text."""
    rng = random.Random(seed)
    good = ["Oliver", "Emma", "Noah", "Mia", "Levi", "Ada", "Hugo", "Ines", "Otto", "Lea", "Paul", "Rosa"]
    kept = good[-names:]
    said = [rng.choice(kept) if shuffled else kept[n % names] for n in range(700)]
    item = "{}. **{}**\n" if bold else "{}. {}\n"
    text = "".join(item.format(n, name) for n, name in enumerate([*good, *said], 1))
    online = read_both_ways(text)
    assert online.symptoms()


def test_numbered_rows_with_figures_of_their_own_are_data() -> None:
    """However alike they are."""
    rng = random.Random(1)
    rows = (f"{n}. Oslo: {rng.randint(1, 99)} degrees\n" for n in range(1, 300))
    assert found("".join(rows)) == []


def _day(n: int) -> date:
    return date(1901, 1, 1) + timedelta(n)


@pytest.mark.parametrize(
    "row",
    [
        lambda n: f"{_day(n):%B} {_day(n).day}, 1901: The keeper wrote in the log.\n",
        lambda n: f"{_day(n)}: The keeper wrote in the log.\n",
        lambda n: f"{_day(n):%A, %d %B %Y}: The keeper wrote in the log.\n",
        lambda n: f"[{n // 60:02}:{n % 60:02}] Thank you for watching.\n",
        lambda n: f"[{n // 12:02}:{n % 12 * 5:02}] Thank you for watching.\n",
        lambda n: f"[{n // 3:02}:{n % 3 * 20:02}] Thank you for watching.\n",
        lambda n: f"- v1.{n // 10}.{n % 10}: Fixed a bug in the parser.\n",
    ],
    ids=["dates", "iso", "weekdays", "seconds", "five seconds", "twenty seconds", "versions"],
)
def test_rows_that_count_by_dates_and_times_begin_where_they_begin(row: Callable[[int], str]) -> None:
    """They were dated to the last month, or minute, that was over: a limit of five times the truth."""
    lead = prose(3, 3) + "\n\n"
    (symptom,) = read_both_ways(lead + "".join(map(row, range(300)))).symptoms()
    assert length(lead) < symptom.onset <= length(lead) + 4 * length(row(0)) + 8


@pytest.mark.parametrize("each", [1, 2, 3])
@pytest.mark.parametrize(
    "row", ['{{"id": {n}, "name": "{name}", "active": true}},\n', "| {n} | {name} | guest | yes |\n"]
)
def test_rows_after_healthy_ones_are_not_dated_into_these(row: str, each: int) -> None:
    """They share their keys with rows that say something new, if not each."""
    names = ["Ada", "Hugo", "Ines", "Otto", "Lea", "Paul", "Rosa", "Noah", "Mia", "Levi", "Emma", "Olga"]
    said = [name for name in names for _ in range(each)]
    lead = "".join(row.format(n=n, name=name) for n, name in enumerate(said, 1))
    rows = "".join(row.format(n=n, name="Olga") for n in range(len(said) + 1, 400))
    (symptom,) = found(lead + rows)
    one = length(row.format(n=1, name="Olga"))
    assert length(lead) - (each + 1) * one <= symptom.onset <= length(lead) + one


@pytest.mark.parametrize(
    "row",
    [
        '- {n}. Nota: "voce {m}. Titolo N."\n',
        "Ordine {n}:\nLuce chiara, lume acceso!\n\n",
        'Un paragrafo "Parte 4.{n}" è una storia in parti numerate da 2 a 4. ',
        "{n}. Riso\n",
        "Parte {n}. ",
    ],
)
def test_rows_that_only_count_are_no_units_of_prose(row: str) -> None:
    """Where a story in numbered paragraphs was asked for, nobody wanted a table or a form."""
    lead = "La guardiana accese la lampada e contò le barche che tornavano verso il porto. "
    text = lead + "".join(row.format(n=n, m=n + 9) for n in range(1, 41))
    spec = DetectorSpec("it", r"^Paragrafo (\d+)", 8)
    for detect in (detect_text, detect_recorded):
        verdict = detect(text, spec, "length")
        assert verdict.symptom is SymptomKind.NEAR_LOOP
        assert verdict.onset is not None
        first = length(lead + row.format(n=1, m=10))
        assert first - 2 <= verdict.onset <= first + 3


def test_requested_repetition_is_no_near_loop() -> None:
    """Lines that the prompt asks for, numbered: as many as were asked for, models being bad at counting."""
    prompt = 'Write "I will not talk in class again." 100 times, numbered.'
    lines = "".join(f"{n}. I will not talk in class again.\n" for n in range(1, 101))
    assert found(lines, prompt) == []
    assert found(lines) != []


def test_a_near_loop_over_turns_of_reasoning_and_answer() -> None:
    """Interleaved thinking that only counts on was healthy."""
    tokens = [
        Token(word.text, reasoning=thinking)
        for n in range(40)
        for thinking, said in (
            (True, f"Step {n}: the keeper counts the boats again. "),
            (False, f"Boat {n} is home. "),
        )
        for word in text_tokens(said)
    ]
    assert watch(tokens).symptoms()


def test_reasoning_may_be_quoted() -> None:
    """No copy crosses from the reasoning into the answer."""
    unit = sentences(21, 60)
    text = f"{unit} {unit} "
    reasoning = [Token(t.text, reasoning=True) for t in text_tokens(text)]
    assert watch(reasoning + text_tokens(text)).symptoms() == []
    assert watch(text_tokens(text + text)).symptoms() != []


def test_every_numeral_is_masked() -> None:
    """Counters in any script: Arabic-Indic, Devanagari, Roman and circled numerals."""
    unit = "La guardiana accese la lampada e contò le barche che tornavano lente verso il porto."
    for digits in ("٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "①②③④⑤⑥⑦⑧⑨⑩", "ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ"):
        text = "".join(f"{digit} {unit}\n" for digit in digits)
        (loop,) = found(text)
        assert abs(loop.onset - length(f"{digits[0]} {unit}\n") - 1) <= 2


def test_the_bounds_are_what_the_text_says() -> None:
    """The documented bounds hold together: circling is the shorter proof, copying the longer one."""
    assert CIRCLING_WORDS < THIRD_COPY_WORDS


VERBS = (
    *("add", "remove", "update", "find", "list", "create", "parse", "render", "merge", "split"),
    *("load", "store", "open", "close", "send", "receive", "sort", "filter", "map", "reduce"),
    *("export", "import", "validate", "encode", "decode", "compress", "expand", "join", "login", "logout"),
)


def alike_tests() -> str:
    """Thirty tests of one make in a fence."""
    body = (
        "    client = service.Client(config)\n    result = client.{0}({1})\n    assert result is not None\n"
    )
    body += '    assert result.status == "ok"\n    assert result.value == {2}\n\n\n'
    tests = [
        f"def test_{verb}_returns_its_value():\n" + body.format(verb, i, i * i % 17)
        for i, verb in enumerate(VERBS)
    ]
    return "Here they are.\n\n```python\n" + "".join(tests) + "```\n"


def alike_scenarios() -> str:
    """Ten Gherkin scenarios of one make, without a fence."""
    scenario = (
        "  Scenario: A user can {0} an item\n    Given the user is logged in to the application\n"
        "    And the user is on the page of items\n    When the user clicks the {0} button\n"
        "    And the user confirms the dialog\n    Then the item should be on the list\n\n"
    )
    return "Feature: Items\n\n" + "".join(scenario.format(verb) for verb in VERBS[:10])


@pytest.mark.parametrize("text", [alike_tests(), alike_scenarios()])
def test_alike_pieces_of_code_are_no_near_loop(text: str) -> None:
    """Tests and scenarios are alike by design; the same lines without end are still a near-loop."""
    assert found(text) == []
    assert found(
        "Here.\n```\n" + "".join(f"def test_{i}():\n    assert run({i}) is not None\n" for i in range(300))
    )


@pytest.mark.parametrize("closing", ["```\n", ""])
def test_a_fence_excuses_no_prose(closing: str) -> None:
    """Prose after a code block is judged as prose, also when the block was never closed."""
    unit = sentences(3, 24)
    text = f"```\nx = 1\n{closing}" + "".join(f"Paragraph {n}. {unit}\n\n" for n in range(1, 15))
    (loop,) = found(text)
    assert loop.alarm < SEPARATOR_REPEATED


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "least"), [(0.05, 30), (0.1, 24)])
def test_edits_in_the_copy_before_count_once(rate: float, least: int) -> None:
    """A copy is compared with the one before it and, where that one was edited, with the one before that; so
    words that change in every copy, each time elsewhere, are found at 5 % all and at 10 % mostly."""
    hits = 0
    for seed in range(30):
        rng = random.Random(seed)
        unit = sentences(seed, 40).split()
        hits += bool(found(" ".join(" ".join(edited(rng, unit, rate)) for _ in range(20))))
    assert hits >= least


@pytest.mark.slow
@given(st.integers(0, 3000), st.sampled_from([0.03, 0.08, 0.15]), st.integers(12, 60))
@settings(max_examples=40, deadline=None)
def test_an_edited_loop_is_the_same_read_at_once(seed: int, rate: float, words: int) -> None:
    """Left-out and added words move the copy: reading an answer at once comes to the same near-loops, and to
    the same open candidate, as taking it token by token."""
    rng = random.Random(seed)
    unit = sentences(seed, words).split()
    text = prose(seed, 3) + " " + " ".join(" ".join(edited(rng, unit, rate)) for _ in range(300 // words))
    read_both_ways(text)


def test_a_countdown_says_how_far_it_is() -> None:
    """Figures that count down within the sentence are news: the same sentence counting up is a near-loop."""
    line = "{0} green bottles hanging on the wall, and if one should fall, {1} green bottles on the wall.\n"
    assert found("".join(line.format(n, n - 1) for n in range(80, 0, -1))) == []
    assert found("".join(line.format(n, n + 1) for n in range(1, 80))) != []


@pytest.mark.parametrize(
    "line",
    [
        "In {0}, the population of the city was {1} people, and the city had {2} schools. ",
        "**{0}:** The company reported revenue of ${1}.{2} million and a profit of ${2} million.\n",
        "[{2}] Smith, J., & Johnson, A. ({0}). The effects of climate on crops. "
        "Journal of Agriculture, {2}({2}), {1}.\n",
    ],
)
def test_figures_that_rise_by_steps_of_their_own_are_no_news(line: str) -> None:
    """Each rose by its own step, as in a countdown, and the sentence was never found: a limit was certified
    forty times over the truth."""
    rows = [line.format(1800 + n, 12_000 + 317 * n, 3 + n) for n in range(150)]
    assert found("".join(rows)) != []
    assert found("".join(rows[:12])) == []


@pytest.mark.parametrize(
    "row",
    [
        lambda n: f"- In {2023 - n}, the company earned {5000 - n} million dollars and opened an office.\n",
        lambda n: f"## Version 1.{400 - n}.0\n\n- Bug fixes and performance improvements.\n",
        lambda n: f"The number of boats is now {999 - n}. ",
        lambda n: f"If x = {n}, then the remainder is {1200 - 3 * n}, which is not the value we look for.\n",
        lambda n: f"You pay $500, so the balance falls from ${240_000 - 500 * n} to ${239_500 - 500 * n}.\n",
    ],
    ids=["years", "versions", "one figure", "up and down", "balance"],
)
def test_figures_that_sink_from_far_away_are_no_countdown(row: Callable[[int], str]) -> None:
    """400 copies of one sentence were never found where a figure went down: a gate of 5 % passed over 17 %.
    The onset is the second copy, though the figures are known to sink only after several."""
    lead = prose(3, 3) + "\n\n"
    for detect in (detect_text, detect_recorded):
        verdict = detect(lead + "".join(map(row, range(200))), DetectorSpec("en"), "length")
        assert verdict.onset is not None
        assert length(lead) < verdict.onset <= length(lead) + 3 * length(row(0))
    read_both_ways(lead + "".join(map(row, range(60))))
    assert found("".join(map(row, range(8)))) == []


def test_figures_of_its_own_make_a_worked_example() -> None:
    """Exercises of one make, each with its own figures, are none; with the same figures they are."""
    rng = random.Random(4)
    rooms = ["kitchen", "garage", "garden", "hall", "cellar", "attic", "yard", "studio", "shed", "office"] * 2
    task = (
        "Question: A {0} is {1} feet long and {2} feet wide. What is its area?\n"
        "Step 1: Multiply the length by the width.\nArea = {1} × {2}\n"
        "Step 2: Write down the result.\nAnswer: The area of the {0} is {3} square feet.\n\n"
    )
    sides = [(rng.randint(3, 60), rng.randint(3, 60)) for _ in rooms]
    sums = [task.format(room, a, b, a * b) for room, (a, b) in zip(rooms, sides, strict=True)]
    assert found("".join(sums)) == []
    assert found(sums[0] * 8) != []


def test_a_few_items_that_are_worded_alike_are_no_near_loop() -> None:
    """Three variables of one kind are a short list."""
    item = (
        "`room{n}_free` (boolean): tells every visitor whether room{n} is free in the hour "
        "that was chosen (yes) or not (no)\n"
    )
    items = "".join(item.format(n=n) for n in (1, 2, 3))
    assert found(f"Here is what you asked for.\n{items}That is all there is to it.") == []


def _twelve(hour: int) -> str:
    return f"{(hour - 1) % 12 + 1}:00 {'AM' if hour % 24 < 12 else 'PM'}"


@pytest.mark.parametrize(
    "row",
    [
        lambda n: f"{n // 2 % 24:02}:{n % 2 * 30:02} - Check the email and the calendar.\n",
        lambda n: f"{n % 24:02}:00 - Check the email and the calendar.\n",
        lambda n: f"[{n // 4:02}:{n % 4 * 15:02}] Check the email and the calendar.\n",
        lambda n: f"- {_day(7 * n):%B %d}: Check the email and the calendar.\n",
        lambda n: f"{_twelve(n)} - {_twelve(n + 1)}: Check the email and then the calendar.\n",
        lambda n: f"{n * 3 // 2 % 24:02}:{n % 2 * 30:02} - Check the email and then the calendar.\n",
        lambda n: f"{n + 1}. [{n // 12 % 24:02}:{n % 12 * 5:02}] The guard walks around the building.\n",
        lambda n: f"{6 + n // 30}:{n % 30 * 2:02} - Bus {n + 8} stops at the corner of the market.\n",
    ],
    ids=["half hours", "hours", "quarters of a minute", "weeks", "ranges", "90 minutes", "numbered", "buses"],
)
def test_clocks_and_calendars_go_round(row: Callable[[int], str]) -> None:
    """One entry for every half hour was dated to the second day, where an exact loop begins."""
    lead = prose(3, 3) + "\n\n"
    for detect in (detect_text, detect_recorded):
        verdict = detect(lead + "".join(map(row, range(300))), DetectorSpec("en"), "length")
        assert verdict.onset is not None
        assert length(lead) < verdict.onset <= length(lead) + 4 * length(row(0)) + 8


def test_figures_that_do_not_go_round_are_data() -> None:
    """A plan in which more is done each day, and what was measured every hour."""
    rng = random.Random(2)
    plan = "".join(
        f"Day {n}: do {10 + 5 * n} push-ups and run {1 + n} km in the park.\n" for n in range(1, 60)
    )
    hours = "".join(f"{n % 24:02}:00 - {rng.randint(-9, 35)} degrees in the shade\n" for n in range(120))
    assert found(plan) == []
    assert found(hours) == []


def test_a_passage_of_few_words_that_returns_is_no_older_flood() -> None:
    """It has 25 different words: the flood of 32 in 512 began with the first copy, which is healthy."""
    rng = random.Random(8)
    lead, unit = prose(5, 4) + " ", sentences(21, 26).rstrip(".").split()
    copies = []
    for _ in range(30):
        copy = list(unit)
        copy[rng.randrange(len(copy))] = rng.choice(["lamp", "boat", "fog"])
        copies.append(" ".join(copy) + ".")
    verdict = detect_text(lead + " ".join(copies), DetectorSpec("en"), "length")
    assert verdict.symptom is SymptomKind.NEAR_LOOP
    assert verdict.onset is not None
    assert abs(verdict.onset - length(lead) - length(copies[0])) <= 12
