"""The cheap screen may pass a healthy passage, never a foreign one."""

from __future__ import annotations

import pytest

from stresstest.detectors.languages.function_words import quick_language_check
from tests.support.screened import clearly_in_language

NATIVE = {
    "it": "Il guardiano del faro non sapeva che la nave era già partita, perché nessuno glielo aveva detto "
    "nella lettera che aspettava da mesi.",
    "en": "The keeper of the lighthouse did not know that the ship had already left, because nobody had "
    "told him in the letter that he was waiting for.",
    "fr": "Le gardien du phare ne savait pas que le navire était déjà parti, car personne ne le lui avait "
    "dit dans la lettre qui devait arriver depuis des mois.",
    "de": "Der Wärter des Leuchtturms wusste nicht, dass das Schiff schon abgefahren war, weil ihm niemand "
    "in dem Brief davon geschrieben hatte, auf den er wartete.",
    "es": "El guardián del faro ya no sabía que los barcos habían zarpado, pero nadie se lo había dicho en "
    "las cartas que él esperaba desde hacía meses.",
    "pt": "O guardião do farol não sabia que os navios já tinham partido, mas ele esperava uma carta "
    "do capitão que nunca chegou ao porto.",
}


@pytest.mark.parametrize("language", NATIVE)
def test_a_passage_is_plainly_in_its_own_language_and_in_no_other(language: str) -> None:
    """Its own words pass it; as an answer in any other of the six languages it is never passed."""
    assert clearly_in_language(NATIVE[language], language)
    assert not any(clearly_in_language(NATIVE[language], other) for other in NATIVE if other != language)


@pytest.mark.parametrize("wanted", NATIVE)
@pytest.mark.parametrize("other", NATIVE)
def test_a_half_foreign_passage_goes_to_the_identifier(wanted: str, other: str) -> None:
    """Drift begins in the middle of sentences: a mixture is never plain."""
    if wanted != other:
        half = len(NATIVE[other]) // 2
        mixture = NATIVE[wanted][: len(NATIVE[wanted]) // 2] + " " + NATIVE[other][half:]
        assert not clearly_in_language(mixture, wanted)
        assert not quick_language_check(mixture, wanted)
        assert not quick_language_check(NATIVE[other], wanted)


@pytest.mark.parametrize("language", ["it", "en", "fr", "de"])
def test_the_fast_path_passes_plain_prose(language: str) -> None:
    """Or every sentence of a healthy answer would be looked at twice."""
    assert quick_language_check(NATIVE[language], language)


def test_what_it_cannot_judge_it_does_not_pass() -> None:
    """Short text, a language without a list, names and numbers only."""
    assert not clearly_in_language("Il mare non era che una riga.", "it")
    assert not clearly_in_language(NATIVE["it"], "nl")
    assert not clearly_in_language(
        "Marta Rossi, Pietro Bianchi, Lucia Verdi, Renzo Neri, Giulia Costa, 1985, 1990, Roma", "it"
    )
