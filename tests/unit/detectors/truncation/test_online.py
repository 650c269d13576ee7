"""Truncation: a chosen end in mid-sentence or mid-structure, and the many good ends that look like it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.truncation.online import TruncationDetector, may_be_truncated
from stresstest.model import Symptom, SymptomKind, Token

BODY = {
    "it": "Il vecchio tornò al porto quando era notte. Nessuno lo aspettava più. La maestra chiuse la"
    " finestra e ascoltò la pioggia. Poi tutti andarono a dormire.",
    "en": "The old man came back when it was dark. Nobody was waiting any more. The teacher closed the window"
    " and listened to the rain. Then everybody went to sleep.",
    "fr": "Le vieil homme revint quand il faisait nuit. Personne ne l'attendait plus. La maîtresse ferma la"
    " fenêtre et écouta la pluie. Puis tout le monde alla dormir.",
}
CUT = {
    "it": "Il giorno dopo il ragazzo prese la",
    "en": "The next day the boy took his",
    "fr": "Le lendemain le garçon prit la",
}


def tokens(text: str) -> list[str]:
    """Pieces of about the size of a model's tokens."""
    return re.findall(r"\s*\w{1,5}|\s*\W", text)


def watch(text: str, reason: str | None = "stop", language: str | None = "it") -> list[Symptom]:
    """The symptoms of an answer that ended for `reason`."""
    feed = TextSegmenter()
    detector = TruncationDetector(DetectorSpec(language=language), feed)
    for piece in tokens(text):
        token = Token(piece)
        feed.update(token)
        detector.update(token)
    detector.finish(reason)
    assert detector.open_from is None
    return detector.symptoms()


@pytest.mark.parametrize("language", BODY)
def test_a_chosen_end_in_mid_sentence_is_found(language: str) -> None:
    """The onset is the first token of the sentence that was left, the alarm the last token."""
    text = BODY[language] + " " + CUT[language]
    (symptom,) = watch(text, language=language)
    assert symptom.kind is SymptomKind.TRUNCATION
    assert symptom.confirmed
    assert symptom.onset == len(tokens(BODY[language])) + 1
    assert symptom.alarm == len(tokens(text))


@pytest.mark.parametrize("reason", ["length", None, "abort", "error"])
def test_only_a_chosen_end_is_judged(reason: str | None) -> None:
    """Reaching the cap, a lost connection or our own abort is no symptom."""
    assert watch(BODY["it"] + " " + CUT["it"], reason) == []


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "\n\nFine",
        "\n\nTHE END",
        "\n\n- pane\n- vino\n- olio e sale",
        "\n\n1. Il porto\n2. La piazza del paese",
        "\n\n## Bibliografia e fonti",
        "\n\n| nome | luogo |\n|---|---|\n| Marta | Torino |",
        " «E così sia», disse. «Buona notte!»",
        " **E vissero felici.**",
        " Buona lettura! 😊",
        " Buona lettura a tutti 😊",
        "\n\nCon affetto,\nMarta",
        "\n\nVedi https://example.com/storia/del/vecchio/pescatore",
        "\n\n```python\nprint('fine')\n```",
        "\n\n```python\nprint('fine')\n```<|action_end|>",
        "\n\n```\nx = f() {\n}```\nCosì funziona anche questo.",
        "\n\n```markdown\nTitolo\n```python\nprint('fine')\n```",
        "\n\n```markdown\nTitolo\n```python\nprint('fine')\n```\n```",
        " E poi…",
        " Quindi alla fine la risposta giusta è 42",
        " Per finire, il nome del vincitore è: Marta",
        "\n\n---",
    ],
)
def test_good_endings_are_not_accused(ending: str) -> None:
    """Lists, signatures, headings, tables, emoji, links and closed code end an answer well."""
    assert watch(BODY["it"] + ending) == []


def test_verse_is_not_accused() -> None:
    """A text that never closes its lines with a mark has not been cut for lack of one."""
    verse = "\n".join(["Il vento va sul mare e non ritorna", "la sera scende piano sulle case"] * 6)
    assert watch(verse) == []


def test_short_answers_are_never_accused() -> None:
    """Below twenty words nothing is certain."""
    assert watch("Il nome della capitale è Roma. La città del fiume e della") == []


def test_an_open_code_block_is_a_truncation() -> None:
    """The onset is the line that opened the block."""
    text = BODY["it"] + "\n\n```python\nfor x in range(3):\n    print(x)\n"
    (symptom,) = watch(text)
    assert symptom.confirmed
    assert symptom.detail["where"] == "code"
    assert symptom.onset == len(tokens(BODY["it"])) + 1  # the token "\n\n`"


def test_open_json_is_a_truncation_and_closed_json_is_not() -> None:
    """An answer that is JSON as a whole must close its brackets; brackets inside strings do not count."""
    rows = ", ".join(f'{{"nome": "Marta {n}", "luogo": "sul fiume {{ n"}}' for n in range(8))
    (symptom,) = watch(f'{{"righe": [{rows}, {{"nome": "Pie')
    assert symptom.detail["where"] == "json"
    assert watch(f'{{"righe": [{rows}]}}') == []


def test_chinese_is_judged_by_characters() -> None:
    """Without spaces between words the length must not count as one word."""
    body = "老渔夫在天黑之后才回到港口。那时已经没有人在等他了。孩子们在广场上追着一只狗跑。"
    assert watch(body, language="zh") == []
    (symptom,) = watch(body + "老师打开了那扇朝着大海的", language="zh")
    assert symptom.onset > 1


_ENDS = st.sampled_from(
    [
        *CUT.values(),
        *("Fine", "Ciao", "", "猫が庭を歩いて", "one 中文字中文字中文", "- una voce senza punto"),
        *("```", "```py", "~~~", "x = (", '{"a": [1,', "[[1, 2],", "12 e 13", "uno due tre quattro —"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(_ENDS | st.sampled_from([*BODY.values()]), min_size=1, max_size=5),
    st.sampled_from(["\n", " ", "\n\n"]),
    st.sampled_from(["", " ", "\n", ".", "!»", ",", "\n\n```"]),
    st.sampled_from(["it", "en", None]),
)
def test_the_glance_at_the_end_passes_no_truncation(
    parts: list[str], joint: str, end: str, language: str | None
) -> None:
    """Whatever the detector confirms, the cheap look at the last line and the brackets lets it be asked."""
    text = joint.join(parts) + end
    if any(symptom.confirmed for symptom in watch(text, language=language)):
        assert may_be_truncated(text)


def test_the_glance_at_the_end_passes_what_ends_in_good_order() -> None:
    """It is worth its place: texts that close their last sentence, code block or list are not asked."""
    body = BODY["it"]
    assert not any(
        map(may_be_truncated, (body, body + "\n\nMario", f"{body}\n```py\nx = 1\n```", "- a\n- b c d e f"))
    )


def test_tildes_under_a_title_open_no_code_block() -> None:
    """reStructuredText underlines its titles with them, in the docstring of many a module."""
    text = "A module that reads logs.\n\nReading logs\n~~~~~~~~~~~~\n\nIt reads them line by line. "
    assert not may_be_truncated(text + "It never holds a whole file, and it names the line of an error.")
