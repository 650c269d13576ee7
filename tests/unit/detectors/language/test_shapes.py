"""Language drift where an answer is no plain prose: data, lists, speech, text without full stops, two
languages line by line; and what looks foreign there and is not."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.inference import infer_language
from stresstest.detectors.language.elements import ElementTracker
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.prose import ProseFilter
from stresstest.detectors.text.segments import LONG_SENTENCE, TextSegmenter, split_span
from stresstest.model import SymptomKind, Token
from stresstest.simulation.engine.writing.composer import SentenceComposer
from tests.support.drifting_texts import FIFTEEN, PROSE, confirmed, token_of, watch

PAIRS = [("it", "en"), ("en", "it"), ("fr", "en"), ("en", "fr"), ("fr", "it")]
FIELDS = ("text", "review text")


def records(sentences: list[str], indent: int | None = None) -> str:
    """A JSON array with two sentences a record."""
    rows = [{"id": i, FIELDS[i % 2]: sentence} for i, sentence in enumerate(sentences)]
    return json.dumps(rows, ensure_ascii=False, indent=indent)


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
def test_drift_in_the_values_of_json_is_dated(
    wanted: str, other: str, indent: int | None, fence: str
) -> None:
    """What the strings say is the answer; the keys, the codes and the fence around it are not."""
    text = fence.format(records([*PROSE[wanted], *PROSE[other][:3]], indent))
    (drift,) = confirmed(text, wanted)
    first = watch(text, wanted)[1].token_at
    assert first(text.index(PROSE[wanted][5])) < drift.onset < first(text.index(PROSE[other][1]))


@pytest.mark.parametrize("wanted", PROSE)
def test_foreign_keys_names_and_short_values_of_json_are_no_drift(wanted: str) -> None:
    """Keys, names and terms of a few words say nothing about the language of the values."""
    rows = [
        {"customer name and address": "John Smith", "text": text, "category": "natural language processing"}
        for text in PROSE[wanted]
    ]
    for indent in (None, 2):
        assert watch(json.dumps(rows, ensure_ascii=False, indent=indent), wanted)[0].symptoms() == []


def test_an_example_of_data_in_another_language_is_no_drift() -> None:
    """A fenced block of JSON that never spoke the expected language is code; one that did is the answer."""
    example = "```json\n" + records(PROSE["en"], 1) + "\n```"
    assert not confirmed("\n\n".join([*PROSE["it"][:3], example, *PROSE["it"][3:]]), "it")
    assert confirmed(example, "it")


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
def test_drift_is_found_where_there_are_no_full_stops(wanted: str, other: str) -> None:
    """A text that runs on is cut at its blanks, and the onset is near the place where it turns."""
    bare = [sentence.rstrip(".") for sentence in [*PROSE[wanted], *PROSE[other]]]
    text = " ".join(bare)
    (drift,) = confirmed(text, wanted)
    assert token_of(text, bare[4]) <= drift.onset <= token_of(text, bare[7])


def test_a_sentence_that_turns_half_way_is_seen_there() -> None:
    """The beginning of a long sentence does not speak for its end."""
    native = "Nella piazza del paese i bambini correvano dietro a un cane che aveva perso il padrone,"
    text = f"{PROSE['it'][0]} {native} {' and '.join(s.rstrip('.').lower() for s in PROSE['en'][:3])}."
    (drift,) = confirmed(text, "it")
    assert token_of(text, "piazza") < drift.onset <= token_of(text, "opened the window")


@pytest.mark.parametrize("label", ["Anna: {}", "– {}", "**Marco:** {}"])
@pytest.mark.parametrize("other", ["ja", "zh", "ko", "hi", "ar", "th"])
def test_speech_in_a_script_without_capitals_is_drift(label: str, other: str) -> None:
    """A speaker's name is the only word that could have a capital there: it makes no title of the line."""
    thai = "ชาวประมงชราเดินทางกลับมาถึงท่าเรือเมื่อฟ้ามืดแล้วและไม่มีใครรอเขาอยู่อีกต่อไป "
    said = ([thai] if other == "th" else [FIFTEEN[other]]) * 3
    text = "\n".join(label.format(each) for each in [*PROSE["it"], *said])
    (drift,) = confirmed(text, "it")
    assert token_of(text, PROSE["it"][-1]) < drift.onset <= token_of(text, said[0])


def test_sentences_of_a_foreign_list_need_no_function_words() -> None:
    """Items that are sentences, or nearly, are no terms, in however short a style they are written."""
    items = [
        "AI for conservation: Identifies areas requiring environmental attention.",
        "Smart grids/transport: Tech reduces atmospheric pollution via efficient systems.",
        "Environmental monitoring: Sensors detect harmful emissions near factories.",
    ]
    text = "\n".join(f"{i}. {item}" for i, item in enumerate([*SPANISH, *items], 1))
    assert confirmed(text, "es")


SPANISH = FIFTEEN["es"].split(". ")
PAIRED = list(zip(PROSE["it"], PROSE["en"], strict=True))


@pytest.mark.parametrize("start", ["", "Ecco il testo con la traduzione a fronte, verso per verso.\n\n"])
@pytest.mark.parametrize(
    "form",
    ["{0}\n{1}", "{0}\n\n{1}\n", "{1}\n{0}", "{1}\n\n{0}\n", "{0} ({1})", "- {0} – {1}", "1. {1}\n   {0}"],
)
def test_lines_in_turn_in_two_languages_are_no_drift(start: str, form: str) -> None:
    """A text and its translation line by line, without any label, whichever comes first."""
    assert not confirmed(start + "\n".join(form.format(*pair) for pair in PAIRED), "it")


def test_drift_after_lines_in_turn_is_found() -> None:
    """When the expected language does not come back, the translation has ended."""
    text = "\n".join("\n".join(pair) for pair in PAIRED) + "\n" + "\n".join(PROSE["fr"])
    (drift,) = confirmed(text, "it")
    assert token_of(text, PAIRED[-1][1]) <= drift.onset <= token_of(text, PROSE["fr"][1])


def test_an_opening_is_drift_though_a_line_of_the_wanted_language_follows() -> None:
    """ "Sure, here it is:" and an answer of about the same length are no translation of each other."""
    text = f"Sure, here is a very short story for your class:\n{PROSE['it'][0]}\n{PROSE['it'][1]}"
    (drift,) = confirmed(text, "it")
    assert drift.onset == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels", [("Ja", "Nein"), ("yes", "no"), ("Yes", "No"), ("да", "нет"), ("True", "False")]
)
@pytest.mark.parametrize("wanted", ["it", "ja", "ru", "en", "de"])
@pytest.mark.parametrize("form", ["{}", "- {}", "{}."])
def test_a_list_of_labels_is_no_drift(labels: tuple[str, str], wanted: str, form: str) -> None:
    """150 lines of "Ja" and "Nein" are the answer that was asked for, in whatever language."""
    rng = random.Random(0)
    lines = "\n".join(form.format(rng.choice(labels)) for _ in range(150))
    assert not confirmed(lines, wanted)
    assert not confirmed(f"{FIFTEEN[wanted]}\n\n{lines}", wanted)


def test_words_between_commas_are_labels() -> None:
    """A list of single words in one line is no opening sentence of another language."""
    assert not confirmed("boor, door, poot, snoot, boot, loor", "en")


HARMLESS_IT = [
    "Smith, J. A., & Lee, M. (2019). The effects of the rain on the roofs of old houses. J. Rain, 3, 4-9.",
    "[12] Smith J, Lee MA. What the old fisherman never told to his sister. Rain. 2018;38(4):12-21.",
    "- García, L. et al. (2001). A story of the children who were running after a dog. Oxford Press.",
    "Si veda [the old fisherman came back to the harbour when it was dark](https://a.org/a) oppure"
    " [in the village square the children were running after a dog](https://a.org/b) per saperne.",
    "Si veda *the old fisherman came back to the harbour when it was already dark* per saperne di più.",
    "Lesse ad alta voce: ‘The old fisherman came back to the harbour when it was dark. He didn’t care.’",
    "Lesse ad alta voce: 'The old fisherman came back to the harbour when it was dark. He didn't care.'",
    "Lesse ad alta voce: »The old fisherman came back to the harbour, and nobody was waiting for him.«",
    "Lesse 《老渔夫在天黑之后才回到港口，那时已经没有人在等他了，孩子们追着一只狗跑》 ad alta voce.",
]


@pytest.mark.parametrize("passage", HARMLESS_IT)
def test_references_links_italics_and_every_quotation_mark_are_no_drift(passage: str) -> None:
    """What an answer names or cites, it names in its own language."""
    text = "\n\n".join([PROSE["it"][0], passage, PROSE["it"][1], passage, PROSE["it"][2], passage])
    assert watch(text, "it")[0].symptoms() == []


def test_an_answer_that_is_all_italics_or_all_references_is_judged() -> None:
    """Nothing is excused by marks that stand around everything."""
    assert confirmed("\n".join(f"*{sentence}*" for sentence in PROSE["en"]), "it")
    assert confirmed("“" + "\n".join(PROSE["en"]) + "”", "it")


MARKS = ['"', "“", "”", "'", "’", "`", "{", "[", "*", "|", ">", "\n", " ", "\\", "《", "，", "。"]
CODES = ["```json\n", '"key": "', '",', "[a](b)", "12. ", "Smith, J. ", "https://a.b/c", "\\n"]
CHUNK = st.sampled_from([*PROSE["it"], *PROSE["en"], *MARKS, *CODES])


@settings(max_examples=150, deadline=None)
@given(st.lists(CHUNK, max_size=30), st.booleans())
def test_the_filter_keeps_every_character_in_its_place(chunks: list[str], quotations: bool) -> None:
    """What is left of a sentence stands where it stood: onsets are dated by it."""
    feed = TextSegmenter()
    feed.update(Token("".join(chunks)))
    feed.close()
    keep = ProseFilter(quotations=quotations)
    for span in feed.sentences:
        prose = keep(span.text, span.line)
        assert len(prose) == len(span.text)
        assert all(left in (" ", was, *MARKS) for left, was in zip(prose, span.text, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([" ", ", ", "，", "", " 和", "–"]))
def test_pieces_are_the_sentence(seed: int, joint: str) -> None:
    """Cut where it is long, a sentence is still all there, in order, each piece with its own tokens."""
    composer = SentenceComposer("it", random.Random(seed))
    said = joint.join(composer.sentence("narrative").rstrip(".") for _ in range(1 + seed % 9))
    text = said + ("老渔夫在天黑之后才回到港口" * (seed % 8))
    feed = TextSegmenter()
    for i in range(0, len(text), 7):
        feed.update(Token(text[i : i + 7]))
    feed.close()
    for span in feed.sentences:
        cut = split_span(span, span.text, feed)
        assert "".join(part for _, part in cut) == span.text
        assert all(len(part) <= LONG_SENTENCE for _, part in cut)
        for piece, part in cut:
            assert text[piece.start : piece.end] == part.rstrip()
            assert feed.token_at(piece.start) == piece.first <= piece.last == feed.token_at(piece.end - 1)


@pytest.mark.parametrize("language", FIFTEEN)
def test_two_hundred_characters_tell_the_language(language: str) -> None:
    """The start of an answer is enough, as data, as one quotation, as a list."""
    start = FIFTEEN[language][:200]
    forms = ("{}", "“{}”", '[{{"text": "{}"}}]', "1. {}")
    assert [infer_language(form.format(start)) for form in forms] == [language] * len(forms)


def test_a_title_in_a_third_language_does_not_date_the_drift_back() -> None:
    """What stands before a drift and says nothing is its beginning only in the drift's own language."""
    title = "## Les Enfants du Paradis et Autres Films Célèbres\n\n"
    text = f"{PROSE['it'][0]} {PROSE['it'][1]}\n\n{title}{' '.join(PROSE['en'])}"
    (drift,) = confirmed(text, "it")
    assert drift.onset == token_of(text, PROSE["en"][0])


def test_headings_of_an_outline_are_its_own_words() -> None:
    """An outline of nothing but foreign headings is in the wrong language; a list of works is in none."""
    outline = (
        "I. Executive Summary\n   A. Description of the Company\n   B. Problem and Solution of Customers\n"
        "II. Company Description\n   A. Mission and Vision of the Founders\n   B. History of the Company\n"
        "III. Market Analysis\n   A. The Size of the Market\n   B. The Growth of the Industry and Trends\n"
    )
    works = (
        "1. The Return of the King\n2. Gone with the Wind\n3. The Old Man and the Sea\n4. War and Peace\n"
        "5. The Catcher in the Rye\n6. The Remains of the Day\n7. For Whom the Bell Tolls\n"
    )
    assert confirmed(outline, "fr")
    assert not confirmed(works, "fr")


def test_a_quotation_mark_that_nobody_closed_hides_only_its_paragraph() -> None:
    """A quotation that goes on in a new paragraph opens again there; else the mark was a slip."""
    text = f"{PROSE['it'][0]} “{PROSE['it'][1]}\n\n" + "\n\n".join(PROSE["en"])
    (drift,) = confirmed(text, "it")
    assert drift.onset == token_of(text, PROSE["en"][0])
    again = "\n\n".join(f"“{sentence}" for sentence in PROSE["en"][:3])
    assert not confirmed(f"{PROSE['it'][0]}\n\n{again}”\n\n{' '.join(PROSE['it'])}", "it")


@pytest.mark.parametrize("joint", [" ", "\n", "\n\n"])
@pytest.mark.parametrize("foreign", ["ja", "en", "vi"])
def test_an_answer_that_comes_in_one_piece_is_judged_alike(joint: str, foreign: str) -> None:
    """What is found depends on the text alone, also when a whole answer is one token."""
    text = joint.join([*PROSE["it"], *FIFTEEN[foreign].split(". "), *PROSE["it"]])
    feed = TextSegmenter()
    feed.update(Token(text))
    detector = LanguageDetector(DetectorSpec(language="it"), feed)
    detector.update(Token(text))
    detector.finish("stop")
    whole = [(s.confirmed, s.summary) for s in detector.symptoms()]
    assert whole == [(s.confirmed, s.summary) for s in watch(text, "it")[0].symptoms()]


def test_paragraphs_in_both_languages_are_no_lines_of_a_translation() -> None:
    """A paragraph that turns in its middle, between right ones, is drift and not the other half of a pair."""
    turning = " ".join([PROSE["it"][2], "老渔夫在天黑之后才回到港口，那时已经没有人在等他了。" * 3])
    text = "\n\n".join([PROSE["it"][0], turning, " ".join(PROSE["it"][3:6])])
    (drift,) = confirmed(text, "it")
    assert drift.onset == token_of(text, "老渔夫")


@pytest.mark.parametrize(
    "text",
    [
        "The kennel needs 147 kg of dog food per week.",
        "Answer: The kennel needs 147 kg of dog food per week.",
        "Pepperoni: Tomato sauce, pepperoni, and mozzarella. Veggie: Marinara sauce, bell peppers, onions, "
        "and mozzarella. Calzone: Spinach, ricotta, mozzarella, and parmesan.",
    ],
)
def test_one_short_sentence_is_not_the_language_of_its_letters(text: str) -> None:
    """Identifiers know little more of a sentence than its letters; its function words are English alone.
    A list of foreign things has few, and none of the other language."""
    assert detect_text(text, DetectorSpec(language="en"), "stop").symptom is None


@pytest.mark.parametrize(
    "text",
    [
        "De kennel heeft per week 147 kg hondenvoer nodig.",
        "Il canile ha bisogno di 147 kg di cibo per cani alla settimana.",
        "Das Tierheim braucht in der Woche 147 kg Futter.",
    ],
)
def test_one_short_foreign_sentence_is_still_drift(text: str) -> None:
    """The same sentence in the language that the identifiers name."""
    assert detect_text(text, DetectorSpec(language="en"), "stop").symptom == "language_drift"


CODE = {
    "Python": """class BankAccount:
    def __init__(self, account_number, balance=0):
        self.account_number = account_number
        self.balance = balance

    def withdraw(self, amount):
        # Refuse what the account does not hold.
        if amount > self.balance:
            raise ValueError("There is not enough money in the account.")
        self.balance -= amount
        return self.balance
""",
    "the shell": """#!/bin/bash

for entry in ./*; do
    if [ -f "${entry}" ]; then
        file_count=$((file_count + 1))
    elif [ -d "${entry}" ]; then
        dir_count=$((dir_count + 1))
    fi
done

echo "Files and directories in this folder: ${file_count} and ${dir_count}"
""",
}


@pytest.mark.parametrize("language", ["it", "ja"])
@pytest.mark.parametrize("code", CODE.values(), ids=CODE)
def test_code_without_a_fence_is_in_no_language(code: str, language: str) -> None:
    """Who asks for code only gets its English words in every country. What goes on in English after it has
    drifted."""
    spec = DetectorSpec(language=language)
    for detect in (detect_text, detect_recorded):
        assert detect(code, spec, "stop").onset is None
        after = code + "\n" + "\n\n".join(PROSE["en"])
        assert detect(after, spec, "stop").symptom is SymptomKind.LANGUAGE_DRIFT


MARKED_UP = {
    "paragraphs of HTML": "<p>{}</p>",
    "tags on lines of their own": "<p>\n  {}\n</p>",
    "items": "<li>{}</li>",
    "line breaks": "{}<br>",
    "XML": '<paragraph n="1">{}</paragraph>',
    "a list with semicolons": "- {};",
    "a quotation": "> {}\n>",
}


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "other"), PAIRS)
@pytest.mark.parametrize("layout", MARKED_UP.values(), ids=MARKED_UP)
def test_drift_in_marked_up_text_is_dated(wanted: str, other: str, layout: str) -> None:
    """Tags and semicolons make lines look like code, and 80 of 80 drifts were none."""
    sentences = (
        [*PROSE[wanted], *PROSE[other]]
        if layout != "- {};"
        else [sentence.rstrip(".") for sentence in [*PROSE[wanted], *PROSE[other]]]
    )
    text = "\n".join(map(layout.format, sentences))
    (symptom,) = confirmed(text, wanted)
    assert symptom.kind is SymptomKind.LANGUAGE_DRIFT
    assert symptom.onset == pytest.approx(token_of(text, sentences[len(PROSE[wanted])]), abs=12)
    spec = DetectorSpec(language=wanted)
    assert detect_recorded(text, spec, "stop") == detect_text(text, spec, "stop")


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
@pytest.mark.parametrize("lines", [6, 15, 40])
def test_drift_of_explanations_between_blocks_of_code_is_dated(wanted: str, other: str, lines: int) -> None:
    """A tutorial: the blocks before a sentence were counted, and made code of it."""
    block = "\n".join(["```python", *(f"value_{n} = compute(value, {n})" for n in range(lines)), "```"])
    sentences = [*PROSE[wanted], *PROSE[other]]
    (symptom,) = confirmed(f"\n\n{block}\n\n".join(sentences), wanted)
    assert symptom.kind is SymptomKind.LANGUAGE_DRIFT
    assert str(symptom.detail["language"]) == other


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
def test_drift_in_lettered_points_is_dated(wanted: str, other: str) -> None:
    """A contract: each lettered line seemed to be an answer of a language exercise."""
    sentences = [*PROSE[wanted], *PROSE[other] * 2]
    text = "\n".join(f"{'abcd'[n % 4]}) {sentence}" for n, sentence in enumerate(sentences))
    (symptom,) = confirmed(text, wanted)
    assert symptom.onset == pytest.approx(token_of(text, sentences[len(PROSE[wanted])]), abs=4)


DOCUMENTS = {
    "declared": '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n{}\n</resources>',
    "fenced": "```xml\n<resources>\n{}\n</resources>\n```",
    "explained": "{before}\n\n```xml\n<resources>\n{}\n</resources>\n```",
    "bare": "<resources>\n{}\n</resources>",
}
ENTRY = '  <string name="s{}">{}</string>'


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
@pytest.mark.parametrize("layout", DOCUMENTS.values(), ids=DOCUMENTS)
def test_drift_in_a_document_of_xml_is_dated(wanted: str, other: str, layout: str) -> None:
    """A localisation file: five strings were translated, fourteen were not, and a gate passed."""
    sentences = [*PROSE[wanted], *PROSE[other]]
    entries = "\n".join(ENTRY.format(n, sentence) for n, sentence in enumerate(sentences))
    before = "" if wanted == "fr" else PROSE[wanted][0]
    text = layout.format(entries, before=before)
    (symptom,) = confirmed(text, wanted)
    assert symptom.kind is SymptomKind.LANGUAGE_DRIFT
    assert symptom.onset == pytest.approx(token_of(text, sentences[len(PROSE[wanted])]), abs=12)
    spec = DetectorSpec(language=wanted)
    assert detect_recorded(text, spec, "stop") == detect_text(text, spec, "stop")
    healthy = layout.format("\n".join(ENTRY.format(0, each) for each in PROSE[wanted]), before=before)
    assert detect_text(healthy, spec, "stop").symptom is None


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
    <modelVersion>4.0.0</modelVersion>
    <groupId>com.example</groupId>
    <artifactId>orders</artifactId>
    <description>Demo project with a small service that stores the orders of the customers</description>
    <dependencies>
        <dependency>
            <groupId>org.springframework.boot</groupId>
            <artifactId>spring-boot-starter-web</artifactId>
        </dependency>
    </dependencies>
</project>"""
CATALOGUE = "<catalog>\n{}\n</catalog>".format(
    "\n".join(
        f'  <book id="{n}"><description>{each}</description></book>' for n, each in enumerate(PROSE["en"])
    )
)


@pytest.mark.parametrize("language", ["it", "de", "zh"])
@pytest.mark.parametrize("code", [POM, CATALOGUE], ids=["a project", "a catalogue"])
@pytest.mark.parametrize("head", ["", '<?xml version="1.0" encoding="UTF-8"?>\n'])
@pytest.mark.parametrize("fence", ["{}", "```xml\n{}\n```"])
def test_a_document_that_is_in_another_language_from_the_start_is_data(
    language: str, code: str, head: str, fence: str
) -> None:
    """The words of a configuration are English in every country, also with an explanation before it."""
    text = fence.format(head + code)
    assert detect_text(text, DetectorSpec(language=language), "stop").symptom is None
    if language == "it":
        before = "\n".join(PROSE["it"])
        assert detect_text(f"{before}\n\n{text}", DetectorSpec(language="it"), "stop").symptom is None


@pytest.mark.parametrize(
    "layout", ["{}", "```xml\n{}\n```", "Ecco quello che mi hai chiesto, in una forma sola.\n\n{}"]
)
@pytest.mark.parametrize(
    "foreign",
    [
        "<citazioni>\n{}\n</citazioni>",
        "<image_prompt>{}</image_prompt>",
        '<abstract xml:lang="en">\n{}\n</abstract>',
        "<seo><description>{}</description></seo>",
    ],
)
def test_an_element_of_another_kind_may_be_foreign(foreign: str, layout: str) -> None:
    """Quotations, a summary in English, a prompt for an image: only what goes on beyond eight passages has
    drifted."""
    own = f"<risposta>\n{' '.join(PROSE['it'])}\n</risposta>\n"
    few, many = (
        layout.format(own + foreign.format("\n".join(f"<citazione>{each}</citazione>" for each in sentences)))
        for sentences in (PROSE["en"][:4], [*PROSE["en"], *PROSE["fr"]])
    )
    spec = DetectorSpec(language="it")
    assert detect_text(few, spec, "stop").symptom is None
    if not layout.startswith("Ecco"):  # behind prose, without a fence, it looks like code
        assert detect_text(many, spec, "stop").symptom is SymptomKind.LANGUAGE_DRIFT


def test_what_follows_a_document_of_xml_is_judged() -> None:
    """The end of its first element ends the document."""
    document = "<dati>\n  <voce>uno</voce>\n  <voce>due</voce>\n</dati>"
    text = "\n\n".join([" ".join(PROSE["it"]), document, *PROSE["en"]])
    assert detect_text(text, DetectorSpec(language="it"), "stop").symptom is SymptomKind.LANGUAGE_DRIFT
    address = "<https://example.com/a> è l'indirizzo.\n\n" + "\n\n".join([*PROSE["it"], *PROSE["en"]])
    assert detect_text(address, DetectorSpec(language="it"), "stop").symptom is SymptomKind.LANGUAGE_DRIFT


@pytest.mark.parametrize(
    ("sentences", "elements"),
    [
        (["<a>", "<b>Eins.</b>", "<c x='1'/>Zwei.", "</a> Drei."], ["a", "b", "a", ""]),
        (["<a><b>", "Eins.", "</b></a>", "Zwei."], ["b", "b", "", ""]),
        (["</x> Eins.", "<y>Zwei.", "</z>Drei."], ["", "y", "y"]),
        (["<https://a/b> Eins."], [""]),
    ],
)
def test_the_element_of_a_sentence(sentences: list[str], elements: list[str]) -> None:
    """The one in which its first words stand; tags that close nothing, or that are none, change nothing."""
    tracker = ElementTracker()
    found = []
    for sentence in sentences:
        tracker.read(sentence)
        found.append(tracker.element)
    assert found == elements


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_file_of_translations_is_in_both_languages(source: str, target: str) -> None:
    """XLIFF holds each text beside its translation, in elements of lines of their own."""
    unit = '    <trans-unit id="{}">\n      <source>{}</source>\n      <target>{}</target>\n    </trans-unit>'
    units = (
        unit.format(n, one, other)
        for n, (one, other) in enumerate(zip(PROSE[source], PROSE[target], strict=True))
    )
    text = '<?xml version="1.0"?>\n<xliff version="1.2">\n' + "\n".join(units) + "\n</xliff>"
    for shown in (text, f"```xml\n{text}\n```"):
        assert detect_text(shown, DetectorSpec(language=target), "stop").symptom is None


PAGE = """<!DOCTYPE html>
<html lang="en">
<style>
.box { max-width: 600px; margin: 0 auto; }
</style>
<!-- The main container that holds all of the elements of the page -->
<div class="box">
<h1>Welcome to our website</h1>
<p>We are a small team of designers and developers who love to build beautiful things for the web.</p>
<p>Please fill out the form below and we will get back to you as soon as possible.</p>
</div>
<script>
// When the user clicks on the button we show a message
button.addEventListener("click", () => {
  alert("Thank you for your message, we will be in touch with you soon!");
});
</script>
</html>"""
QUERIES = """for (const each of all) {
  const said = "Thank you for your message and we will be in touch with you soon";
  print("the quick brown fox jumps over the lazy dog and runs away from it");
  return this.is.not.the(end);
}
"""


@pytest.mark.parametrize("code", [PAGE, QUERIES * 3], ids=["a page", "statements"])
@pytest.mark.parametrize("fence", ["{}", "```html\n{}\n```"])
@pytest.mark.parametrize("after", [True, False])
def test_a_page_of_code_is_in_no_language(code: str, fence: str, *, after: bool) -> None:
    """What a page shows is the programmer's example, with a fence around it or none."""
    before = " ".join(PROSE["it"])
    text = f"{before}\n\n{fence.format(code)}\n\n{before if after else ''}"
    assert watch(text, "it")[0].symptoms() == []
