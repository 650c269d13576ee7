"""Words that no language has, among the function words of one: what a model writes that hardly knows it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import detect_text
from stresstest.model import GenerationVerdict, SymptomKind

PROSE = {
    "it": "Il vecchio pescatore tornò al porto quando ormai era notte e nessuno lo aspettava più. La maestra "
    "aprì la finestra e ascoltò a lungo il rumore della pioggia sui tetti delle case. Nel cortile una donna "
    "raccoglieva le lenzuola prima che il vento le portasse via. Il fornaio accese la luce della bottega, "
    "contò i sacchi di farina e si mise a scrivere una lettera alla sorella, che viveva oltre il confine.",
    "fr": "Le vieux pêcheur rentra au port alors qu'il faisait déjà nuit et que personne ne l'attendait "
    "plus. "
    "La maîtresse ouvrit la fenêtre et écouta longtemps le bruit de la pluie sur les toits des maisons. "
    "Dans la "
    "cour une femme ramassait les draps avant que le vent ne les emporte. Le boulanger alluma la lampe de sa "
    "boutique, compta les sacs de farine et se mit à écrire une lettre à sa sœur, qui vivait au loin.",
    "en": "The old fisherman came back to the harbour when it was already dark and nobody was waiting. The "
    "teacher opened the window and listened for a long time to the rain on the roofs of the town. In the "
    "yard "
    "a woman was taking in the sheets before the wind could carry them away. The baker lit the lamp in his "
    "shop, counted the sacks of flour and began a letter to his sister, who lived beyond the border.",
}
SYLLABLES = {
    "it": [
        "bri",
        "ca",
        "ronta",
        "sel",
        "mina",
        "dostra",
        "pengo",
        "luria",
        "ghetta",
        "vanno",
        "chiepa",
        "strillo",
        "mezia",
        "tondra",
    ],
    "fr": [
        "bri",
        "que",
        "rontai",
        "sel",
        "miné",
        "dourte",
        "pengeai",
        "lurie",
        "guette",
        "vanch",
        "chépa",
        "trille",
        "mésie",
        "tondre",
    ],
    "en": [
        "brin",
        "cask",
        "ronter",
        "sell",
        "mindle",
        "doust",
        "peng",
        "lurry",
        "ghet",
        "vank",
        "cheap",
        "strill",
        "mezzle",
        "tond",
    ],
}


def with_invented(text: str, language: str, share: float, seed: int) -> str:
    """The text with this share of its longer words exchanged for invented ones that look like the "
    "language."""
    rng = random.Random(seed)
    return " ".join(
        "".join(rng.sample(SYLLABLES[language], 2)) + word.lstrip("abcdefghijklmnopqrstuvwxyzàèéìòùâêîôûœç")
        if len(word) > 4 and word.islower() and rng.random() < share
        else word
        for word in text.split(" ")
    )


def both(text: str, language: str) -> GenerationVerdict:
    """The verdict online; the recorded one must find the same."""
    spec = DetectorSpec(language)
    verdict = detect_text(text, spec, "stop")
    recorded = detect_recorded(text, spec, "stop")
    assert (recorded.symptom, recorded.onset) == (verdict.symptom, verdict.onset)
    return verdict


@pytest.mark.slow
@pytest.mark.parametrize("language", ["it", "fr", "en"])
@pytest.mark.parametrize("healthy", [0, 1])
def test_invented_words_among_function_words_are_found_where_they_begin(language: str, healthy: int) -> None:
    """The function words are right and the letters likely, so nothing else can tell. A stretch that an
    identifier takes for another language is judged again a few words later."""
    before = PROSE[language] * healthy
    start, near = len(before.split()), 0
    for seed in range(20):
        broken = with_invented(" ".join([PROSE[language]] * 2), language, 0.6, seed)
        verdict = both(f"{before} {broken}".strip(), language)
        assert verdict.symptom is SymptomKind.GIBBERISH
        assert verdict.onset is not None
        near += start - 5 <= verdict.onset <= start * 1.2 + 30
    assert near >= 17


@pytest.mark.parametrize("language", ["it", "fr", "en"])
def test_capitals_change_nothing(language: str) -> None:
    """A model that shouts invents words as one that does not; a healthy text in capitals is healthy."""
    assert both(with_invented(PROSE[language] * 2, language, 0.6, 4).upper(), language).degenerate
    assert not both(PROSE[language].upper(), language).degenerate


@given(st.sampled_from(["it", "fr", "en"]), st.integers(0, 1_000))
@settings(max_examples=30, deadline=None)
def test_an_invented_word_now_and_then_is_no_gibberish(language: str, seed: int) -> None:
    """Small models invent a word here and there and go on telling their story."""
    assert not both(with_invented(PROSE[language], language, 0.05, seed), language).degenerate


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "en",
            "The panel tests for Chlamydia trachomatis, Neisseria gonorrhoeae, Mycoplasma genitalium, "
            "Ureaplasma "
            "urealyticum, Mycoplasma hominis and Trichomonas vaginalis, and the results come within a day.",
        ),
        (
            "en",
            "Which command changes the context of a file?\nA) chcon\nB) chmod\nC) setfacl\nD) chown\nWhich "
            "one lists "
            "the booleans?\nA) setsebool\nB) getsebool\nC) semanage\nD) sestatus\nWhich one filters "
            "packets?\nA) "
            "netfilter\nB) iptables\nC) tcpdump\nD) seport",
        ),
        (
            "en",
            "His father said “ayun sabi sakin, gusto mo ikaw ang masaktan ha, bibigyan kita ng sakit” and "
            "then he "
            "wrote “maraming salamat anak, sana basahin mo ito sa burol ko kapag namatay ako” on the card.",
        ),
        (
            "it",
            "Per il business plan della startup servono un team, un budget, un business model, il "
            "marketing, il cloud "
            "e un software di project management: il manager ne parla nel meeting con lo staff e con i "
            "partner.",
        ),
        (
            "fr",
            "Le marketing digital demande un bon storytelling, un community manager, des newsletters, du "
            "networking "
            "et un peu de design : le start-upper en parle pendant le brunch avec son coach et ses "
            "followers.",
        ),
        (
            "it",
            "Si aggiungono il wakame, il kombu, lo shiitake e il mirin, poi si serve il dashi con gli udon, "
            "il "
            "tempura e il daikon grattugiato, come si fa nelle case di campagna del Giappone.",
        ),
    ],
)
def test_terms_and_borrowed_words_are_no_gibberish(language: str, text: str) -> None:
    """Species, commands, speech in another language, loan words, ingredients: real, and in no list."""
    assert not both(text, language).degenerate
