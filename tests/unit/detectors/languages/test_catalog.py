"""One file a language: what it may hold, and that one more file is one more language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.foreign import detect_foreign_text, prefilter_language
from stresstest.detectors.identification.inference import infer_group_language, infer_language
from stresstest.detectors.identification.names import can_detect_drift
from stresstest.detectors.identification.votes import identified_languages
from stresstest.detectors.languages.catalog import (
    SHIPPED,
    alternatives,
    catalog,
    load_catalog,
    normalize_language,
    scripts_of,
)
from stresstest.detectors.languages.function_words import (
    count_function_words,
    covered_languages,
    extract_words,
    languages_of,
)
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text.scripts import script_of
from stresstest.detectors.text.tokens import text_tokens
from stresstest.errors import UsageError
from stresstest.model import SymptomKind
from tests.support.languages import further_languages
from tests.support.screened import clearly_in_language

SHIPPED_CODES = sorted(path.stem for path in SHIPPED.glob("*.toml"))
QUENYA = """
name = "Toy"
native_name = "lambë"
aliases = ["qy"]
function_words = "i ar na nar ve mi ana ho ter nu or uva umin sina tana illi ilya lala nan ananta sie sinome"
never_final_words = "ar ana mi"
abbreviations = "tar"
"""
TOY_TEXT = (
    "I aran ar i tari nar sinome mi osto, ananta illi i eldar umin tule ana sina nore. "
    "Ilya lómë i eleni nar or i eari ve calma mi lúmë, ar sie i vala uva mare ter i aiwi. "
    "Nan tana cirya na nu i falmar, ar i nér ho i osto uva lende ana i oron. "
)
ENGLISH = (
    "The king and the queen were in the city when the ships came back from the sea, and nobody knew why "
    "they had been away for so long. Later that year the harbour was closed because of the storms. "
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one language of the user's own."""
    (tmp_path / "qya.toml").write_text(QUENYA, encoding="utf-8")
    return tmp_path


def drifts(text: str, wanted: str) -> list[str]:
    verdict = detect_tokens(text_tokens(text), DetectorSpec(language=wanted), "stop")
    return [
        str(each.detail["language"])
        for each in verdict.symptoms
        if each.kind is SymptomKind.LANGUAGE_DRIFT and each.confirmed
    ]


@pytest.mark.parametrize("code", SHIPPED_CODES)
def test_a_shipped_file_is_sound(code: str) -> None:
    """Its scripts are those of its own name, its words are words, and the codes it names exist."""
    language = catalog().languages[code]
    letters = {script_of(char) for char in language.native_name if char.isalpha()}
    assert letters <= set(language.scripts)
    for word in language.function_words:
        assert extract_words(word) == [word]
    assert {*language.relatives, *language.twins} <= set(SHIPPED_CODES) - {code}


def test_the_shipped_languages() -> None:
    """Every file is a language, under its aliases too."""
    known = catalog()
    assert sorted(known.languages) == SHIPPED_CODES
    assert [normalize_language(tag) for tag in ("it-IT", "zh_cn", "nb", "iw", "xx")] == [
        "it",
        "zh",
        "no",
        "he",
        "xx",
    ]
    assert scripts_of("ja") == ("HAN", "KANA")
    assert scripts_of(None) == scripts_of("xx") == ("LATIN",)
    names = [language.name for language in known.languages.values()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_one_more_file_is_one_more_language(folder: Path) -> None:
    """A language that no identifier knows is told by its function words; outside the block it is unknown."""
    assert "qya" not in catalog().languages
    with further_languages([folder]) as known:
        assert known is catalog()
        assert normalize_language("qy") == "qya"
        assert "qya" in covered_languages()
        assert languages_of("sinome") == ("qya",)
        assert count_function_words(TOY_TEXT).clearly_in("qya")
        assert clearly_in_language(TOY_TEXT, "qya")
        assert prefilter_language(TOY_TEXT, "qya")
        assert infer_language(TOY_TEXT) == "qya"
        assert infer_group_language([TOY_TEXT] * 3) == "qya"
        assert can_detect_drift("qya")
        assert not detect_foreign_text(TOY_TEXT, "qya").foreign
        assert detect_foreign_text(ENGLISH, "qya").language == "en"
    assert infer_language(TOY_TEXT) != "qya"
    assert languages_of("sinome") == ()


def test_drift_into_and_out_of_the_language_of_a_new_file(folder: Path) -> None:
    """The detectors know it in both roles: wanted, and as what is foreign."""
    with further_languages([folder]):
        assert drifts(TOY_TEXT * 2, "qya") == []
        assert drifts(TOY_TEXT + ENGLISH * 2, "qya") == ["en"]
        assert drifts(ENGLISH + TOY_TEXT * 2, "en") == ["qya"]
        cut = detect_tokens(
            text_tokens(TOY_TEXT * 2 + "Tana cirya lende mi"), DetectorSpec(language="qya"), "stop"
        )
        assert cut.symptom is SymptomKind.TRUNCATION


def test_a_new_file_joins_the_languages_that_the_identifiers_consider(tmp_path: Path) -> None:
    """Esperanto is known to py3langid, and taken for others as long as no file mentions it."""
    text = "La granda domo staras apud la rivero, kaj ĉiuj infanoj ludas tie kiam la suno brilas en somero. "
    (tmp_path / "eo.toml").write_text('name = "Esperanto"\nnative_name = "Esperanto"\n', encoding="utf-8")
    assert detect_foreign_text(text, "en").language != "eo"
    with further_languages([tmp_path]):
        assert "eo" in identified_languages()
        assert detect_foreign_text(text, "en").language == "eo"
    assert "eo" not in identified_languages()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("xx", "", "the key name is missing"),
        ("xx", 'name = "X"\nnative_name = "x"\nfuncion_words = "a"', "did you mean 'function_words'"),
        ("xx", 'name = "X"\nnative_name = "x"\nfunction_words = "And"', "words in lower case, not 'And'"),
        (
            "xx",
            'name = "X"\nnative_name = "x"\nscripts = ["latin"]',
            "'latin' in scripts is not a script",
        ),
        ("xx", 'name = "X"\nnative_name = "x"\nrelatives = ["Italian"]', "is not a code, such as it"),
        ("xx", 'name = "X"\nnative_name = "x"\nrare = 1', "rare must be true or false, not 1"),
        ("klingon", 'name = "X"\nnative_name = "x"', "named by the language's code"),
        ("it", 'name = "X"\nnative_name = "x"', "the language code 'it' is already taken by it.toml"),
        ("xx", 'name = "X"\nnative_name = "x"\naliases = ["nb"]', "'nb' is already taken by no.toml"),
        ("xx", "name = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Whoever adds a language learns the file, the key and the mistake."""
    (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        load_catalog((SHIPPED, tmp_path))
    assert f"{name}.toml" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        (["day"], "a day", True),
        (["day"], "daylight", False),
        (["day*"], "daylight", True),
        (["day*"], "day", False),
        (["回"], "3回目", True),
        ([], "day", False),
    ],
)
def test_words_of_a_list_as_a_pattern(words: list[str], text: str, found: bool) -> None:
    """Whole words, beginnings of words, and scripts in which there are no word boundaries."""

    assert (re.search(alternatives(words), text) is not None) is found
