"""Languages that a prompt names."""

from __future__ import annotations

import pytest

from stresstest.detectors.languages.named import (
    NOT_NAMED,
    demands_language,
    named_languages,
    without_abilities,
)


@pytest.mark.parametrize(
    ("prompt", "codes"),
    [
        ("Do you know how to speak German?", {"de"}),
        ("Traduci in tedesco: casa", {"de"}),
        ("¿Cómo se dice casa en francés?", {"fr"}),
        ("Write in Italian. Do not switch to English.", {"it"}),
        ("Rispondi in italiano, mai in inglese.", {"it"}),
        ("Say what a lighthouse is for.", set()),
    ],
)
def test_a_language_is_named_unless_it_is_forbidden(prompt: str, codes: set[str]) -> None:
    """A prompt that forbids English must not make an answer that leaves for English healthy."""
    assert named_languages(prompt).codes == codes


@pytest.mark.parametrize(
    "prompt",
    [
        "Explain the Chinese economy since 1978.",
        "I would like to cook some Georgian dishes.",
        "Was it the Greek sculptor Polykleitos?",
        "Which Italian ice cream is the best?",
        "Why do Spanish people eat so late?",
        "Tell me about Chinese New Year.",
        "Compare Chinese and American artists.",
        "What are the differences in Chinese and American culture?",
        "The life of the Chinese in Malaya.",
        "Tell me about Chinese, American and French cuisine.",
        "A Chinese, a Japanese and an Italian walk into a bar.",
        "Was there a Chinese class of farmers?",
        "How do Chinese and their families travel?",
    ],
)
def test_an_adjective_names_no_language(prompt: str) -> None:
    """An English answer about China that ended in pages of Chinese was healthy."""
    assert named_languages(prompt) == NOT_NAMED


@pytest.mark.parametrize(
    "prompt",
    [
        "Give me the Chinese translation of this.",
        "Write it in Chinese and in English.",
        "Which Chinese characters are the oldest?",
        "Teach me Chinese!",
        "Put it into simple Chinese please",
        "Translate from Chinese to English: 你好",
        "Write a Chinese poem about the sea.",
        "Say hello in English, French or Chinese",
        "Is Chinese or Japanese the older language?",
        "Chinese, please.",
        "Output language: Chinese",
        "I speak Chinese and my wife does not.",
        "Translate the following letter from the Chinese.",
        "Write an essay in Chinese and English about trade.",
        "Answer in Chinese and English please",
        "I want Chinese as the output.",
    ],
)
def test_a_noun_of_language_leaves_the_name_what_it_is(prompt: str) -> None:
    """An answer with Chinese in it is then as asked for."""
    assert named_languages(prompt).welcomes("zh")


@pytest.mark.parametrize("prompt", ["Translate this into a second language.", "Say it in another language."])
def test_any_other_language_may_be_asked_for(prompt: str) -> None:
    """Whichever language the answer chooses is then as asked for."""
    assert named_languages(prompt).welcomes("fr")


@pytest.mark.parametrize(
    "prompt",
    [
        "Rewrite this in Old English",
        "Put it into Latin, please.",
        "in Klingon:",
        "Translate to Hinglish: hello.",
        "Write a note in Hindi, but in English letters.",
        "Transliterate: привет",
        "Give me the romanised Kannada of this.",
    ],
)
def test_a_language_without_a_model_is_told_apart(prompt: str) -> None:
    """Its words are not invented ones."""
    assert named_languages(prompt).unknown


@pytest.mark.parametrize(
    "prompt",
    [
        "A walk in the Irish countryside.",
        "Trade in Latin America",
        "Life in ancient Greece",
        "Respond only in English. Do not use non-English characters.",
        "A password of at least eight Latin characters",
        "How many letters has the English alphabet?",
        "Is this name romanized?",
        "Answer in English. Never romanise Hindi, never answer in Hinglish.",
        "",
    ],
)
def test_a_place_is_no_language(prompt: str) -> None:
    """Gibberish is judged as ever in answers about places."""
    assert named_languages(prompt) == NOT_NAMED or not named_languages(prompt).unknown


def test_only_the_ends_of_a_long_prompt_are_read() -> None:
    """A document of megabytes in a prompt costs no more than a page."""
    document = "It was a plain day at the harbour. " * 1000
    assert named_languages(f"{document} He spoke German. {document}").codes == frozenset()
    assert named_languages(f"Translate into German: {document}").codes == {"de"}


@pytest.mark.parametrize(
    "prompt",
    [
        "Describe un espacio de trabajo y la espalda de una silla.",
        "Descrivi la franja costiera e l'ingiuria del tempo.",
        "The spare room has an angled wall.",
        "Do not use any other language.",
        "N'utilise aucune autre langue.",
        "Verwende keine andere Sprache.",
        "No uses ningún otro idioma.",
    ],
)
def test_a_word_that_begins_like_a_language_names_none(prompt: str) -> None:
    """«espacio» is not Spanish, and a forbidden language is not wanted. A prompt that named one would exempt
    an answer that drifts there."""
    assert named_languages(prompt) == NOT_NAMED


@pytest.mark.parametrize(
    ("prompt", "demanded"),
    [
        ("You are an assistant. Respond only in English. Be brief.", True),
        ("Always answer the user in English!", True),
        ("Réponds toujours en anglais.", True),
        ("Never reply in English.", False),
        ("Reply in English if you do not know it.", False),
        ("English is the default language. Answer in English.", False),
        ("The manual is in English; translate it.", False),
        ("Write about life in England.", False),
    ],
)
def test_a_demanded_language_is_told_from_one_that_is_spoken_of(prompt: str, demanded: bool) -> None:
    """A support log whose prompt only spoke of English was full of drifts: every answer in Spanish."""
    assert demands_language(prompt, "en") is demanded


@pytest.mark.parametrize(
    ("system", "codes"),
    [
        ("You are a multilingual, helpful, respectful and honest assistant.", set()),
        (
            "You can communicate fluently in the language chosen by the user such as English and Chinese.",
            set(),
        ),
        ("You are optimised for Southeast Asian languages such as Burmese, Thai and Vietnamese.", set()),
        ("Respond in the chat's primary language. Default to English if multilingual.", set()),
        ("You are a tutor. Answer in Spanish, whatever you are asked.", {"es"}),
        ("You support many languages. Translate everything into French!", {"fr"}),
    ],
)
def test_what_a_model_speaks_is_no_language_that_is_wanted(system: str, codes: set[str]) -> None:
    """The default prompts of SeaLLM, InternLM, Sailor and Open WebUI: a word of theirs exempted the drifts of
    a whole log, and a gate passed at 33 %."""
    found = named_languages(without_abilities(system))
    assert (set(found.codes), found.any, found.unknown) == (codes, False, False)


def test_a_language_is_multilingual_unless_that_is_a_condition() -> None:
    assert named_languages("Write a bilingual poem.").any
    assert named_languages("If it is not in the text, answer in another language.").any
    assert not named_languages("Never write your whole answer in a different language.").any
    assert not named_languages("You don't reply to anybody who asks in a foreign language.").any
    assert not named_languages("Default to English if multilingual.").any
