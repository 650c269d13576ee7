"""Language drift: planted in every direction and dated exactly; never seen in healthy texts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.inference import infer_group_language, infer_language
from stresstest.detectors.language import online
from stresstest.detectors.language.online import LanguageDetector
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.segments import MAX_SENTENCE_CHARS, TextSegmenter, TextSpan
from stresstest.model import SymptomKind, Token
from tests.support.drifting_texts import FIFTEEN, PROSE, confirmed, token_of, tokens, watch

PAIRS = list(itertools.permutations(PROSE, 2))


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
@pytest.mark.parametrize("after", [1, 4])
def test_drift_is_dated_to_its_first_sentence(wanted: str, other: str, after: int) -> None:
    """Whatever the direction, the onset is the first token of the first foreign sentence."""
    text = " ".join(PROSE[wanted][:after] + PROSE[other][3:])
    detector, _ = watch(text, wanted)
    (symptom,) = detector.symptoms()
    assert symptom.kind is SymptomKind.LANGUAGE_DRIFT
    assert symptom.confirmed
    assert symptom.onset == token_of(text, PROSE[other][3])
    assert symptom.alarm >= symptom.onset
    assert symptom.end is None
    assert symptom.detail["language"] == other


@pytest.mark.parametrize(("wanted", "other"), PAIRS)
def test_an_answer_wrong_from_the_start_has_onset_one(wanted: str, other: str) -> None:
    """The wrong language from the first sentence is the plainest failure; even a short answer shows it."""
    for text in (" ".join(PROSE[other]), PROSE[other][0]):
        (symptom,) = watch(text, wanted)[0].symptoms()
        assert (symptom.onset, symptom.confirmed) == (1, True)


@pytest.mark.parametrize("wanted", PROSE)
def test_the_wanted_language_is_silent(wanted: str) -> None:
    """Healthy text gives nothing, and nothing of it stays open after a chosen end."""
    detector, _ = watch(" ".join(PROSE[wanted] * 3), wanted)
    assert detector.symptoms() == []
    assert detector.open_from is None


@pytest.mark.parametrize("between", ["・", "。・゜・。", "゛"])
def test_lines_of_marks_that_only_japanese_writes_break_nothing(between: str) -> None:
    """A bullet or an ornament alone on its line has no letters to weigh: beside an English line it ended
    the reading of a Japanese answer."""
    text = "\n".join(f"{line}\n{between}" for line in PROSE["en"])
    for verdict in (detect_text(text, DetectorSpec("ja"), "stop"), detect_recorded(text, DetectorSpec("ja"))):
        assert verdict.symptom is SymptomKind.LANGUAGE_DRIFT


HEALTHY_IT = [
    "Per avviare il cluster Kubernetes il team di DevOps usa una pipeline di continuous integration con"
    " Docker e GitLab, mentre il load balancer distribuisce le richieste HTTP ai server di backend.",
    "Vicino a loro sedevano John Smith, Sarah Connor, William Shakespeare e Jean-Baptiste de La Fontaine,"
    " e nessuno di loro conosceva ancora la storia del mulino.",
    "Come disse il poeta: «The woods are lovely, dark and deep, but I have promises to keep, and "
    "miles to go"
    " before I sleep». Poi chiuse il libro e tornò a casa sotto la pioggia.",
    "Le disse: “I have always loved you and I will never leave this town again, whatever happens”. Lei non"
    " rispose e guardò il mare per molto tempo.",
    "Per maggiori dettagli si veda https://www.example.com/the/quick/brown/fox/jumps/over/the/lazy/dog.html"
    " oppure si scriva all'indirizzo the.quick.brown.fox@example.com entro la fine del mese.",
    "Il comando da eseguire è `git commit --amend --no-edit && git push --force-with-lease origin "
    "main` e va"
    " lanciato dalla cartella del progetto.",
    "```python\nfor item in the_list_of_all_items:\n    print('this is the item that we want to "
    "see', item)\n"
    "    # if the item is not what we expected we should stop here and stop\n```\nIl ciclo stampa "
    "ogni cosa.",
    '{"customer name and address": "Mario Rossi, via Garibaldi dodici, Torino", "delivery instructions":'
    ' "lasciare il pacco al portiere se nessuno risponde al citofono"}',
]


@pytest.mark.parametrize("passage", HEALTHY_IT)
def test_foreign_matter_in_healthy_text_is_no_drift(passage: str) -> None:
    """Terms, names, quotations, code, addresses and JSON keys are not the answer's language."""
    text = "\n\n".join([PROSE["it"][0], passage, PROSE["it"][1], passage, PROSE["it"][2]])
    assert [s for s in watch(text, "it")[0].symptoms() if s.confirmed] == []


def test_one_foreign_sentence_is_a_warning_that_closes() -> None:
    """A single foreign sentence of many proves nothing: unconfirmed, ended, and no longer open."""
    text = " ".join(PROSE["it"][:3] + PROSE["en"][:1] + PROSE["it"][3:] + PROSE["it"][:3])
    detector, _ = watch(text, "it")
    (symptom,) = detector.symptoms()
    assert not symptom.confirmed
    assert symptom.onset == token_of(text, PROSE["en"][0])
    assert symptom.end == token_of(text, PROSE["it"][3]) - 1
    assert detector.open_from is None


def test_one_foreign_sentence_of_a_short_answer_is_drift() -> None:
    """An eighth of an answer is too much for a motto, wherever it stands; as clauses in its own sentences a
    little more is borne."""
    text = " ".join(PROSE["it"][:3] + PROSE["en"][:1] + PROSE["it"][3:])
    (symptom,) = watch(text, "it")[0].symptoms()
    assert symptom.confirmed
    assert symptom.onset == token_of(text, PROSE["en"][0])
    clause = "Крупная соль occupies more space than fine salt, что может быть полезно на кухне."
    around = "Соль нужна почти каждому блюду, и выбирать ее лучше по вкусу и по размеру кристаллов на столе."
    symptoms = watch(f"{around} {clause} {around}", "ru")[0].symptoms()
    assert [symptom.confirmed for symptom in symptoms] == [False]


@pytest.mark.parametrize(
    ("wanted", "before", "foreign"),
    [
        ("ja", "データモデル：", "وسط هذه العداوة وقع شاب في حب ابنة سيد عشيرة أخرى."),
        ("ja", "ここでは例を挙げます。", "प्लास्टिक बैग और कंटेनर पर्यावरण के लिए काफ़ी नुकसानदेह हो सकते हैं।"),
        ("ru", "Вот варианты:", "इस शहर में बहुत सारे लोग रहते हैं और वे हर सुबह काम पर जाते हैं।"),
        ("ru", "Итог:", "이 도시에는 많은 사람들이 살고 있으며 매일 아침 일하러 갑니다."),
        ("it", "Introduzione:", "この街には多くの人が住んでいて、毎朝仕事に出かけます。"),
    ],
)
def test_a_heading_does_not_speak_for_the_sentence_after_it(wanted: str, before: str, foreign: str) -> None:
    """A few words of the expected language before a sentence in other letters neither hide it nor date it
    back; and the last sentence of an answer is seen however short it is, when its letters are others."""
    native = FIFTEEN[wanted] * 6
    for rest in (native, ""):
        text = f"{native}\n\n{before}\n{foreign}\n\n{rest}"
        (symptom,) = watch(text, wanted)[0].symptoms()
        assert symptom.onset == token_of(text, foreign[:9])
        assert not symptom.confirmed


def test_a_drift_that_returns_for_good_has_an_end_and_a_second_drift_is_another() -> None:
    """Three healthy passages end a drift; what comes later is reported on its own, never twice."""
    text = " ".join(PROSE["it"][:2] + PROSE["en"][:3] + PROSE["it"][2:] + PROSE["fr"][:3])
    first, second = watch(text, "it")[0].symptoms()
    assert (first.onset, first.end) == (token_of(text, PROSE["en"][0]), token_of(text, PROSE["it"][2]) - 1)
    assert (second.onset, second.end) == (token_of(text, PROSE["fr"][0]), None)
    assert first.confirmed
    assert second.confirmed


@pytest.mark.parametrize(
    "foreign",
    [
        "老渔夫在天黑之后才回到港口，那时已经没有人在等他了。村子的广场上，孩子们追着一只狗跑。老师"
        "打开窗户，听了很久雨声。"
        "那天早上面包很早就卖完了，面包店门口的队伍一动不动。",
        "Старый рыбак вернулся в гавань, когда уже стемнело и никто его не ждал. На площади дети бегали за"
        " собакой, которая потеряла хозяина.",
    ],
)
def test_another_script_is_drift(foreign: str) -> None:
    """A Latin-script answer that goes on in Han or Cyrillic letters has drifted."""
    text = " ".join(PROSE["it"][:3]) + " " + foreign
    (symptom,) = watch(text, "it")[0].symptoms()
    assert symptom.confirmed
    assert symptom.onset == token_of(text, foreign[:4])


def test_a_close_relative_does_not_trip_it() -> None:
    """Short fluent Spanish with Italian cognates is not enough to call a Spanish answer Italian, or back."""
    spanish = "La casa era grande. La sala era clara. El gato dormía. La tarde era serena y la calma total."
    assert [s for s in watch(" ".join([spanish] * 3), "es")[0].symptoms() if s.confirmed] == []


def test_without_a_wanted_language_it_is_silent() -> None:
    """No verdict about a language nobody asked for."""
    detector, _ = watch(" ".join(PROSE["it"] + PROSE["en"]), None)
    assert detector.symptoms() == []
    assert detector.open_from is None


def test_what_is_not_yet_judged_is_open() -> None:
    """Healthy text is observed up to the unfinished sentence; a single foreign one holds it back."""
    text = " ".join(PROSE["it"][:3])
    cut = text + " Poi, uscendo"
    assert watch(cut, "it", "length")[0].open_from == token_of(cut, "Poi")
    drifting = " ".join([text, *PROSE["it"][3:], text, PROSE["en"][0]])
    assert watch(drifting, "it", None)[0].open_from == token_of(drifting, PROSE["en"][0])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_the_cut_into_tokens_does_not_move_the_onset(sizes: list[int]) -> None:
    """Stored text and live stream agree: the onset is the token that holds the same character."""
    text = " ".join(PROSE["it"][:3] + PROSE["fr"][:3])
    feed = TextSegmenter()
    detector = LanguageDetector(DetectorSpec(language="it"), feed)
    at, turn = 0, 0
    while at < len(text):
        token = Token(text[at : at + sizes[turn % len(sizes)]])
        feed.update(token)
        detector.update(token)
        at, turn = at + len(token.text), turn + 1
    detector.finish("stop")
    (symptom,) = detector.symptoms()
    assert symptom.onset == feed.token_at(text.index(PROSE["fr"][0]))


@pytest.mark.slow
@pytest.mark.parametrize("wanted", FIFTEEN)
def test_all_fifteen_languages_are_told_apart(wanted: str) -> None:
    """Each language is silent as itself and found, from its first sentence, as an answer in any other."""
    assert watch(FIFTEEN[wanted] * 2, wanted)[0].symptoms() == []
    for other, text in FIFTEEN.items():
        if other != wanted:
            symptoms = watch(text, wanted)[0].symptoms()
            assert [(s.onset, s.confirmed) for s in symptoms[:1]] == [(1, True)], other


@pytest.mark.parametrize("wanted", [code for code in FIFTEEN if code != "en"])
def test_an_english_opening_is_drift(wanted: str) -> None:
    """ "Sure, here is …": the answer began in another language, whatever follows."""
    text = f"Sure, here's a short story that you could use for the class:\n\n{FIFTEEN[wanted]}"
    (symptom,) = watch(text, wanted)[0].symptoms()
    assert (symptom.onset, symptom.confirmed) == (1, True)
    assert symptom.detail["language"] == "en"


def test_an_answer_that_is_one_quotation_is_judged() -> None:
    """Quotation marks around the whole answer excuse nothing; around a part of it they do."""
    assert watch(f'"{" ".join(PROSE["en"])}"', "it")[0].symptoms()[0].confirmed
    quoting = f'{PROSE["it"][0]} Disse: "{PROSE["en"][0]} {PROSE["en"][1]}" {PROSE["it"][1]}'
    assert watch(quoting, "it")[0].symptoms() == []


def test_foreign_sentences_here_and_there_make_a_drift_when_the_answer_ends() -> None:
    """No majority anywhere, and yet a quarter of the answer is in another language."""
    native, foreign = PROSE["it"], PROSE["en"]
    mixed = " ".join([*native[:3], foreign[0], *native[3:6], foreign[1], native[0]])
    first, *_ = watch(mixed, "it")[0].symptoms()
    assert first.confirmed
    assert first.onset == token_of(mixed, foreign[0])


LISTS_IT = [
    "1. The Lord of the Rings: The Return of the King\n2. Gone with the Wind\n3. One Flew over the "
    "Cuckoo's Nest\n"
    "4. The Good, the Bad and the Ugly\n5. Les Enfants du paradis\n6. Der Himmel über Berlin\n",
    "- the house: la casa, la maison, das Haus\n- the dog: il cane, le chien, der Hund\n"
    "- the book: il libro, le livre, das Buch\n- the tree: l'albero, l'arbre, der Baum\n",
    "- machine learning\n- natural language processing\n- cloud computing\n- load balancer\n- "
    "feature engineering\n"
    "- continuous integration\n- test driven development\n",
    "a) The book is read by everyone in the class.\nb) The book was being read by the whole class.\n"
    "c) The book has been read by someone in the class.\nd) The book will be read by the class tomorrow.\n",
    "| term | meaning in the text of the law |\n| --- | --- |\n| due process | what the court owes "
    "to each party |\n",
    "> The woods are lovely, dark and deep, but I have promises to keep. And miles to go before I "
    "sleep, he said.\n",
]


@pytest.mark.parametrize("listed", LISTS_IT)
def test_titles_glossaries_terms_exercises_tables_and_citations_are_no_drift(listed: str) -> None:
    """Foreign words that stand in an answer for their own sake say nothing about its language."""
    text = "\n\n".join([PROSE["it"][0], listed, PROSE["it"][1], listed, PROSE["it"][2]])
    assert [s for s in watch(text, "it")[0].symptoms() if s.confirmed] == []


def test_sentences_of_the_prompt_are_no_drift() -> None:
    """A text to translate comes back in its own language first."""
    spec = DetectorSpec(language="it", prompt_text="Traduci:\n" + "\n".join(PROSE["en"][:3]))
    feed = TextSegmenter()
    detector = LanguageDetector(spec, feed)
    for piece in tokens(" ".join([*PROSE["it"][:2], *PROSE["en"][:3], *PROSE["it"]])):
        feed.update(Token(piece))
        detector.update(Token(piece))
    detector.finish("stop")
    assert detector.symptoms() == []


@pytest.mark.parametrize("language", FIFTEEN)
def test_the_language_is_inferred_from_the_start(language: str) -> None:
    """What nobody said is told by the answer's start, and a later drift does not change it."""
    other = "en" if language != "en" else "it"
    assert infer_language(FIFTEEN[language]) == language
    assert infer_language(FIFTEEN[language] * 4 + " " + FIFTEEN[other] * 20) == language


def test_what_is_not_plain_is_not_inferred() -> None:
    """Numbers, code, a word or two, half one language and half another: no language."""
    for text in (
        "",
        "42",
        "OK.",
        "```python\nprint('the answer is in the code')\n```",
        "- 1985\n- 1990\n" * 9,
    ):
        assert infer_language(text) is None
    assert infer_language(" ".join([*PROSE["it"][:3], *PROSE["en"][:3]])) is None


def test_a_group_speaks_for_the_answers_that_are_not_plain() -> None:
    """The majority of a group's settled answers; none without a clear one."""
    assert infer_group_language([FIFTEEN["fr"]] * 3 + [FIFTEEN["en"], "42"]) == "fr"
    assert infer_group_language([FIFTEEN["fr"], "1, 2, 3"]) == "fr"
    assert infer_group_language([FIFTEEN["fr"], FIFTEEN["en"]]) is None
    assert infer_group_language(["42", ""]) is None


LINES_OF_TWO = [
    ("Il vecchio pescatore tornò al porto di notte.", "The old fisherman came back to the harbour at night."),
    ("Dov'è la stazione dei treni?", "Where is the railway station?"),
    ("La maestra aprì la finestra e ascoltò.", "The teacher opened the window and listened."),
    ("Vorrei prenotare una camera con il bagno.", "I would like to book a room with a bath."),
    ("Sua sorella gli aveva scritto una lettera.", "His sister had written him a letter."),
    ("Non capisco quello che mi dice.", "I do not understand what you are telling me."),
]


@pytest.mark.parametrize(
    "form",
    [
        "IT: {0}\nEN: {1}",
        "EN: {1}\nIT: {0}",
        "**Italiano:** {0}\n**Inglese:** {1}\n",
        "- {0} – {1}",
        "{0}\t{1}",
    ],
)
def test_parallel_text_is_not_drift(form: str) -> None:
    """Translations line by line, in either order, or side by side, are in two languages on purpose."""
    text = "\n".join(form.format(*pair) for pair in LINES_OF_TWO * 2)
    assert not confirmed(text, "it")


def test_a_vocabulary_is_not_drift() -> None:
    """Its halves are too short for a verdict of their own."""
    pairs = [
        "la casa – the house",
        "andare a letto – to go to bed",
        "il cane del vicino – the neighbour's dog",
    ]
    assert not confirmed("\n".join(f"- {pair}" for pair in pairs * 3), "it")


def test_drift_after_parallel_text_is_found() -> None:
    """Once the expected language does not come back, the labels excuse nothing."""
    pairs = "\n".join(f"IT: {own}\nEN: {other}" for own, other in LINES_OF_TWO)
    text = pairs + "\n" + "\n".join(f"EN: {line}" for line in PROSE["en"])
    (drift,) = confirmed(text, "it")
    assert token_of(text, "EN: " + LINES_OF_TWO[-1][1]) <= drift.onset <= token_of(text, PROSE["en"][1])


def test_sentences_of_two_languages_in_turn_are_drift() -> None:
    """In one paragraph the other language is not there as a translation."""
    mixed = [sentence for pair in zip(PROSE["it"], PROSE["en"], strict=True) for sentence in pair]
    assert confirmed(" ".join(mixed), "it")


def test_lines_of_two_languages_in_turn_are_drift_where_they_are_not_alike() -> None:
    """A line that is many times as long as its neighbour is no translation of it."""
    mixed = [
        line for i in range(3) for line in ("Era una notte di pioggia.", " ".join(PROSE["en"][i : i + 3]))
    ]
    assert confirmed("\n\n".join([PROSE["it"][0], *mixed]), "it")


def records(text: str) -> str:
    """A JSON array of reviews that all say `text`, with literals, a code and names."""
    names = ["Eva Schmidt", "John Smith", "Ann Lee", "Marta Bianchi"]
    fields = '{{"autore": "{0}","voto": 4,"testo": "{1}","verificata": true,"lingua": "it"}}'
    return "[" + ", ".join(fields.format(names[i % 4], text) for i in range(20)) + "]"


def test_literals_and_codes_of_json_are_no_language() -> None:
    """true, "it" and names stand between the reviews; what the reviews say still counts."""
    italian = "Ottimo prodotto, lo uso ogni giorno. Anche la spedizione è stata veloce."
    assert watch(records(italian), "it")[0].symptoms() == []
    assert confirmed(records("It broke after a week. Nobody answered any of my letters."), "it")


MIXED = [*PROSE["it"][:4], *PROSE["en"]]
FOREIGN_FROM_THE_MIDDLE = {
    "table": "| N. | Descrizione |\n|---|---|\n"
    + "".join(f"| {n} | {line} |\n" for n, line in enumerate(MIXED)),
    "JSON on one line": json.dumps(
        {"capitoli": [" ".join(MIXED[n : n + 2]) for n in range(0, len(MIXED), 2)]}
    ),
    "fence of Markdown": "```markdown\n" + "\n\n".join(MIXED) + "\n```",
    "fence of text": "```text\n" + "\n\n".join(MIXED) + "\n```",
    "block quote": "\n".join(f"> {line}" for line in MIXED),
}


@pytest.mark.parametrize("form", FOREIGN_FROM_THE_MIDDLE)
def test_drift_in_an_answer_that_is_a_table_a_record_or_a_block_is_found(form: str) -> None:
    """Where the whole answer has a form whose parts are otherwise left out, its language counts: online, and
    in recorded text, whose screen passes on parts of it."""
    text = FOREIGN_FROM_THE_MIDDLE[form]
    spec = DetectorSpec(language="it")
    found = detect_text(text, spec, "stop")
    assert found.symptom is SymptomKind.LANGUAGE_DRIFT
    assert detect_recorded(text, spec, "stop").onset == found.onset


PHRASES = [
    ("Good day, how are you?", "Buongiorno, come sta?"),
    ("Can you help me, please?", "Mi può aiutare, per favore?"),
    ("Where is the nearest train station?", "Dov'è la stazione più vicina?"),
    ("How much does this jacket cost?", "Quanto costa questa giacca?"),
    ("I have lost my key.", "Ho perso la mia chiave."),
    ("I would like a table for two people.", "Vorrei un tavolo per due persone."),
    ("At what time does the train leave?", "A che ora parte il treno?"),
    ("The museum opens at nine o'clock.", "Il museo apre alle nove."),
    ("I am looking for a present for my mother.", "Cerco un regalo per mia madre."),
    ("What would you like to drink?", "Che cosa desidera da bere?"),
]


@pytest.mark.parametrize("layout", ["{n}. **{one}** – {other}", "- {one} → {other}", "- **{one}** ({other})"])
def test_phrases_with_their_translations_are_no_drift(layout: str) -> None:
    """Nor is the last one while its translation is still to come: sentences end before it. An answer that
    goes on in the other language has drifted all the same."""
    lines = [layout.format(n=n, one=one, other=other) for n, (one, other) in enumerate(PHRASES, 1)]
    text = "Ecco alcune frasi utili per il viaggio, con la loro traduzione:\n\n" + "\n".join(lines)
    assert not confirmed(text, "it")
    assert confirmed(text + "\n\n" + " ".join(PROSE["en"]), "it")


def test_a_column_of_translations_is_no_drift() -> None:
    """A phrase book: the language of a column is what it began in."""
    lines = [f"| {native} | {foreign} |" for native, foreign in zip(PROSE["it"], PROSE["en"], strict=False)]
    text = "Ecco la tabella che hai chiesto.\n\n| frase | traduzione |\n|---|---|\n" + "\n".join(lines)
    assert [s for s in detect_text(text, DetectorSpec(language="it"), "stop").symptoms if s.confirmed] == []


def test_a_long_answer_without_evidence_is_read_again_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """62 MB of brackets were read a second time at the answer's end, all at once, which took 103 s."""
    monkeypatch.setattr(online, "MAX_READ_AGAIN", 5_000)
    read: list[int] = []
    process = LanguageDetector._process_sentence

    def counting(self: LanguageDetector, sentence: TextSpan, wanted: str) -> None:
        read.append(len(sentence.text))
        process(self, sentence, wanted)

    monkeypatch.setattr(LanguageDetector, "_process_sentence", counting)
    detector, _ = watch("(" * 60_000, "it")
    detector.finish("stop")
    assert detector.symptoms() == []
    assert 65_000 <= sum(read) <= 65_000 + MAX_SENTENCE_CHARS
    assert detector.open_from is None


def test_the_part_that_is_read_again_tells_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is one quotation in another script is a drift, however long it is."""
    text = "\n".join(f"“{sentence}”" for sentence in ["Добрый день, дорогие друзья и соседи."] * 40)
    assert confirmed(text, "it")
    monkeypatch.setattr(online, "MAX_READ_AGAIN", 300)
    assert confirmed(text, "it")
