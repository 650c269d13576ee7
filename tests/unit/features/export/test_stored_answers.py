"""Answers of stored runs, made by hand: where they are cut, and why a healthy one is no example."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import UsageError
from stresstest.features.export.answers import (
    IN_DOUBT,
    NOT_ENDED,
    OFFERED,
    OTHER_LANGUAGE,
    PARTIAL_PROMPT,
    REASONING,
    ExportedAnswer,
    LeftOutAnswer,
)
from stresstest.features.export.stored_answers import run_answers
from stresstest.model import (
    Decoding,
    Generation,
    GenerationVerdict,
    Message,
    Run,
    Symptom,
    SymptomKind,
    Token,
)
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.stored_data import make_generation, make_run
from tests.support.stories import story

ASKED = "Tell me a story."
PICTURE = {"type": "image_url", "image_url": {"url": "https://host/1.png"}}


def stored(folder: Path, generations: Sequence[Generation], prompt: dict[str, Any]) -> tuple[Store, Run]:
    """A run on one prompt of a file."""
    file = folder / "prompts.jsonl"
    file.write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    run = make_run()
    decoding = Decoding(system_prompt="Be brief.")
    subject = replace(run.settings.subject, language="en")
    settings = replace(run.settings, prompts_file=str(file), decoding=decoding, subject=subject)
    store = open_store(str(folder / "s.sqlite3"))
    store.create_run(replace(run, settings=settings))
    for generation in generations:
        store.add_generation("r1", generation)
    return store, store.run("r1")


def answer(index: int, text: str, **changes: Any) -> Generation:
    """A healthy answer of one token a word that ended by itself."""
    tokens = tuple(Token(f"{word} ") for word in text.split(" "))
    made = replace(
        make_generation(index),
        tokens=tokens,
        verdict=GenerationVerdict(len(tokens), len(tokens)),
        finish_reason="stop",
        aborted=False,
        prompt_text=f"Be brief.\n{ASKED}",
    )
    return replace(made, **changes)


def looping(index: int, copies: int) -> Generation:
    """Ten words, then a period of four words; known as a loop at its third copy."""
    words = [f"w{n}" for n in range(10)] + ["and", "the", "end", "of"] * copies
    symptom = Symptom(SymptomKind.LOOP, 15, 22, start=11)
    verdict = GenerationVerdict(len(words), 14, 15, 22, SymptomKind.LOOP, (symptom,), loops_to_end=True)
    return answer(index, " ".join(words), verdict=verdict, finish_reason="length")


MESSAGES = {"id": "a", "messages": [{"role": "user", "content": ASKED}]}


@pytest.mark.parametrize(("copies", "kept"), [(1, 22), (2, 22), (3, 26), (9, 34)])
def test_a_loop_is_cut_so_many_copies_after_its_onset(tmp_path: Path, copies: int, kept: int) -> None:
    """The onset, 15, begins the second copy; the alarm, 22, is always in; the end is the end."""
    store, run = stored(tmp_path, [looping(0, 6)], MESSAGES)
    with store:
        [found] = run_answers(store, run, copies)
    assert isinstance(found, ExportedAnswer)
    assert (found.tokens, found.onset, found.symptom) == (kept, 15, "loop")
    assert found.onset_char is not None
    assert found.text[found.onset_char :].startswith("and the end of")
    assert not found.healthy


def test_only_whole_healthy_answers_in_their_language_are_examples(tmp_path: Path) -> None:
    """Each of the others says why it is none; reasoning has no place in a pair."""
    text = story(3)
    length = len(text.split(" "))
    italian = "La nave arrivò nel porto di notte e nessuno ne parlò mai più. " * 2
    thought = (Token("Hm. ", reasoning=True), *(Token(f"{word} ") for word in text.split(" ")))
    store, run = stored(
        tmp_path,
        [
            answer(0, text),
            answer(1, text, finish_reason="length"),
            answer(2, text, aborted=True),
            answer(3, text, verdict=GenerationVerdict(length, length - 20)),
            answer(4, italian + "Il faro restò acceso, e il guardiano dormì fino al mattino."),
            answer(5, text, tokens=thought),
            answer(6, f"<think> Hm. </think> {text}", verdict=GenerationVerdict(length, length, reasoning=3)),
        ],
        MESSAGES,
    )
    with store:
        found = list(run_answers(store, run, 3))
    flaws = [each.flaw for each in found if isinstance(each, ExportedAnswer)]
    assert flaws == [None, NOT_ENDED, NOT_ENDED, IN_DOUBT, OTHER_LANGUAGE]
    assert found[5:] == [LeftOutAnswer(REASONING)] * 2


TOOLS = [{"type": "function", "function": {"name": "save"}}]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"tools": TOOLS}, OFFERED), ({"tools": TOOLS, "tool_choice": "none"}, None), ({"stop": ["."]}, None)],
    ids=["tools", "tools that may not be called", "no tools"],
)
def test_answers_that_may_be_calls_are_left_out(
    tmp_path: Path, fields: dict[str, Any], reason: str | None
) -> None:
    """A run keeps the arguments of calls as text of the answer."""
    store, run = stored(tmp_path, [answer(0, story(1))], MESSAGES)
    decoding = replace(run.settings.decoding, extra_body=json.dumps(fields))
    run = replace(run, settings=replace(run.settings, decoding=decoding))
    with store:
        [found] = run_answers(store, run, 3)
    assert (found.reason if isinstance(found, LeftOutAnswer) else None) == reason


def test_a_prompt_with_a_picture_is_left_out(tmp_path: Path) -> None:
    """It is more than the text that pairs have a place for."""
    seen = [{"type": "text", "text": ASKED}, PICTURE]
    shown = answer(0, story(1), prompt_text=f"Be brief.\n{ASKED}\n[image_url]")
    store, run = stored(tmp_path, [shown], {"id": "a", "messages": [{"role": "user", "content": seen}]})
    with store:
        assert list(run_answers(store, run, 3)) == [LeftOutAnswer(PARTIAL_PROMPT)]


def test_the_prompt_is_kept_apart_from_the_decodings_system_prompt(tmp_path: Path) -> None:
    """A pair shows both, as they were sent; a prompts file shows the user's own."""
    store, run = stored(tmp_path, [answer(0, story(1))], MESSAGES)
    with store:
        [found] = run_answers(store, run, 3)
    assert isinstance(found, ExportedAnswer)
    user = Message("user", ASKED)
    assert found.prompt.messages == (user,)
    assert found.prompt.messages_under(found.decoding) == (Message("system", "Be brief."), user)


def test_a_text_prompt_stays_a_text(tmp_path: Path) -> None:
    """What a completion continued has no roles."""
    store, run = stored(tmp_path, [answer(0, story(1), prompt_text=ASKED)], {"id": "a", "prompt": ASKED})
    with store:
        [found] = run_answers(store, run, 3)
    assert isinstance(found, ExportedAnswer)
    assert (found.prompt.text, found.prompt.messages_under(found.decoding)) == (ASKED, ())


def test_prompts_that_have_changed_are_refused(tmp_path: Path) -> None:
    """An answer beside a prompt that nobody asked would teach nonsense."""
    store, run = stored(tmp_path, [answer(0, story(1))], MESSAGES)
    other = {"id": "a", "messages": [{"role": "user", "content": "Something else."}]}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(other) + "\n", encoding="utf-8")
    with store, pytest.raises(UsageError, match="have changed"):
        list(run_answers(store, run, 3))
