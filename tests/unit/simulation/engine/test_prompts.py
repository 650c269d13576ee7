"""Prompts are read for what they ask, however they come."""

from __future__ import annotations

import pytest

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.grammar import GRAMMAR_LANGUAGES
from stresstest.simulation.engine.prompts import ParsedPrompt, read_prompt
from stresstest.tasks import load_task, shipped_tasks

NARRATIVE = load_task("narrative")
INSTRUCTION = NARRATIVE.prompt("it", 3, 75).messages[0].content
CONSTRAINT = NARRATIVE.language("it").language_constraint or ""
BEGUN = "Paragrafo 1. C'era una volta un re.\n\nParagrafo 2. La regina partì all'alba."
SHIPPED = [(task, language) for task in shipped_tasks() for language in load_task(task).languages]


def _chat(user: str, system: str | None = None, answer: str = "") -> list[int]:
    messages = [] if system is None else [("system", system)]
    return [*vocabulary.encode_chat([*messages, ("user", user)]), *vocabulary.encode(answer)]


def _read(ids: list[int]) -> ParsedPrompt:
    return read_prompt(ids, GRAMMAR_LANGUAGES)


@pytest.mark.parametrize(("name", "language"), SHIPPED)
@pytest.mark.parametrize("open_structure", [False, True])
def test_every_shipped_instruction_is_recognised(name: str, language: str, open_structure: bool) -> None:
    """A hazard on task, language, structure or length is armed for the tool's own prompts."""
    task = load_task(name)
    prompt = task.prompt(language, 5, 40, open_structure=open_structure)
    found = _read(_chat(prompt.messages[0].content))
    assert (found.task, found.language, found.topic) == (name, language, prompt.topic)
    assert (found.structure, found.units) == (("open", None) if open_structure else ("rigid", 40))
    assert not found.language_constraint
    assert not found.system_prompt
    assert not found.answer


@pytest.mark.parametrize(("name", "language"), SHIPPED)
@pytest.mark.parametrize("where", ["system", "behind", "before"])
def test_every_shipped_constraint_is_recognised(name: str, language: str, where: str) -> None:
    """The language constraint counts as text wherever it stands, and is no answer begun."""
    task = load_task(name)
    text = task.prompt(language, 1, 30).messages[0].content
    constraint = task.language(language).language_constraint or ""
    found = _read(
        {
            "system": _chat(text, system=constraint),
            "behind": _chat(f"{text} {constraint}"),
            "before": _chat(f"{constraint}\n{text}"),
        }[where]
    )
    assert (found.language_constraint, found.language, found.task) == (True, language, name)
    assert found.system_prompt == (where == "system")
    assert not found.answer


@pytest.mark.parametrize(
    "words",
    [
        "Answer only in Italian.",
        "Rispondi soltanto in italiano!",
        "Réponds uniquement en italien",
        "In italiano, sempre.",
    ],
)
def test_a_constraint_in_other_words(words: str) -> None:
    """The source case's "answer only in Italian" counts like the shipped sentence."""
    assert _read(_chat(INSTRUCTION, system=words)).language_constraint
    assert _read(_chat(f"{INSTRUCTION} {words}")).language_constraint


def test_an_ordinary_system_prompt_is_no_constraint() -> None:
    """Only a wish for one language constrains."""
    found = _read(_chat(INSTRUCTION, system="You are a helpful assistant who answers in detail."))
    assert found.system_prompt
    assert not found.language_constraint


@pytest.mark.parametrize(
    ("answer", "first", "following", "inside"),
    [
        (BEGUN, 1, 3, True),
        (BEGUN + "\n\n", 1, 3, False),
        ("Paragrafo 40. C'era una volta un re.\n\nParagrafo 41. La regina partì.\n\n", 40, 42, False),
    ],
)
@pytest.mark.parametrize("form", ["chat", "plain", "user", "rendered"])
def test_an_answer_begun_is_found(answer: str, first: int, following: int, inside: bool, form: str) -> None:
    """Forks of stored token ids, plain text and truncated contexts go on where the answer stands."""
    ids = {
        "chat": _chat(INSTRUCTION, answer=answer),
        "plain": vocabulary.encode(f"{INSTRUCTION}\n\n{answer}"),
        "user": _chat(f"{INSTRUCTION} {CONSTRAINT}\n{answer}"),
        "rendered": vocabulary.encode(f"<|user|>{INSTRUCTION}<|end|><|assistant|>{answer}"),
    }[form]
    found = _read(ids)
    assert (found.task, found.units) == ("narrative", 75)
    assert (found.first_unit, found.next_unit, found.inside_unit) == (first, following, inside)
    assert found.answer_text == answer


def test_asked_to_go_on_in_a_new_turn() -> None:
    """A later user turn that is no instruction continues the answer at a new unit."""
    turns = [("user", INSTRUCTION), ("assistant", BEGUN), ("user", "Continua.")]
    found = _read(vocabulary.encode_chat(turns))
    assert (found.units, found.next_unit, found.inside_unit) == (75, 3, False)


@pytest.mark.parametrize(
    ("prompt", "task", "language", "units"),
    [
        ("Scrivi una storia in 75 paragrafi numerati sul mare e sui pescatori.", "narrative", "it", 75),
        ("Write a story in 40 numbered paragraphs about a dragon.", "narrative", "en", 40),
        ("Écris une histoire en 30 paragraphes numérotés sur la mer.", "narrative", "fr", 30),
        ("Schreibe eine Geschichte in 20 nummerierten Absätzen über das Meer.", "narrative", "de", 20),
        ("Write a manual with sections numbered from 1 to 25 on water pumps.", "technical", "en", 25),
        ("Generate 50 exam questions and answers about Rome.", "qa", "en", 50),
        ("What is the capital of France?", None, "en", None),
        ("Qual è la capitale della Francia e perché lo è?", None, "it", None),
    ],
)
def test_other_words_for_it(prompt: str, task: str | None, language: str, units: int | None) -> None:
    """A user's own prompts get numbered units where they ask for them, else plain prose in their language."""
    found = _read(_chat(prompt))
    assert (found.task, found.language, found.units) == (task, language, units)
    assert found.structure == ("open" if task is None else "rigid")


def test_a_language_the_model_cannot_write() -> None:
    """A model that knows no German answers a German prompt in English, or else in its first language."""
    german = _chat("Schreibe eine Geschichte in 20 nummerierten Absätzen über das Meer.")
    assert read_prompt(german, ("it", "en")).language == "en"
    assert read_prompt(german, ("it",)).language == "it"


@pytest.mark.parametrize(
    "ids", [[], [vocabulary.BOS], [vocabulary.END] * 5, vocabulary.encode_chat([]), [0, 255, 128]]
)
def test_strange_prompts_are_answered(ids: list[int]) -> None:
    """Nothing that a client can send breaks the reading."""
    assert _read(ids).task is None
